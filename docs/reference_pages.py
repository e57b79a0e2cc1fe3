"""
The generated reference of the site: command line, ROS interfaces, Python, HTTP; tables of pages.

Each page is made from the code that it describes: the parser of `arena`, the files of `arena_msgs`
and the parameters of the nodes, the docstrings of public modules, and the site's OpenAPI. So are
the tables between marks in the pages of docs/: parameters, action spaces, robots.

    python docs/reference_pages.py cli        # prints one of the pages
    python docs/reference_pages.py tables     # writes the tables in docs/
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from arena_robot.cli.verbs import MAP, VERBS, Verb, parser
from arena_robot.core.action import ActionSpace
from arena_robot.core.observation import Floats
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
from arena_robot.robots.arms import DOF, ROBOTS
from arena_robot.web.site.app import SiteParts, site

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ('arena_robot/policy/proto/arena_policy.proto',
          'arena_robot/server/proto/arena_server.proto')
# A default said in a help text: the table has it in a column of its own.
DEFAULT = re.compile(r' \(default:? [^)]*\)')
FENCE = '``` {.text .wrap}'    # long lines wrap, see site.css
BAR = r'\|'
INTERFACES = (('Messages', 'msg'), ('Services', 'srv'), ('Actions', 'action'))
# What a package of somebody else imports, by what it is for.
PUBLIC = {
    'Rankings': ('arena_robot.ranking', 'arena_robot.ranking.rollouts.arena_tables',
                 'arena_robot.records.roboarena_files.read_tables'),
    'Policies': ('arena_robot.policy.base', 'arena_robot.core.action.ActionSpace',
                 'arena_robot.core.action.Chunk', 'arena_robot.core.observation.Observation',
                 'arena_robot.policy.connect.connect', 'arena_robot.policy.options.CallOptions',
                 'arena_robot.policy.chunks.ChunkExecutor',
                 'arena_robot.policy.ensembling.Ensembling',
                 'arena_robot.policy.resizing.Resizing', 'arena_robot.policy.recording.read',
                 'arena_robot.policy.conformance.pytest_suite.PolicyConformance'),
    'Drivers': ('arena_robot.drivers.base', 'arena_robot.core.observation.ArmState',
                'arena_robot.core.observation.GripperState',
                'arena_robot.drivers.conformance.pytest_suite'),
    'Judges': ('arena_robot.audit.base.Judge', 'arena_robot.audit.base.Capabilities',
               'arena_robot.audit.base.Trace', 'arena_robot.audit.base.trace_of'),
    'Errors': ('arena_robot.core.errors',)}
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


def cell(text: str) -> str:
    """Return a text as a cell of a table: no bar, no line break, no tag outside of code."""
    parts = ' '.join(text.replace('|', BAR).split()).split('`')
    return '`'.join(part if number % 2 else part.replace('<', '&lt;')
                    for number, part in enumerate(parts))


def code(text: str) -> str:
    """Return a text as code in a cell; nothing for nothing."""
    return f"`{text.replace('|', BAR)}`" if text else ''


def option_row(leaf: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the row of an argument: its names, its default, what it does."""
    formatter = leaf._get_formatter()
    value = '' if action.nargs == 0 else formatter._format_args(action, (
        action.dest.upper() if action.option_strings else action.dest))
    names = ', '.join(action.option_strings) or action.dest
    unsaid = (None, '', [], (), argparse.SUPPRESS)
    shown = '' if action.nargs == 0 or action.default in unsaid else str(action.default)
    words = DEFAULT.sub('', formatter._expand_help(action) if action.help else '')
    if action.choices is not None and not action.metavar:
        value = ', '.join(map(str, action.choices)) if len(list(action.choices)) < 12 else value
    name = f'{names} {value}'.strip() if action.option_strings else names
    return f'| {code(name)} | {code(shown)} | {cell(words)} |'


