"""
The tables of docs/policies.md and docs/safety.md, made from the tables of the code.

    python -m arena_robot.safety.describe docs/policies.md docs/safety.md
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF, ROBOTS, Robot

_END = '<!-- end -->'


def spaces_table() -> str:
    """Return the action spaces as a Markdown table."""
    rows = ['| action space | length | the numbers before the last | clipped to |',
            '|---|---|---|---|']
    for space in ActionSpace:
        row = space.row
        spans = dict.fromkeys(f'±{largest:.4g} {unit}'.strip()
                              for largest, unit in zip(row.largest, row.units, strict=True))
        rows.append(f'| `{space.value}` | {space.size} | {row.meaning} | {", ".join(spans)} |')
    return '\n'.join(rows)


def robots_table() -> str:
    """Return what is allowed at each joint of each robot as a Markdown table."""
    robots = list(ROBOTS.values())
    rows = ['| joint | ' + ' | '.join(
        f'{r.title}, `{r.name}`: position (rad) | speed (rad/s) | spring torque (N m)'
        for r in robots) + ' | reset pose (rad) |', '|---' * (3 * len(robots) + 2) + '|']
    for i in range(DOF):
        cells = [cell for robot in robots for cell in _cells(robot, i)]
        resets = dict.fromkeys(f'{robot.reset_joints[i]:.4g}' for robot in robots)
        rows.append(f'| {i + 1} | {" | ".join(cells)} | {", ".join(resets)} |')
    return '\n'.join(rows)


def _cells(robot: Robot, i: int) -> tuple[str, str, str]:
    limits = robot.limits
    return (_span(limits.q_min, limits.q_max, i), f'{limits.velocity[i]:g}',
            f'{limits.torque[i]:g}')


def _span(low: Floats, high: Floats, i: int) -> str:
    return f'{np.round(low[i], 4):g} to {np.round(high[i], 4):g}'


TABLES: dict[str, Callable[[], str]] = {'action spaces': spaces_table, 'robots': robots_table}


def updated(text: str) -> str:
    """Return a document with each table put between its marks, where it has them."""
    for name, table in TABLES.items():
        begin = f'<!-- {name} -->'
        if begin in text:
            head, rest = text.split(begin, 1)
            text = f'{head}{begin}\n{table()}\n{_END}{rest.split(_END, 1)[1]}'
    return text


if __name__ == '__main__':
    for path in map(Path, sys.argv[1:]):
        path.write_text(updated(path.read_text(encoding='utf-8')), encoding='utf-8')
