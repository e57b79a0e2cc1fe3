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

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arena_robot import __version__
from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError
from arena_robot.core.files import replacing, write_json
from arena_robot.server.backup_files import (
    FILES,
    MANIFEST,
    digest_of,
    key_files,
    read_manifest,
)
from arena_robot.server.blobs import Blobs
from arena_robot.server.config import ServerConfig
from arena_robot.server.store.snapshot import DatabaseSnapshot, snapshot_name, take


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
    the database knows, or the database is damaged.
    """
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
