"""
Compare ways of choosing pairs by the number of comparisons that a ranking needs.

Simulates synthetic pools, and with --sessions a real one resampled from its verdicts, with
uniform pairs and with the informative choice of the arena server, with the weights, the goal
and the k of --config or of --goal and --top-k. Prints the rank correlation with the truth, and
the share of pools whose first or first k are right, by number of comparisons.

    arena study pairs --policies 7 15 --repeats 100
    arena study pairs --policies 15 --goal top1
    arena study pairs --sessions sessions.csv --config server.yaml --json
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.server.config import Weights
    from arena_robot.server.sessions.assignment import Aim
    from arena_robot.server.sessions.simulate import Curve, PoolTruth


def pairs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--policies', type=int, nargs='+', default=[7, 15, 30],
                        help='sizes of the synthetic pools (default %(default)s)')
    parser.add_argument('--sessions', type=Path, help='sessions.csv of real verdicts')
    parser.add_argument('--least', type=int, default=20, metavar='N',
                        help='leave out policies of --sessions with fewer verdicts '
                             '(default %(default)s)')
    parser.add_argument('--comparisons', type=int, default=500)
    parser.add_argument('--repeats', type=int, default=60, help='pools of each kind')
    parser.add_argument('--level', type=float, default=0.9, help='rank correlation to reach')
    parser.add_argument('--goal', choices=('order', 'top1', 'topk', 'newcomer'),
                        help='what pairs are chosen for (default: of --config, else order)')
    parser.add_argument('--top-k', type=int, metavar='K',
                        help='the k of topk (default: of --config, else 3)')
    parser.add_argument('--config', type=Path, metavar='YAML',
                        help="the server's configuration, for weights, goal and top_k")
    parser.add_argument('--seed', type=int, default=0)
    add_worker_arguments(parser)


def run_pairs(args: argparse.Namespace) -> int:
    """Simulate and print."""
    import numpy as np

    from arena_robot.ranking.standings import plain
    from arena_robot.server.sessions.simulate import WAYS, play, synthetic

    at_work = workers(args)
    weights, aim = _server_choice(args)
    rng = np.random.default_rng(args.seed)
    pools = {f'{n} synthetic policies': [synthetic(n, rng) for _ in range(args.repeats)]
             for n in args.policies}
    if args.sessions:
        pools[f'{args.sessions.name}, resampled'] = [_real(args)] * args.repeats
    curves: dict[str, dict[str, Curve]] = {}
    for name, truths in pools.items():
        curves[name] = {}
        for way in WAYS:
            print(f'playing {name}, {way} pairs …', file=sys.stderr)
            curves[name][way] = play(truths, way, args.comparisons, args.seed, weights,
                                     at_work, aim)
    if args.json:
        print(json_text(plain({name: {way: {
            'comparisons': curve.comparisons.tolist(), 'correlation': curve.correlation.tolist(),
            'error': curve.error.tolist(), 'first_right': curve.first.tolist(),
            'top_right': curve.top.tolist(), 'needed': curve.needed(args.level)}
            for way, curve in ways.items()} for name, ways in curves.items()})))
    else:
        _print(curves, args.level)
    return 0


def _server_choice(args: argparse.Namespace) -> 'tuple[Weights, Aim]':
    """Return the weights and the aim that a server with this configuration has."""
    from arena_robot.core.config import load
    from arena_robot.server.config import AssignmentGoal, ServerConfig
    from arena_robot.server.sessions.assignment import Aim

    config = load(ServerConfig, args.config) if args.config else ServerConfig()
    goal = config.goal if args.goal is None else AssignmentGoal(args.goal)
    return config.weights, Aim(goal, config.top_k if args.top_k is None else args.top_k)


def _real(args: argparse.Namespace) -> 'PoolTruth':
    import collections

    from arena_robot.cli.terminal import tell_refused
    from arena_robot.records.roboarena_files import read_tables
    from arena_robot.server.sessions.simulate import resampled

    data = read_tables(args.sessions)
    tell_refused(data)
    rows = data.comparisons()
    met = collections.Counter(name for row in rows for name in (row.a, row.b))
    return resampled([r for r in rows if min(met[r.a], met[r.b]) >= args.least])


def _print(curves: 'dict[str, dict[str, Curve]]', level: float) -> None:
    for name, ways in curves.items():
        print(f'\n{name}: mean rank correlation with the truth (± standard error)')
        steps = next(iter(ways.values())).comparisons
        shown = [k for k in range(len(steps)) if steps[k] in (50, 100, 150, 200, 300, 400, 500)]
        print(f'{"pairs":12} ' + ' '.join(f'{steps[k]:>13}' for k in shown)
              + f'  needed for {level:g}')
        for way, curve in ways.items():
            cells = ' '.join(f'{curve.correlation[k]:.3f} ± {curve.error[k]:.3f}' for k in shown)
            needed = curve.needed(level)
            print(f'{way:12} {cells}  {needed if needed else "more than all"}')
        for measure, words in (('first', 'first right'), ('top', 'first k right')):
            for way, curve in ways.items():
                cells = ' '.join(f'{getattr(curve, measure)[k]:13.2f}' for k in shown)
                print(f'{way}, {words}: {cells}')
