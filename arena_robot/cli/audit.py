"""
Measure how episodes went, frame by frame.

A judge says how far the task has come, and OPD metrics sum it up; see docs/audit.md.

  arena audit ~/arena/sessions                         all sessions, with the judge `local`
  arena audit SESSION --judge oracle --json            a simulated session, by the simulator
  arena audit FOLDER --judge robometer --param url=http://host:8000 --jobs 2
  arena audit --trace FILE.json --convention v1 --json numbers alone

FILE is {"episodes": [{"name": …, "phi": [Φ0 … ΦT], "success": true|false|null}]}. Numbers are
shares, not percent; what is undefined is null. An invalid episode of a FILE ends the call with
code 2. Traces are kept in --cache, so a call that was interrupted continues.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.worker_arguments import add_worker_arguments

if TYPE_CHECKING:
    from arena_robot.audit.opd import OpdTable
    from arena_robot.audit.run import AuditSettings

VERB = 'audit'
HELP = 'measure how far, how directly and how steadily episodes got'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('place', type=Path, nargs='*', metavar='EPISODE|SESSION|FOLDER',
                        help='what to audit')
    parser.add_argument('--trace', type=Path, metavar='FILE', help='JSON file of progress traces')
    parser.add_argument('--judge', default='local', metavar='NAME',
                        help='who judges: a name of `arena judge list`, or module:Class '
                             '(default %(default)s)')
    parser.add_argument('--param', action='append', default=[], metavar='KEY=VALUE',
                        help='a setting of the judge; can be given again')
    parser.add_argument('--interval', type=float, metavar='S',
                        help="seconds between frames (default: the judge's own)")
    parser.add_argument('--convention', default='paper',
                        help='paper, v1 or v1.5: which published way to count '
                             '(default %(default)s)')
    parser.add_argument('--epsilon', type=float, metavar='E',
                        help='smaller changes are stagnation (default 0.005); measure it with '
                             '`arena judge noise`')
    parser.add_argument('--delta', type=float, default=1e-8, metavar='D',
                        help='added to the path length in PPL of the paper (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print JSON')
    parser.add_argument('--by-task', action='store_true', help='tables per policy and task')
    parser.add_argument('--save', action='store_true',
                        help='write audit/JUDGE.json into the folder of each episode')
    parser.add_argument('--plots', type=Path, metavar='FOLDER',
                        help='draw the curves and the failure fingerprints')
    parser.add_argument('--cache', type=Path, default=Path('~/.cache/arena_robot/audit'),
                        metavar='FOLDER', help='where traces are kept (default %(default)s)')
    parser.add_argument('--no-cache', action='store_true', help='judge everything anew')
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from arena_robot.audit.opd import convention
    from arena_robot.audit.run import AuditSettings
    from arena_robot.core.errors import ConfigError

    if bool(args.place) == bool(args.trace):
        raise ConfigError('give either what to audit, or --trace FILE')
    settings = AuditSettings(convention(args.convention).name, args.epsilon, args.delta)
    if args.trace:
        return _traces(args, settings)
    from arena_robot.cli.audit_episodes import run_on_episodes
    return run_on_episodes(args, settings)


def _traces(args: argparse.Namespace, settings: 'AuditSettings') -> int:
    from arena_robot.audit.opd import EPSILON, convention, measure, opd_json, read_traces

    traces = read_traces(args.trace)
    names = [trace.name for trace in traces]
    table = measure([trace.phi for trace in traces], convention(settings.convention),
                    EPSILON if settings.epsilon is None else settings.epsilon, settings.delta,
                    [trace.success for trace in traces], names)
    print(json.dumps(opd_json(names, table), indent=2, allow_nan=False) if args.json
          else _text(names, table))
    return 0


def _text(names: list[str], table: 'OpdTable') -> str:
    from arena_robot.audit.opd import EXTRA_METRICS, METRICS
    metrics = [*METRICS, *(EXTRA_METRICS if table.convention == 'v1.5' else ())]
    width = max(7, *map(len, names)) if names else 7
    lines = [f'OPD, convention {table.convention}, in percent; stagnation below '
             f'{table.epsilon:g}',
             f"{'episode':{width}}  steps  " + '  '.join(f'{m.upper():>6}' for m in metrics)]
    for row, name in enumerate(names):
        cells = (table.values(m)[row] for m in metrics)
        lines.append(f'{name:{width}}  {table.steps[row]:5}  ' + '  '.join(
            f'{100 * c:6.2f}' if c == c else f"{'-':>6}" for c in cells))
    return '\n'.join(lines)
