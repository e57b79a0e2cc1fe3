"""A saved start in a file, so that it outlives the process of the simulation."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from arena_robot.core.errors import DriverError
from arena_robot.core.files import write_json

VERSION = 1


@dataclass(frozen=True)
class KeptStart:
    """A start by its task, seed and physics (MuJoCo's integration state) with the gripper open."""

    task: str
    seed: int
    physics: tuple[float, ...]


def write_start(path: Path, start: KeptStart) -> None:
    """Replace the file's content, whose folder is made. Raises DriverError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {'version': VERSION, **asdict(start)}, indent=None)
    except OSError as error:
        raise DriverError(f'the start could not be kept in {path}: {error.strerror}') from error


def read_start(path: Path) -> KeptStart | None:
    """Return the start in a file, None where there is no file. Raises DriverError."""
    try:
        kept = json.loads(path.read_text(encoding='utf-8'))
        if kept['version'] != VERSION:
            raise ValueError(f"version {kept['version']}, this is {VERSION}")
        return KeptStart(str(kept['task']), int(kept['seed']), tuple(map(float, kept['physics'])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DriverError(f'{path} holds no start of a scene: {error}; delete it, and restore the '
                          'scene by ~/reset_scene') from error
