"""The parameter tables of docs/station.md, made from the declarations themselves."""

import sys
from collections.abc import Sequence
from pathlib import Path

from arena_robot.nodes.arm.params import ARM_PARAMS, limit_params
from arena_robot.nodes.camera.node import CAMERA_PARAMS
from arena_robot.nodes.gripper.node import GRIPPER_PARAMS
from arena_robot.nodes.parameters import Param
from arena_robot.nodes.part_node import COMMON
from arena_robot.nodes.simulation.node import SIM_PARAMS

TABLES: dict[str, Sequence[Param]] = {
    'arm_node': (*ARM_PARAMS, *limit_params('panda')), 'gripper_node': GRIPPER_PARAMS,
    'camera_node': CAMERA_PARAMS, 'every part': COMMON, 'sim_station': SIM_PARAMS}
BEGIN, END = '<!-- parameters of {} -->', '<!-- end -->'


def table(params: Sequence[Param]) -> str:
    """Return a Markdown table of name, default, range and meaning."""
    rows = ['| parameter | default | range | meaning |', '|---|---|---|---|']
    for param in params:
        span = ', '.join(param.choices)
        if param.low is not None and param.high is not None:
            span = f'{param.low:g} … {param.high:g}'
        live = ' (may change while running)' if param.live else ''
        rows.append(f'| `{param.name}` | {_default(param.default)} | {span} | '
                    f'{param.description}{live} |')
    return '\n'.join(rows)


def updated(text: str) -> str:
    """Return a document with the table of every node put between its marks."""
    for name, params in TABLES.items():
        begin = BEGIN.format(name)
        head, rest = text.split(begin, 1)
        text = f'{head}{begin}\n{table(params)}\n{END}{rest.split(END, 1)[1]}'
    return text


def _default(value: object) -> str:
    if isinstance(value, list):
        return '`[' + ', '.join(f'{v:.4g}' if isinstance(v, float) else str(v)
                                for v in value) + ']`'
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    return f'`{value}`' if value != '' else "`''`"


if __name__ == '__main__':
    path = Path(sys.argv[1])
    path.write_text(updated(path.read_text(encoding='utf-8')), encoding='utf-8')
