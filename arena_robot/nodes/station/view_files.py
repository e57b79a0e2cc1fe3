"""RViz's and Foxglove's files for a station, with the names of its namespace, arm and cameras."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.station.files import shipped
from arena_robot.robots.arms import PANDA
from arena_robot.robots.cameras import STYLES
from arena_robot.safety.limits import robot_of

RVIZ, FOXGLOVE = 'config/station.rviz', 'config/foxglove_layout.json'
GLOBAL = ('/diagnostics', '/clock', '/rosout')


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
        for old, new in zip(STYLES['zed5'][:2], STYLES[self.style][:2], strict=True):
            eye = old.format(eye='left', name='').removeprefix('~')
            word = word.replace(eye, new.format(eye='left', name='').removeprefix('~'))
        space = self.namespace.strip('/')
        return f'/{space}{word}' if space else word


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
        return {key: renamed(one, of) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, of) for one in value]
    return of(value) if isinstance(value, str) else value


def names_in(sections: dict[str, Any], namespace: str) -> ViewNames:
    """Return the names of a station file's station; what it does not say is the default."""
    def said(node: str, name: str, default: str) -> str:
        for key, section in sections.items():
            if str(key).rsplit('/', 1)[-1].endswith(node):
                return str((section.get('ros__parameters') or {}).get(name, default))
        return default
    robot = said('arm_node', 'robot_type', said('sim_station', 'robot_type', PANDA.name))
    style = said('_camera', 'topic_style', 'zed5')
    if style not in STYLES:
        raise ConfigError(f"topic_style is '{style}', known are {', '.join(STYLES)}")
    return ViewNames(namespace, robot, said('arm_node', 'arm_prefix', ''), style)


def _path(name: str) -> Path:
    path = shipped(name)
    here = Path(__file__).parents[3] / name
    path = here if here.is_file() else path
    if not path.is_file():
        raise ConfigError(f'{name} is not installed')
    return path
