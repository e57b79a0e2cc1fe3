"""A PostgreSQL of one's own for a benchmark, with its data in a temporary folder."""

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
    found = shutil.which(name) or next(
        (str(place / name) for place in reversed(PLACES) if (place / name).exists()), None)
    if found is None:
        raise SystemExit(f"PostgreSQL's {name} is missing: apt-get install postgresql")
    return found


@contextlib.contextmanager
def postgres():
    """Yield the URL of an empty database; its writes reach the disk as in operation."""
    folder = Path(tempfile.mkdtemp(prefix='arena-pg-'))
    # PostgreSQL refuses to run as root.
    who = {} if os.geteuid() else {'user': 'nobody', 'group': 'nogroup', 'extra_groups': []}
    if who:
        shutil.chown(folder, 'nobody', 'nogroup')
    environment = {**os.environ, 'LC_ALL': 'C.UTF-8', 'HOME': str(folder)}
    subprocess.run([program('initdb'), '-D', folder / 'data', '-U', 'arena', '-A', 'trust', '-E',
                    'UTF8'], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                   **who)
    server = subprocess.Popen(
        [program('postgres'), '-D', folder / 'data', '-k', folder, '-c', 'listen_addresses=',
         '-c', 'max_connections=150'], cwd=folder, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, **who)
    try:
        deadline = time.monotonic() + START_S
        while subprocess.run([program('pg_isready'), '-q', '-h', folder], check=False).returncode:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit('PostgreSQL did not start')
            time.sleep(0.05)
        yield f'postgresql+psycopg://arena@/postgres?host={folder}'
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20.0)
        shutil.rmtree(folder, ignore_errors=True)
