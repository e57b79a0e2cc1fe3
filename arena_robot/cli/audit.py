"""
Measure how episodes went, step by step: OPD metrics of progress traces.

  arena audit --trace FILE.json --convention v1 --json

FILE is {"episodes": [{"name": …, "phi": [Φ0 … ΦT], "success": true|false|null}]}. Numbers are
shares, not percent; what is undefined is null. An invalid episode ends the call with code 2.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.audit.opd import OpdTable

VERB = 'audit'
HELP = 'measure how far, how directly and how steadily episodes got'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--trace', type=Path, required=True, metavar='FILE',
                        help='JSON file of progress traces')
    parser.add_argument('--convention', default='paper',
                        help='paper, v1 or v1.5: which published way to count '
                             '(default %(default)s)')
    parser.add_argument('--epsilon', type=float, metavar='E',
                        help='smaller changes are stagnation (default 0.005); measure it with '
                             '`arena judge noise`')
    parser.add_argument('--delta', type=float, default=1e-8, metavar='D',
                        help='added to the path length in PPL of the paper (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from arena_robot.audit.opd import EPSILON, convention, measure
    from arena_robot.audit.trace_file import opd_json, read_traces

    rule = convention(args.convention)
    traces = read_traces(args.trace)
    names = [trace.name for trace in traces]
    table = measure([trace.phi for trace in traces], rule,
                    EPSILON if args.epsilon is None else args.epsilon, args.delta,
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