def verb_part(verb: Verb, leaf: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of one verb: heading, description, arguments."""
    about = cell(verb.help[0].upper() + verb.help[1:])
    yield from ('', f'### arena {verb.words}', '', f'{about}.', '')
    lines = str(leaf.description).splitlines()
    yield from (FENCE, *lines, '```', '')
    actions = [action for action in leaf._actions if action.help != argparse.SUPPRESS
               and not isinstance(action, argparse._HelpAction)]
    if actions:
        yield from ('| argument | default | |', '|---|---|---|',
                    *(option_row(leaf, action) for action in actions))


def cli() -> str:
    """Return the page of the command line."""
    top = parser(VERBS)
    lines = ['# Command line', '', 'Every verb of `arena`, as `arena VERB --help` prints it. Exit '
             'codes: 0 done, 1 failed or no, 2 wrong usage or input, 130 interrupted.']
    for title, rows in MAP:
        lines += ['', f'## {title or "Help"}']
        for row in rows:
            for verb in (row,) if isinstance(row, Verb) else row.verbs:
                lines += verb_part(verb, top.leaf(verb.words.split()))
    return '\n'.join(lines) + '\n'


def ros() -> str:
    """Return the page of messages, services, actions and parameters."""
    lines = ['# ROS interfaces', '', 'Messages, services and actions of `arena_msgs`, and the '
             'parameters of every node. Which node publishes and serves what is in '
             '[The station](../station.md).']
    for title, kind in INTERFACES:
        lines += ['', f'## {title}']
        for path in sorted((ROOT / 'arena_msgs' / kind).glob(f'*.{kind}')):
            lines += ['', f'### {path.stem}', '', FENCE,
                      path.read_text(encoding='utf-8').strip(), '```']
    lines += ['', '## Parameters']
    for tables in PAGES.values():
        for name, params in tables.items():
            lines += ['', f'### Parameters of {name}', '', table(params)]
    return '\n'.join(lines) + '\n'


def python() -> str:
    """Return the page of public names; mkdocstrings fills it from docstrings."""
    lines = ['# Python', '', 'What is imported from `arena_robot` by notebooks, policies, drivers '
             'and judges of your own. Other modules may change without notice.']
    for title, names in PUBLIC.items():
        lines += ['', f'## {title}', *(f'\n::: {name}' for name in names)]
    return '\n'.join(lines) + '\n'


def call_part(path: str, call: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one address of the site."""
    words = call.get('description', call['summary']).strip()
    yield from ('', f'## `{path}`', '', words.replace('<', '&lt;'), '')
    rows = call.get('parameters', ())
    if rows:
        yield from ('| parameter | in | default |', '|---|---|---|')
    for row in rows:
        default = row['schema'].get('default', '')
        yield f"| `{row['name']}` | {row['in']} | {code(str(default))} |"


def http() -> str:
    """Return the page of the addresses that programs read at a server's site."""
    app = site(SiteParts(*(MagicMock() for _ in fields(SiteParts))))
    links = ', '.join(f'[{path.rpartition("/")[2]}](../repository/{path})' for path in PROTOS)
    lines = ['# HTTP', '', 'What programs read at the site of a server, all by `GET`, as '
             '`/openapi.json` of each server describes it. Stations and policies speak gRPC: '
             f'{links}.']
    for path, kinds in sorted(app.openapi()['paths'].items()):
        lines += call_part(path, kinds['get'])
    return '\n'.join(lines) + '\n'


def table(params: Sequence[Param]) -> str:
    """Return a Markdown table of name, default, unit, range and meaning."""
    rows = ['| parameter | default | unit | range | meaning |', '|---|---|---|---|---|']
    for param in params:
        meaning = param.meaning
        span = ', '.join(meaning.choices)
        if meaning.low is not None and meaning.high is not None:
            span = f'{number(meaning.low)} … {number(meaning.high)}'
        text = meaning.description.replace('<', '&lt;')    # a tag would not be shown
        live = f' ({meaning.live})' if meaning.live else ''
        rows.append(f'| `{param.name}` | {default_cell(param.default)} | {meaning.unit} | '
                    f'{span} | {text}{live} |')
    return '\n'.join(rows)


def number(value: float) -> str:
    """Return a number without a point where it is whole."""
    return str(int(value)) if value == int(value) else f'{value:g}'


def default_cell(value: object) -> str:
    """Return a default as code in a cell."""
    if isinstance(value, tuple):
        words = (f'{v:.4g}' if isinstance(v, float) else str(v) for v in value)
        return '`[' + ', '.join(words).replace('|', r'\|') + ']`'
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    return f'`{value}`' if value != '' else "`''`"


def spaces_table() -> str:
    """Return the action spaces as a Markdown table."""
    rows = ['| action space | length | the numbers before the last | clipped to |',
            '|---|---|---|---|']
    for space in ActionSpace:
        row = space.row
        spans = dict.fromkeys(f'±{largest:.4g} {unit}'.strip()
                              for largest, unit in zip(row.largest, row.units, strict=True))
        rows.append(f'| `{space.value}` | {space.size(DOF)} | {row.meaning} | '
                    f'{", ".join(spans)} |')
    return '\n'.join(rows)


def robots_table() -> str:
    """Return what is allowed at each joint of each robot as a Markdown table."""
    robots = list(ROBOTS.values())
    rows = ['| joint | ' + ' | '.join(
        f'{r.title}, `{r.name}`: position (rad) | speed (rad/s) | spring torque (N m)'
        for r in robots) + ' | reset pose (rad) |', '|---' * (3 * len(robots) + 2) + '|']
    for i in range(DOF):
        cells = [cell for limits in (robot.limits for robot in robots) for cell in (
            joint_range(limits.q_min, limits.q_max, i), f'{limits.velocity[i]:g}',
            f'{limits.torque[i]:g}')]
        resets = dict.fromkeys(f'{robot.reset_joints[i]:.4g}' for robot in robots)
        rows.append(f'| {i + 1} | {" | ".join(cells)} | {", ".join(resets)} |')
    return '\n'.join(rows)


def joint_range(low: Floats, high: Floats, i: int) -> str:
    """Return the range of joint ``i``."""
    return f'{np.round(low[i], 4):g} to {np.round(high[i], 4):g}'


# The tables of each page by their marks.
TABLES: dict[str, dict[str, str]] = {
    **{page: {f'parameters of {name}': table(params) for name, params in tables.items()}
       for page, tables in PAGES.items()},
    'policies.md': {'action spaces': spaces_table()}, 'safety.md': {'robots': robots_table()}}
END = '<!-- end -->'


def updated(text: str, tables: dict[str, str]) -> str:
    """Return a page with each table between its marks."""
    for name, made in tables.items():
        begin = f'<!-- {name} -->'
        head, rest = text.split(begin, 1)
        text = f'{head}{begin}\n{made}\n{END}{rest.split(END, 1)[1]}'
    return text


def write_tables() -> str:
    """Write the tables of all pages; return which pages these are."""
    for page, tables in TABLES.items():
        path = ROOT / 'docs' / page
        path.write_text(updated(path.read_text(encoding='utf-8'), tables), encoding='utf-8')
    return '\n'.join(TABLES) + '\n'


WRITERS: dict[str, Callable[[], str]] = {'cli': cli, 'ros': ros, 'python': python, 'http': http}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {name: write() for name, write in WRITERS.items()}


if __name__ == '__main__':
    sys.stdout.write({**WRITERS, 'tables': write_tables}[sys.argv[1]]())
