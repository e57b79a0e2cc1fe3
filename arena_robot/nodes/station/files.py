"""
Station files: which node each section is for, and changes that keep the comments.

Also RViz's and Foxglove's files with the names of a station's namespace, arm and cameras.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.config import nearest, read_yaml, shipped
from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_text
from arena_robot.drivers.table import LEROBOT
from arena_robot.nodes.executables import PARTS
from arena_robot.recording.bag.base import REQUERY
from arena_robot.robots.arms import PANDA
from arena_robot.robots.cameras import STYLES, topics_of
from arena_robot.safety.limits import robot_of

NODES = ('arm_node', 'gripper_node', 'camera_node', 'sim_station')
ELSEWHERE = ('audit_node', 'recorder_node', 'session_node', 'replay_node', 'ranking_node')
CAMERA_SUFFIX = '_camera'
# The exit code of a node with a bad parameter: starting it again would not help.
CONFIGURATION_ERROR = 2
RVIZ, FOXGLOVE = 'config/station.rviz', 'config/foxglove_layout.json'
GLOBAL = ('/diagnostics', '/clock', '/rosout')


def nodes_in(path: str | Path, parts_needed: bool = True,
             namespace: str = '') -> list[tuple[str, str]]:
    """
    Return (executable, node name) of every part that a parameter file describes.

    A ``sim_station`` includes all parts, ``part_nodes`` those that share a robot of LeRobot: its
    name has the nodes' names with commas between. The file may also have sections of other nodes,
    such as recorder_node. Raises ConfigError for a bad file or name, for a section that no node
    in ``namespace`` would get, and when ``parts_needed`` but no part is there.
    """
    nodes, shared = [], set[str]()
    for key, section in read_yaml(path).items():
        if not isinstance(section, dict) or 'ros__parameters' not in section:
            raise ConfigError(f"{path}: '{key}' must hold 'ros__parameters:'")
        name = str(key).rsplit('/', 1)[-1]
        if str((section['ros__parameters'] or {}).get('backend', '')).startswith(LEROBOT):
            shared.add(name)
        require_match(path, str(key), namespace)
        if name in NODES:
            nodes.append((name, name))
        elif name.endswith(CAMERA_SUFFIX):
            nodes.append(('camera_node', name))
        elif name not in ('**', '*', *ELSEWHERE):
            raise ConfigError(f"{path}: '{key}' names no node; known are "
                              f"{', '.join(NODES)}, and cameras as <name>{CAMERA_SUFFIX}")
    if any(executable == 'sim_station' for executable, _ in nodes):
        return [('sim_station', 'sim_station')]
    if not nodes and parts_needed:
        raise ConfigError(f'{path} describes no node; keys are like /**/arm_node:')
    together = ','.join(name for _, name in nodes if name in shared)
    return [*([(PARTS, together)] if together else []),
            *(node for node in nodes if node[1] not in shared)]


def part_names(executable: str, name: str) -> list[str]:
    """Return the arguments with which part_nodes is told its nodes; none of other programs."""
    return name.split(',') if executable == PARTS else []


def driver_params(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters under ``driver:`` in a section, written as a map or with dots."""
    nested = values.get('driver', {})
    dotted = {str(key).partition('.')[2]: value for key, value in values.items()
              if str(key).startswith('driver.')}
    return {**(nested if isinstance(nested, Mapping) else {}), **dotted}


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
    keys = [str(key) for path in files for key in read_yaml(path)
             if str(key).rsplit('/', 1)[-1] == name
             and _pattern(str(key)).fullmatch(f'{space}/{name}')]
    return list(dict.fromkeys([f'/**/{name}', *keys, f'{space}/{name}']))


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


def with_parameters(text: str, node: str, values: Mapping[str, object]) -> str:
    """
    Return a station file's text with parameters of ``node`` set; everything else is as it was.

    Raises ConfigError where the file has no section for the node, has it more than once, or
    writes it in one line.
    """
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines)
             if re.fullmatch(rf'(\S*/)?{re.escape(node)}:\s*(#.*)?', line)]
    wanted = ', '.join(f'{name}: {_plain(value)}' for name, value in values.items())
    if len(heads) != 1:
        raise ConfigError(f"the station file has {len(heads)} sections '/**/{node}:' over several "
                          f'lines, wanted is one; write by hand: {wanted}')
    start = next((i for i in range(heads[0] + 1, len(lines))
                  if re.fullmatch(r'\s+ros__parameters:\s*(#.*)?', lines[i])), None)
    end = next((i for i in range(heads[0] + 1, len(lines)) if re.match(r'[^\s#]', lines[i])),
               len(lines))
    if start is None or start >= end:
        raise ConfigError(f"the section of {node} has no line 'ros__parameters:' of its own; "
                          f'write by hand: {wanted}')
    indent = next((re.match(r'\s*', line)[0] for line in lines[start + 1:end]  # type: ignore[index]
                   if line.strip() and not line.strip().startswith('#')), '    ')
    names = '|'.join(map(re.escape, values))
    others = _without(lines[start + 1:end], indent, names)
    added = [f'{indent}{name}: {_plain(value)}' for name, value in values.items()]
    out = '\n'.join([*lines[:start + 1], *added, *others, *lines[end:]]) + '\n'
    _require_only(text, out, node, values)
    return out


