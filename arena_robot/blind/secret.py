"""
The seed of a study, which decides the order of its policies, in a file outside of the study.

The seed's SHA-256 is in the study's journal from before the first trial. The seed's own file is
named after it, is readable by its owner alone, and lies where the study's folder is not: a folder
that is copied, shown or sent says nothing of the order.
"""

import os
import secrets
from pathlib import Path

from arena_robot.blind.study import seed_hash
from arena_robot.blind.trials import StudyMove
from arena_robot.core.errors import ConfigError
from arena_robot.records.session_file import JOURNAL, read_journal

SEED_BYTES = 16    # nobody finds so many by trying
NAME_CHARS = 16    # of the hash, enough to be unique on one computer
OWNER_ONLY = 0o600


def seed_home() -> Path:
    """Return the folder of all seeds: ``~/.local/share/arena/blind``, or in $XDG_DATA_HOME."""
    data = os.environ.get('XDG_DATA_HOME') or Path.home() / '.local' / 'share'
    return Path(data) / 'arena' / 'blind'


def study_seed(folder: Path, home: Path) -> str:
    """
    Return the seed of the study in ``folder``: its own one, or a new one for a new study.

    Raises ConfigError when the file of the study's seed is gone, or would lie in the study.
    """
    if home.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f'the seeds in {home} would lie in the study {folder}; choose another '
                          'folder for the study')
    path = folder / JOURNAL
    sealed = [str(entry.data['sha256']) for entry in read_journal(path)
              if entry.move == StudyMove.SEALED] if path.is_file() else []
    return _read(home / f'{sealed[0][:NAME_CHARS]}.seed', sealed[0]) if sealed else _new(home)


def _new(home: Path) -> str:
    seed = secrets.token_hex(SEED_BYTES)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = home / f'{seed_hash(seed)[:NAME_CHARS]}.seed'
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(file, 'w', encoding='ascii') as out:
        out.write(f'{seed}\n')
    return seed


def _read(path: Path, sha256: str) -> str:
    try:
        seed = path.read_text(encoding='ascii').strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'the seed of this study is not in {path}: go on with it on the '
                          'computer and as the user that began it, or copy that file here'
                          ) from error
    if seed_hash(seed) != sha256:
        raise ConfigError(f"{path} does not have the seed of this study: its hash is not the "
                          "one in the study's journal")
    return seed
