"""
Report on one policy in nine sections, with claims and citations that are checked.

Each comparative claim is measured on the sessions: supported, refuted, or not testable;
refuted ones are dropped. Each cited session exists, is one of the policy, and has the words
quoted.

    arena report pi0 --tables roboarena
    arena report pi0 --data arena-data --since 2026-01-01 --html --output pi0.html
    arena report pi0 --tables roboarena --check somebodys.json
    arena report pi0 --tables roboarena --diff last_month.json
    arena report --all --data arena-data --save

--tables is a folder with sessions.csv and episodes.csv; --data or --config is an arena
server's. With --model a chat model chooses statements and quotes; what the sessions refute is
sent back once, and dropped if it comes again. The transcript is kept beside --output.

    arena report pi0 --tables roboarena --model --dry-run
    arena report pi0 --tables roboarena --model --prices 2.5,10 --budget 1 --output pi0.md

--check reads a report as JSON, checks it against these sessions, and ends with code 1 when a
claim is refuted or a citation does not hold.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_model_arguments, chat_client, config_at
from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.reports.policy_report.material import ReportMaterial
    from arena_robot.reports.policy_report.statements import PolicyReport


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('policy', nargs='?', default='', help='its name in the sessions')
    parser.add_argument('--all', action='store_true',
                        help='with --save: every policy that has other sessions than its report')
    parser.add_argument('--save', action='store_true',
                        help="keep it for the server's site, under the next number")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument('--tables', type=Path, metavar='DIR', help='sessions.csv and episodes.csv')
    where.add_argument('--data', type=Path, metavar='DIR', help="an arena server's data folder")
    where.add_argument('--config', type=Path, metavar='FILE', help="an arena server's file")
    parser.add_argument('--since', default='', metavar='DAY', help='only sessions since that day')
    parser.add_argument('--policies', default='', metavar='A,B,…',
                        help='only sessions between these policies')
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument('--markdown', action='store_true', help='print Markdown (the default)')
    shape.add_argument('--html', action='store_true', help='print an HTML page')
    parser.add_argument('--site', default='', metavar='URL',
                        help='address of the site that cited sessions are linked to')
    parser.add_argument('--output', type=Path, metavar='FILE', help='write it there instead')
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument('--check', type=Path, metavar='JSON', help='check this report instead')
    instead.add_argument('--diff', type=Path, metavar='JSON',
                         help='print what changed since this report instead')
    add_model_arguments(parser)


def run_report(args: argparse.Namespace) -> int:
    """Make the report, or check or compare one."""
    from arena_robot.reports.policy_report.render import difference_of

    _require(args)
    if args.save:
        return _save(args)
    material = _material(args)
    if args.check:
        return _check(args, material)
    report = _report(args, material)
    if report is None:
        return 0
    text = difference_of(_read(args.diff), report).words() if args.diff else _shape(args, report)
    if args.output:
        from arena_robot.core.files import write_text
        write_text(args.output, text + '\n')
        print(f'{args.output}: {report.counts.words()}')
    else:
        print(text)
    return 0


def _save(args: argparse.Namespace) -> int:
    """Make and store the report on a policy, or on all whose sessions changed; print them."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.web.site.server_jobs import opened, save_reports
    chat = chat_client(args) if args.model else None
    try:
        with opened(config_at(args)) as (database, blobs):
            for line in save_reports(database, blobs, SystemClock(), args.policy, args.since,
                                     chat):
                print(line)
    finally:
        if chat:
            chat.close()
    return 0


def _require(args: argparse.Namespace) -> None:
    """Raise ConfigError for arguments that do not go together."""
    from arena_robot.core.errors import ConfigError
    if bool(args.policy) == args.all:
        raise ConfigError('name one policy, or give --all')
    if args.json and (args.html or args.markdown):
        raise ConfigError('--json goes with neither --html nor --markdown')
    if args.all and not args.save:
        raise ConfigError('--all needs --save')
    if args.save and (args.tables or args.policies or args.check or args.diff or args.dry_run):
        raise ConfigError('--save needs --data or --config, and goes with no other way to print')


def _report(args: argparse.Namespace, material: 'ReportMaterial') -> 'PolicyReport | None':
    """Return the report; None in a dry run, which prints what would be sent."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.reports.policy_report.narrator import ReportNarrator
    from arena_robot.reports.policy_report.render import report_of
    if not args.model:
        return report_of(args.policy, material, SystemClock(), args.since)
    chat = chat_client(args, args.output and args.output.with_suffix('.transcript.jsonl'))
    try:
        narrator = ReportNarrator(chat)
        if args.dry_run:
            print('\n\n'.join(narrator.prompts(args.policy, material, args.since)))
            return None
        return narrator.report(args.policy, material, SystemClock(), args.since)
    finally:
        chat.close()


def _material(args: argparse.Namespace) -> 'ReportMaterial':
    from arena_robot.reports.policy_report.material import material_of
    if args.tables:
        from arena_robot.cli.terminal import tell_refused
        from arena_robot.records.roboarena_files import read_folder
        data = read_folder(args.tables)
        tell_refused(data)
        material = material_of(data.sessions)
    else:
        from arena_robot.web.site.server_jobs import opened, server_material
        with opened(config_at(args)) as (database, blobs):
            material = server_material(database, blobs)
    names = [name.strip() for name in args.policies.split(',') if name.strip()]
    return material.between(names) if names else material


def _shape(args: argparse.Namespace, report: 'PolicyReport') -> str:
    from arena_robot.reports.policy_report.render import as_html, as_markdown
    from arena_robot.reports.policy_report.statements import report_to_json
    if args.json:
        return json_text(report_to_json(report))
    return as_html(report, args.site) if args.html else as_markdown(report, args.site)


def _check(args: argparse.Namespace, material: 'ReportMaterial') -> int:
    """Print what of a report does not hold."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.reports.policy_report.render import checker_of, finished_report
    stored = _read(args.check)
    checked = finished_report(checker_of(args.policy, material, args.since or stored.since),
                              stored.sections, SystemClock(), stored.since, stored.method)
    for drop in checked.dropped:
        print(f'{drop.section}: {drop.text}\n    {drop.why}')
    print(checked.counts.words())
    return int(bool(checked.dropped))


def _read(path: Path) -> 'PolicyReport':
    from arena_robot.core.errors import DataError
    from arena_robot.reports.policy_report.statements import report_from_json
    try:
        return report_from_json(json.loads(path.read_text(encoding='utf-8')), str(path))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read as a report: {error}') from error
