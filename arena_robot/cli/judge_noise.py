"""
Measure a judge's noise on clips in which nothing happens; gives --epsilon of `arena audit`.

  arena judge noise STATIC.json

STATIC.json holds the judge's traces of static clips, in the form of `arena audit --trace`.
"""

import argparse
import dataclasses
import json
from pathlib import Path

VERB = 'judge noise'
HELP = 'measure a judge on static clips: sigma and epsilon'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('trace', type=Path, metavar='FILE', help='traces of static clips (JSON)')
    parser.add_argument('--alpha', type=float, default=0.01,
                        help='share of still steps that may count as motion (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from arena_robot.audit.opd import read_traces, static_noise

    noise = static_noise([trace.phi for trace in read_traces(args.trace)], args.alpha)
    if args.json:
        print(json.dumps(dataclasses.asdict(noise), indent=2, allow_nan=False))
        return 0
    print(f'sigma {noise.sigma:.4g}, epsilon {noise.epsilon:.4g} for {noise.alpha:.0%} false '
          f'motion; {noise.clips} clips, {noise.values} values')
    if abs(noise.neighbours) > 0.3:
        print(f'neighbouring values correlate by {noise.neighbours:.2f}: the judge drifts, and '
              'epsilon holds only roughly')
    return 0
