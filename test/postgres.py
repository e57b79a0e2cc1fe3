"""A PostgreSQL of one's own for tests, the campaign and benchmarks, in a temporary folder."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

PLACES = sorted(Path('/usr/lib/postgresql').glob('*/bin'))
START_S = 30.0


def program(name):
    """Return where one of PostgreSQL's programs is, None when it is missing."""
    path = shutil.which(name)
    return path or next((str(place / name) for place in reversed(PLACES)
                         if (place / name).exists()), None)


@contextlib.contextmanager
def postgres(durable=True):
    """Yield the URL of an empty database; ``durable``: its writes reach the disk."""
    if missing := [name for name in ('initdb', 'postgres', 'pg_isready') if not program(name)]:
        raise SystemExit(f"PostgreSQL's {missing[0]} is missing: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix='arena-pg-'))
    # PostgreSQL refuses to run as root.
    who = {} if os.geteuid() else {'user': 'nobody', 'group': 'nogroup', 'extra_groups': []}
    if who:
        shutil.chown(folder, 'nobody', 'nogroup')
    begin = {'cwd': folder, 'env': {**os.environ, 'LC_ALL': 'C.UTF-8', 'HOME': str(folder)}, **who}
    subprocess.run([program('initdb'), '-D', folder / 'data', '-U', 'arena', '-A', 'trust', '-E',
                    'UTF8', '--no-sync'], check=True, stdout=subprocess.DEVNULL, **begin)
    with (folder / 'log').open('wb') as log:
        server = subprocess.Popen(
            [program('postgres'), '-D', folder / 'data', '-k', folder, '-c', 'listen_addresses=',
             '-c', 'max_connections=150', '-c', f'fsync={"on" if durable else "off"}'],
            stdout=log, stderr=log, **begin)
    try:
        deadline = time.monotonic() + START_S
        while subprocess.run([program('pg_isready'), '-q', '-h', folder], check=False).returncode:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit('PostgreSQL did not start: '
                                 + (folder / 'log').read_text()[-1000:])
            time.sleep(0.05)
        yield f'postgresql+psycopg://arena@/postgres?host={folder}'
    finally:
        server.send_signal(signal.SIGQUIT)    # nobody needs what it holds
        server.wait(20.0)
        shutil.rmtree(folder, ignore_errors=True)
