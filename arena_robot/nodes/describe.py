"""Generates the parameter tables in docs/ from the parameter dataclasses."""

import sys
from collections.abc import Sequence
from pathlib import Path

from arena_robot.nodes.audit import AuditParams
from arena_robot.nodes.backends import ReplayBackend, SimBackend
from arena_robot.nodes.lib.parameters import Param, params_of
from arena_robot.nodes.lib.part_params import (
    ArmParams,
    CameraParams,
    GripperParams,
    LimitParams,
    PartParams,
    RosCameraParams,
    RosControlArmParams,
    RosControlGripperParams,
)
from arena_robot.nodes.ranking import RankingParams
from arena_robot.nodes.recorder.node import RecorderParams
from arena_robot.nodes.replay import ReplayParams
from arena_robot.nodes.session.params import SessionParams
from arena_robot.nodes.simulation.node import SimParams

PART = params_of(PartParams())
PAGES: dict[str, dict[str, Sequence[Param]]] = {
    'station.md': {
        'arm_node': (*params_of(ArmParams())[len(PART):], *params_of(LimitParams(), 'limits.')),
        'gripper_node': params_of(GripperParams())[len(PART):],
        'camera_node': params_of(CameraParams())[len(PART):],
        'every part': PART,
        'the backends sim and replay': (*params_of(SimBackend(), 'sim.'),
                                        *params_of(ReplayBackend(), 'replay.')),
        'sim_station': params_of(SimParams()),
        'session_node': params_of(SessionParams()),
    },
    'episodes.md': {'recorder_node': params_of(RecorderParams()),
                    'replay_node': params_of(ReplayParams())},
    'in_your_stack.md': {
        'the backend ros_control of arm_node': params_of(RosControlArmParams(), 'ros_control.'),
        'the backend ros_control of gripper_node': params_of(RosControlGripperParams(),
                                                             'ros_control.'),
        'the backend ros of camera_node': params_of(RosCameraParams(), 'ros.'),
    },
    'audit.md': {'audit_node': params_of(AuditParams())},
    'ranking.md': {'ranking_node': params_of(RankingParams())},
}
BEGIN, END = '<!-- parameters of {} -->', '<!-- end -->'


def table(params: Sequence[Param]) -> str:
    """Return a Markdown table of name, default, unit, range and meaning."""
    rows = ['| parameter | default | unit | range | meaning |', '|---|---|---|---|---|']
    for param in params:
        meaning = param.meaning
        span = ', '.join(meaning.choices)
        if meaning.low is not None and meaning.high is not None:
            span = f'{_number(meaning.low)} … {_number(meaning.high)}'
        text = meaning.description.replace('<', '&lt;')    # a tag would not be shown
        live = f' ({meaning.live})' if meaning.live else ''
        rows.append(f'| `{param.name}` | {_default(param.default)} | {meaning.unit} | {span} | '
                    f'{text}{live} |')
    return '\n'.join(rows)


def updated(text: str, tables: dict[str, Sequence[Param]]) -> str:
    """Return a page with the table of every node between its marks."""
    for name, params in tables.items():
        begin = BEGIN.format(name)
        head, rest = text.split(begin, 1)
        text = f'{head}{begin}\n{table(params)}\n{END}{rest.split(END, 1)[1]}'
    return text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f'{value:g}'


def _default(value: object) -> str:
    if isinstance(value, tuple):
        words = (f'{v:.4g}' if isinstance(v, float) else str(v) for v in value)
        return '`[' + ', '.join(words).replace('|', r'\|') + ']`'
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    return f'`{value}`' if value != '' else "`''`"


if __name__ == '__main__':
    for page, tables in PAGES.items():
        path = Path(sys.argv[1]) / page
        path.write_text(updated(path.read_text(encoding='utf-8'), tables), encoding='utf-8')
