"""
The generated reference of the site: command line, ROS interfaces, Python, HTTP.

Each page is made from the code that it describes: the parser of `arena`, the files of `arena_msgs`
and the parameters of the nodes, the docstrings of public modules, and the site's OpenAPI.

    python docs/reference_pages.py cli        # prints one of the pages
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from arena_robot.cli.verbs import MAP, VERBS, Verb, parser
from arena_robot.nodes.describe import PAGES, table
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


WRITERS: dict[str, Callable[[], str]] = {'cli': cli, 'ros': ros, 'python': python, 'http': http}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {name: write() for name, write in WRITERS.items()}


if __name__ == '__main__':
    sys.stdout.write(WRITERS[sys.argv[1]]())