def save_parameters(path: Path, node: str, values: Mapping[str, object]) -> Path:
    """
    Set parameters of a node in a station file, atomically; return where the old file is kept.

    Raises ConfigError as :func:`with_parameters`.
    """
    try:
        before = path.read_text(encoding='utf-8')
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror}') from error
    after = with_parameters(before, node, values)
    old = next(free for n in range(1, 10_000)
               if not (free := path.with_name(f'{path.name}.{n}.old')).exists())
    write_text(old, before)
    write_text(path, after)
    return old


def _without(lines: list[str], indent: str, names: str) -> list[str]:
    """Return lines without those of the parameters ``names``, which may be lists over lines."""
    out, skipping = [], False
    for line in lines:
        if re.match(rf'{indent}({names}):', line):
            skipping = True
        elif skipping and (not line.strip() or re.match(rf'{indent}[^\s\-\]]', line)):
            skipping = False
        if not skipping:
            out.append(line)
    return out


def _require_only(before: str, after: str, node: str, values: Mapping[str, object]) -> None:
    """Raise ConfigError unless the texts differ in these parameters only."""
    old, new = yaml.safe_load(before), yaml.safe_load(after)
    key = next(key for key in old if str(key).rsplit('/', 1)[-1] == node)
    old[key]['ros__parameters'] = {**(old[key]['ros__parameters'] or {}), **values}
    if old != new:
        raise ConfigError(f'the section of {node} cannot be changed without a change elsewhere; '
                          f'write its parameters by hand: {dict(values)}')


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).splitlines()[0]


@dataclass(frozen=True)
class ViewNames:
    """What names in a view file depend on; ``style`` is a key of the cameras' STYLES."""

    namespace: str = ''
    robot_type: str = PANDA.name
    arm_prefix: str = ''
    style: str = 'zed5'

    def of(self, word: str) -> str:
        """Return a name of the shipped files as this station has it."""
        if word == PANDA.base_frame():
            return robot_of(self.robot_type).base_frame(self.arm_prefix)
        if not word.startswith('/') or word in GLOBAL:
            return word
        for old, new in zip(topics_of('zed5', 'left')[:2], topics_of(self.style, 'left')[:2],
                            strict=True):
            word = word.replace(old.removeprefix('~'), new.removeprefix('~'))
        space, asked = self.namespace.strip('/'), word.startswith(f'{REQUERY}/')
        word = word.removeprefix(REQUERY) if asked else word
        return (REQUERY if asked else '') + (f'/{space}{word}' if space else word)


def rviz_file(names: ViewNames) -> str:
    """Return the text of an RViz file. Raises ConfigError when the shipped one is missing."""
    return yaml.safe_dump(renamed(read_yaml(_path(RVIZ)), names.of), sort_keys=False)


def foxglove_file(names: ViewNames) -> str:
    """Return the text of a Foxglove layout. Raises ConfigError when the shipped one is missing."""
    layout = json.loads(_path(FOXGLOVE).read_text(encoding='utf-8'))
    return json.dumps(renamed(layout, names.of), indent=2) + '\n'


def renamed(value: Any, of: Callable[[str], str]) -> Any:
    """Return nested lists and mappings with each text in them renamed."""
    if isinstance(value, dict):
        return {key: renamed(item, of) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, of) for item in value]
    return of(value) if isinstance(value, str) else value


def names_in(sections: dict[str, Any], namespace: str) -> ViewNames:
    """Return the names of a station file's station; what it does not say is the default."""
    def parameter(node: str, name: str, default: str) -> str:
        for key, section in sections.items():
            if str(key).rsplit('/', 1)[-1].endswith(node):
                return str((section.get('ros__parameters') or {}).get(name, default))
        return default
    robot = parameter('arm_node', 'robot_type', parameter('sim_station', 'robot_type', PANDA.name))
    style = parameter('_camera', 'topic_style', 'zed5')
    if style not in STYLES:
        raise ConfigError(f"topic_style is '{style}', known are {', '.join(STYLES)}")
    return ViewNames(namespace, robot, parameter('arm_node', 'arm_prefix', ''), style)


def _path(name: str) -> Path:
    path = shipped(name)
    here = Path(__file__).parents[3] / name
    path = here if here.is_file() else path
    if not path.is_file():
        raise ConfigError(f'{name} is not installed')
    return path
