"""
Reads RoboGen's task folders, as other tools of generated skills write them.

::

    open_drawer/
        config.yaml          # objects, start of joints, task_name, task_description
        substeps.txt         # a name per line
        substep_types.txt    # primitive or reward
        action_spaces.txt    # None, delta-translation or normalized-direct-translation
        00_grasp_the_handle.py

The code of a substep is in a file of its name, blanks as underscores. RoboGen's own folders have
no number before the name, so two substeps of one name share a file; both kinds are read.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.errors import DataError
from arena_robot.skills.base import SkillActionSpace, Solution, Subtask, SubtaskKind

CONFIG = 'config.yaml'
SUBSTEPS, TYPES, SPACES = 'substeps.txt', 'substep_types.txt', 'action_spaces.txt'
MOST_BYTES = 100_000
_JOINTS_OF = 'set_joint_angle_object_name'


def read_task_folder(folder: Path, policy: str = 'robogen') -> Solution:
    """Return the solution in a folder; its code is not run. Raises DataError."""
    config = _read_config(folder)
    names, kinds, spaces = (_lines(folder / name) for name in (SUBSTEPS, TYPES, SPACES))
    if not len(names) == len(kinds) == len(spaces):
        raise DataError(f'{folder}: {len(names)} substeps, {len(kinds)} types and {len(spaces)} '
                        'action spaces; they must be as many')
    task = next((str(row['task_name']) for row in config if 'task_name' in row), '')
    if not task:
        raise DataError(f'{folder / CONFIG} has no task_name')
    try:
        steps = tuple(Subtask(name, SubtaskKind(kind), _code(folder, index, name),
                              SkillActionSpace(space))
                      for index, (name, kind, space) in enumerate(
                          zip(names, kinds, spaces, strict=True)))
    except ValueError as error:
        raise DataError(f'{folder}: {error}') from error
    return Solution(task, _scene(config), steps, policy)


def _scene(config: list[dict[str, Any]]) -> dict[str, object]:
    joints: dict[str, float] = {}
    for row in config:
        if _JOINTS_OF in row:
            for joint, share in row.items():
                if joint != _JOINTS_OF:
                    joints[f'{row[_JOINTS_OF]}/{joint}'] = _share(share)
    return {'objects': [str(row['name']) for row in config if 'name' in row], 'joints': joints}


def _share(value: object) -> float:
    try:
        return float(str(value))
    except ValueError as error:
        raise DataError(f"the start of a joint must be a number, found '{value}'") from error


def _read_config(folder: Path) -> list[dict[str, Any]]:
    paths = [folder / CONFIG] if (folder / CONFIG).exists() else sorted(folder.glob('*.yaml'))
    if not paths:
        raise DataError(f'{folder} has no {CONFIG}')
    try:
        config = yaml.safe_load(_text(paths[0]))
    except yaml.YAMLError as error:
        raise DataError(f'{paths[0]} is no YAML: {error}') from error
    if not isinstance(config, list) or not all(isinstance(row, dict) for row in config):
        raise DataError(f'{paths[0]} must hold a list of mappings')
    return config


def _code(folder: Path, index: int, name: str) -> str:
    stem = _file_name(name)
    for path in (folder / f'{index:02d}_{stem}.py', folder / f'{stem}.py',
                 folder / f'{stem}.txt'):
        if path.exists():
            return _text(path)
    raise DataError(f"{folder} has no code for substep {index}, '{name}': looked for "
                    f'{index:02d}_{stem}.py')


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in _text(path).splitlines() if line.strip()]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f'{path} is larger than {MOST_BYTES} bytes')
        return path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'cannot read {path}: {error}') from error


def _file_name(name: str) -> str:
    return re.sub(r'\W', '_', name.strip())[:80] or 'substep'
