"""
Check the folder of an episode: schema, rates, skew, losses, stamps, journal, every file.

Exit code 0 when nothing failed (warnings are allowed), 1 when something did.
"""

import argparse
import json
from pathlib import Path

from arena_robot.cli.worker_arguments import add_worker_arguments, workers

VERB = 'episode check'
HELP = 'check whether an episode on disk is complete and valid'
_MARKS = {'ok': 'ok  ', 'warning': 'WARN', 'failure': 'FAIL'}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folders, and the choice of JSON."""
    parser.add_argument('folder', type=Path, nargs='+', help='an episode, such as …/A, or a '
                        'session with episodes in it')
    parser.add_argument('--json', action='store_true', help='print findings and numbers as JSON')
    parser.add_argument('--strict', action='store_true', help='also fail on warnings')
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 when one of them is a failure."""
    from dataclasses import asdict

    from arena_robot.cli.progress_bar import ProgressBar
    from arena_robot.recording.episode.check import FindingLevel, check
    from arena_robot.records.episode_file import episodes

    folders = [folder for place in args.folder for folder in episodes(place)]
    with ProgressBar() as bar:
        reports = workers(args).map(check, folders, lambda done, one: bar.show(
            done, len(folders), one.folder.name))
    bad = {FindingLevel.FAILURE, FindingLevel.WARNING} if args.strict else {FindingLevel.FAILURE}
    if args.json:
        print(json.dumps([{'folder': str(r.folder), 'passed': r.passed,
                           'summary': asdict(r.summary),
                           'findings': [{'level': f.level.value, 'what': f.what, 'text': f.text}
                                        for f in r.findings]} for r in reports], indent=2))
    else:
        for report in reports:
            print(report.folder)
            for f in report.findings:
                print(f'  {_MARKS[f.level.value]}  {f.what:<22} {f.text}')
            print(f"  {'sound' if report.passed else 'NOT sound'}\n")
    return int(any(f.level in bad for r in reports for f in r.findings))
