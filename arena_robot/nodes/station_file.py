"""Keys of a parameter file: which node of which namespace each section is for."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from arena_robot.core.config import nearest, read_yaml
from arena_robot.core.errors import ConfigError

NODES = ('arm_node', 'gripper_node', 'camera_node', 'sim_station')
ELSEWHERE = ('audit_node', 'recorder_node', 'session_node', 'replay_node', 'ranking_node')
CAMERA_SUFFIX = '_camera'
# The exit code of a node with a bad parameter: starting it again would not help.
CONFIGURATION_ERROR = 2


def nodes_in(path: str | Path, parts_needed: bool = True,
             namespace: str = '') -> list[tuple[str, str]]:
    """
    Return (executable, node name) of every part that a parameter file describes.

    A ``sim_station`` includes all parts. The file may also have sections of other nodes, such as
    recorder_node. Raises ConfigError for a bad file or name, for a section that no node in
    ``namespace`` would get, and when ``parts_needed`` but no part is there.
    """
    found = []
    for key, section in read_yaml(path).items():
        if not isinstance(section, dict) or 'ros__parameters' not in section:
            raise ConfigError(f"{path}: '{key}' must hold 'ros__parameters:'")
        name = str(key).rsplit('/', 1)[-1]
        require_match(path, str(key), namespace)
        if name in NODES:
            found.append((name, name))
        elif name.endswith(CAMERA_SUFFIX):
            found.append(('camera_node', name))
        elif name not in ('**', '*', *ELSEWHERE):
            raise ConfigError(f"{path}: '{key}' names no node; known are "
                              f"{', '.join(NODES)}, and cameras as <name>{CAMERA_SUFFIX}")
    if any(executable == 'sim_station' for executable, _ in found):
        return [('sim_station', 'sim_station')]
    if not found and parts_needed:
        raise ConfigError(f'{path} describes no node; keys are like /**/arm_node:')
    return found


def driver_params(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters under ``driver:`` in a section, written as a map or with dots."""
    found = values.get('driver', {})
    dotted = {str(key).partition('.')[2]: value for key, value in values.items()
              if str(key).startswith('driver.')}
    return {**(found if isinstance(found, Mapping) else {}), **dotted}


def require_match(path: str | Path, key: str, namespace: str) -> None:
    """Raise ConfigError when no node in a namespace gets the section ``key`` of a file."""
    space = f"/{namespace.strip('/')}" if namespace.strip('/') else ''
    name = key.rsplit('/', 1)[-1]
    if not _pattern(key).fullmatch(f'{space}/{name}'):
        raise ConfigError(f"{path}: the section '{key}' is for no node in the namespace "
                          f"'{space or '/'}', where the nodes run; write '/**/{name}', which fits "
                          'every namespace')


def require_matches(path: str | Path, namespace: str) -> None:
    """Raise ConfigError for a section of a file that no node in a namespace gets."""
    for key in read_yaml(path):
        require_match(path, str(key), namespace)


def override_keys(name: str, namespace: str, files: Iterable[str | Path]) -> list[str]:
    """
    Return the keys under which a last parameter file overrides what ``files`` say about a node.

    ROS applies sections in the order in which their keys first appear in all files together, so
    the values must stand under each key that a file has for the node.
    """
    space = f"/{namespace.strip('/')}" if namespace.strip('/') else ''
    found = [str(key) for path in files for key in read_yaml(path)
             if str(key).rsplit('/', 1)[-1] == name
             and _pattern(str(key)).fullmatch(f'{space}/{name}')]
    return list(dict.fromkeys([f'/**/{name}', *found, f'{space}/{name}']))


def shipped(file: str) -> Path:
    """
    Return the path of a file that a parameter names.

    A relative one is looked for in the working folder, then in what the package ships, such as
    ``config/policies.yaml``.
    """
    path = Path(file).expanduser()
    if path.is_absolute() or path.exists():
        return path
    here = Path(__file__)
    folders = [here.parents[2], *(prefix / 'share' / 'arena_robot' for prefix in here.parents)]
    return next((folder / path for folder in folders if (folder / path).is_file()), path)


def refuse_unknown_arguments(launch_file: str | Path, words: Iterable[str],
                             known: Iterable[str]) -> None:
    """
    Raise ConfigError for an unknown argument ``name:=value`` of a command line.

    Nothing is refused when ``words`` do not name ``launch_file``: it is included by another launch
    file then, whose arguments these are.
    """
    given, names = list(words), list(known)
    if not any(word.endswith(Path(launch_file).name) for word in given):
        return
    for word in given:
        name, sign, _ = word.partition(':=')
        if sign and name not in names:
            raise ConfigError(f"unknown launch argument '{name}'.{nearest(name, names)}")


def _pattern(key: str) -> 're.Pattern[str]':
    """Return what ROS's wildcards stand for: ``*`` one part of a name, ``**`` any number."""
    parts = [part for part in key.split('/') if part]
    words = ['(/[^/]+)*' if part == '**' else '/[^/]+' if part == '*' else f'/{re.escape(part)}'
             for part in parts]
    return re.compile(''.join(words))
