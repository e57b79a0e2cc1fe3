"""Restores a backup into an empty place, and checks what came back."""

import shutil
import tempfile
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.errors import Conflict, DataError
from arena_robot.core.files import replacing
from arena_robot.server.backup import Backup
from arena_robot.server.backup_files import FILES, check_files, key_files
from arena_robot.server.blobs import Blobs
from arena_robot.server.config import ServerConfig
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.snapshot import (
    check_pages,
    check_sqlite,
    put_back,
    snapshot_suffix,
    sqlite_file,
    tables,
    whole_files,
)
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.service import TransparencyLog
from arena_robot.server.transparency.verify import counted_comparisons

KEEPS = ('arena.db', FILES, 'log.key')


def restore(config: ServerConfig, folder: Path, clock: Clock) -> Backup:
    """
    Restore a backup to the place that a configuration names, and check it; return what is there.

    Every file of the backup is checked first. The database comes last, so a server never starts
    on half of a restore. Conflict when something is at that place already: nothing is overwritten.
    """
    found = check_files(folder)
    url = config.database_url()
    dump = folder / found['database']
    if dump.suffix != snapshot_suffix(url) or dump.name not in found['files']:
        raise DataError(f'{folder} has the database {dump.name}: it is of another kind than the '
                        'configuration names')
    _require_empty(config, url)
    if sqlite_file(url):
        check_sqlite(dump)
    config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    config.data.chmod(0o700)
    blobs = Blobs(config.blobs_url())
    blobs.open()
    names = [name for name in found['files'] if name.startswith(f'{FILES}/')]
    for name in names:
        _put(blobs, folder / name, name.removeprefix(f'{FILES}/'), config.data)
    for key in key_files(folder):
        _copy(key, config.data / key.name)
    if home := sqlite_file(url):
        _copy(dump, home)
    else:
        put_back(url, dump)
    schema, unchecked = check_restored(config, clock)
    return Backup(schema, found['sessions'], len(names),
                  sum((folder / name).stat().st_size for name in names), unchecked)


def check_restored(config: ServerConfig, clock: Clock) -> tuple[str, str]:
    """
    Check a server's data, after bringing the database to this version's schema.

    Returns the schema, and why the database's pages were not checked ('' when they were).
    Checked are also: the ledger adds up, the log has no gap and its reveals fit their commitments,
    every file that the database knows is in the store with its size. DataError otherwise.
    """
    blobs = Blobs(config.blobs_url())
    blobs.open()
    with Database(config.database_url()) as database:
        Ledger(database, clock).check()
        log = TransparencyLog(database, LogKey(config.data / 'log.key'), clock)
        counted_comparisons(log.bundle())
        with database.read() as connection:
            files, unchecked = whole_files(connection), check_pages(connection)
        for file, size, _ in files:
            if not blobs.exists(file.key) or blobs.size(file.key) != size:
                raise DataError(f'{file.key} is in the database and not whole in the store')
        return database.version() or '', unchecked


def _require_empty(config: ServerConfig, url: str) -> None:
    there = [name for name in KEEPS if (config.data / name).exists()]
    if home := sqlite_file(url):
        there += [str(home)] if home.exists() else []
    else:
        there += tables(url)
    if there:
        raise Conflict(f'{config.data} or its database is not empty: {", ".join(there[:5])}; '
                       'restore into an empty place')


def _put(blobs: Blobs, source: Path, key: str, data: Path) -> None:
    spool = data / 'spool'
    spool.mkdir(exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=spool) as near:
        shutil.copyfile(source, Path(near) / 'file')
        blobs.put(Path(near) / 'file', key)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(target) as part:
        shutil.copyfile(source, part)
        part.chmod(0o600)
