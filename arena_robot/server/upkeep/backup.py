"""
Backups of a server, which may run meanwhile.

A backup is a folder:

    backup.json           version, schema, time, and the SHA-256 of every other file
    arena-<time>.db       a snapshot of SQLite; arena-<time>.dump of PostgreSQL (pg_dump)
    log.key               the key that signs the log
    blobs/                every uploaded file that the snapshot knows

The snapshot is taken first. An uploaded file is in the store before the database says that it is
complete, and is never changed, so every file of the snapshot can be copied after it. The list
``backup.json`` is replaced last, and then the snapshot before is removed: until then the folder is
the backup that it was. The key of the secrets in the database is not in the backup: who finds one
cannot read them.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot import __version__
from arena_robot.core.clock import Clock
from arena_robot.core.errors import Conflict, DataError
from arena_robot.core.files import replacing, write_json
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import digest_of
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.snapshot import (
    DatabaseSnapshot,
    check_pages,
    check_sqlite,
    put_back,
    require_database,
    snapshot_name,
    snapshot_suffix,
    sqlite_file,
    tables,
    take,
    whole_files,
)
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.server.transparency.verify import counted_comparisons

MANIFEST, FILES = 'backup.json', 'blobs'
KEEPS = ('arena.db', FILES, 'log.key')


@dataclass(frozen=True)
class Backup:
    """
    What a backup holds: the schema's revision, and how many sessions, files and bytes.

    ``unchecked`` says why the pages of the database were not checked, '' when they were.
    """

    schema: str
    sessions: int
    files: int
    bytes: int
    unchecked: str = ''


def back_up(config: ServerConfig, folder: Path, clock: Clock) -> Backup:
    """
    Write a backup of a server into a folder, and return what it holds.

    A backup that is there already is brought up to date: uploaded files that it has are not
    copied again, and it stays as it is when this fails. DataError when the store lacks a file that
    the database knows, or the database is damaged; ConfigError when there is no database.
    """
    require_database(config.database_url())
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    url, now_ns = config.database_url(), clock.now_ns()
    before = read_manifest(folder)['files'] if (folder / MANIFEST).exists() else {}
    snapshot = folder / snapshot_name(url, now_ns)
    with _private(snapshot) as part:
        known = take(url, part)
    try:
        for key in key_files(config.data):
            with _private(folder / key.name) as part:
                shutil.copyfile(key, part)
        sums = {path.name: digest_of(path) for path in (snapshot, *key_files(folder))}
        sums |= _copy_files(config, folder, known, before)
        write_json(folder / MANIFEST, {
            'version': __version__, 'schema': known.schema, 'created_ns': now_ns,
            'sessions': known.sessions, 'database': snapshot.name, 'files': sums})
    except BaseException:
        snapshot.unlink(missing_ok=True)
        raise
    for old in folder.glob('arena-*'):
        if old.name != snapshot.name:
            old.unlink()
    return Backup(known.schema, known.sessions, len(known.files),
                  sum(size for _, size, _ in known.files), known.unchecked)


@contextmanager
def _private(path: Path) -> Iterator[Path]:
    with replacing(path) as part:
        part.chmod(0o600)
        yield part
        part.chmod(0o600)


def _copy_files(config: ServerConfig, folder: Path, known: DatabaseSnapshot,
                before: Mapping[str, str]) -> dict[str, str]:
    blobs = Blobs(config.blobs_url())
    blobs.open()
    sums = {}
    for file, size, wanted in known.files:
        name = f'{FILES}/{file.key}'
        target = folder / name
        if before.get(name) != wanted or not target.exists() or target.stat().st_size != size:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _private(target) as part:
                with part.open('wb') as stream:
                    for block in blobs.read(file.key):
                        stream.write(block)
                if digest_of(part) != wanted:
                    raise DataError(f'{file.key} in the store has another SHA-256 than the '
                                    'database says; restore it from an earlier backup')
        sums[name] = wanted
    return sums


def key_files(folder: Path) -> list[Path]:
    """Return the keys in a folder that a backup has; the key of the secrets is not one."""
    return [path for path in (folder / 'log.key',) if path.exists()]


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what ``backup.json`` says; DataError when the folder is no finished backup."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding='utf-8'))
        if all(isinstance(manifest[key], kind) for key, kind in (
                ('schema', str), ('sessions', int), ('database', str), ('files', dict))):
            return dict(manifest)
    except FileNotFoundError as error:
        raise DataError(f'{folder} is not a finished backup: it has no {MANIFEST}') from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f'{path} cannot be read: {error!r}') from error
    raise DataError(f'{path} is not the list of a backup')


def check_files(folder: Path) -> dict[str, Any]:
    """Return the list of a backup of which every file is there, unchanged; else DataError."""
    manifest = read_manifest(folder)
    for name, wanted in manifest['files'].items():
        path = folder / name
        if folder.resolve() not in path.resolve().parents:
            raise DataError(f'{folder / MANIFEST} names {name!r}, outside of the backup')
        if not path.is_file():
            raise DataError(f'{path} is missing; take another backup')
        if digest_of(path) != wanted:
            raise DataError(f'{path} is damaged: its SHA-256 is not the one in {MANIFEST}; take '
                            'another backup')
    return manifest


def restore(config: ServerConfig, folder: Path, clock: Clock) -> Backup:
    """
    Restore a backup to the place that a configuration names, and check it; return what is there.

    Every file of the backup is checked first. The database comes last, so a server never starts
    on half of a restore. Conflict when something is at that place already: nothing is overwritten.
    """
    manifest = check_files(folder)
    url = config.database_url()
    dump = folder / manifest['database']
    if dump.suffix != snapshot_suffix(url) or dump.name not in manifest['files']:
        raise DataError(f'{folder} has the database {dump.name}: it is of another kind than the '
                        'configuration names')
    _require_empty(config, url)
    if sqlite_file(url):
        check_sqlite(dump)
    config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    config.data.chmod(0o700)
    blobs = Blobs(config.blobs_url())
    blobs.open()
    names = [name for name in manifest['files'] if name.startswith(f'{FILES}/')]
    for name in names:
        _put(blobs, folder / name, name.removeprefix(f'{FILES}/'), config.data)
    for key in key_files(folder):
        _copy(key, config.data / key.name)
    if home := sqlite_file(url):
        _copy(dump, home)
    else:
        put_back(url, dump)
    schema, unchecked = check_restored(config, clock)
    return Backup(schema, manifest['sessions'], len(names),
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
