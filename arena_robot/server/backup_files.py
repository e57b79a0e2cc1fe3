"""The files of a backup: names, sums, and the list ``backup.json``."""

import hashlib
import json
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError

MANIFEST, FILES = 'backup.json', 'blobs'
BLOCK = 1 << 22


def key_files(folder: Path) -> list[Path]:
    """Return the keys in a folder that a backup has; the key of the secrets is not one."""
    return [path for path in (folder / 'log.key',) if path.exists()]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    total = hashlib.sha256()
    with path.open('rb') as stream:
        while block := stream.read(BLOCK):
            total.update(block)
    return total.hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what ``backup.json`` says; DataError when the folder is no finished backup."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding='utf-8'))
        if all(isinstance(found[key], kind) for key, kind in (
                ('schema', str), ('sessions', int), ('database', str), ('files', dict))):
            return dict(found)
    except FileNotFoundError as error:
        raise DataError(f'{folder} is not a finished backup: it has no {MANIFEST}') from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f'{path} cannot be read: {error!r}') from error
    raise DataError(f'{path} is not the list of a backup')


def check_files(folder: Path) -> dict[str, Any]:
    """Return the list of a backup of which every file is there, unchanged; else DataError."""
    found = read_manifest(folder)
    for name, wanted in found['files'].items():
        path = folder / name
        if folder.resolve() not in path.resolve().parents:
            raise DataError(f'{folder / MANIFEST} names {name!r}, outside of the backup')
        if not path.is_file():
            raise DataError(f'{path} is missing; take another backup')
        if digest_of(path) != wanted:
            raise DataError(f'{path} is damaged: its SHA-256 is not the one in {MANIFEST}; take '
                            'another backup')
    return found
