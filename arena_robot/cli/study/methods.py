"""Verbs of studies of methods: how well they recover a reference, how many pairs they need."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.rank.rank import (
    add_table_arguments,
    audit_option,
    policy_names,
    read_audits,
    read_table_arguments,
)
from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.core.episode import Comparison
    from arena_robot.ranking.base import Method
    from arena_robot.ranking.rollouts import ArenaTables


def methods_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_table_arguments(parser)
    parser.add_argument('--method', metavar='A,B,…',
                        help='methods to measure (default: all but the variants of others)')
    parser.add_argument('--splits', type=int, default=100, help='random splits (default 100)')
    parser.add_argument('--share', type=float, default=0.8,
                        help='of the sessions to train on (default 0.8)')
    parser.add_argument('--invalid', action='store_true',
                        help='the reference counts rollouts of invalid sessions too')
    parser.add_argument('--sizes', default='25,50,100,200,400', metavar='N,N,…',
                        help='sessions of the efficiency curve, empty for none')
    parser.add_argument('--repeats', type=int, default=20,
                        help='subsets per size of the efficiency curve (default 20)')
    parser.add_argument('--redraw', type=int, default=0, metavar='N',
                        help='also measure on N new draws of the compared pairs')
    parser.add_argument('--plot', metavar='FILE', help='plot the efficiency curve (.png or .svg)')
    add_worker_arguments(parser)


def run_methods(args: argparse.Namespace) -> int:
    """
    Evaluate ranking methods against the mean progress of every policy over all its rollouts.

    Every method is trained on the same 100 random 80 % of the sessions. Pearson, Spearman, Kendall
    and MMRV compare its scores with the reference, accuracy uses the held-out verdicts. Beside it
    is Pearson against the rollouts that were not trained on. The spread is that of splitting the
    given sessions; --redraw N adds the results of N new draws of the compared pair in every
    session.

      arena study methods --sessions sessions.csv --episodes episodes.csv --method bt,task
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking import quality

    if args.splits < 1 or args.repeats < 1 or args.redraw < 0:
        raise ConfigError('--splits and --repeats must be at least 1, --redraw at least 0')
    at_work = workers(args)
    if not args.episodes:
        raise ConfigError('study methods needs --episodes: the reference is the mean progress')
    _methods(args)
    sizes = _sizes(args.sizes)
    counted, arena, left_out = _tables(args)
    methods = _methods(args, counted, arena.comparisons.items)
    sessions = len(set(arena.comparisons.session.tolist()))
    splits = quality.splits(arena, methods, args.splits, args.share, seed=args.seed,
                            workers=at_work)
    curves = quality.efficiency(arena, methods, [s for s in sizes if s <= sessions],
                                args.repeats, seed=args.seed, workers=at_work)
    drawn = quality.redraws(arena, methods, args.redraw, seed=args.seed,
                            workers=at_work) if args.redraw else {}
    report = _report(args, arena, splits, curves, drawn, left_out)
    if args.plot:
        from arena_robot.ranking.plots import plot_efficiency
        plot_efficiency({name: {size: scored.summaries() for size, scored in curve.items()}
                         for name, curve in curves.items()}, args.plot)
    print(json_text(report) if args.json else _text(report))
    for name in left_out if not args.json else ():
        print(f'arena: left out, not comparable with the others: {name}', file=sys.stderr)
    return 0


def _tables(args: argparse.Namespace) -> 'tuple[list[Comparison], ArenaTables, list[str]]':
    """Return all comparisons, those of the policies that are compared, and who is left out."""
    from arena_robot.core.errors import RankingError
    from arena_robot.ranking.methods import placeable
    from arena_robot.ranking.rollouts import arena_tables

    data = read_table_arguments(args)
    counted, scored = data.comparisons(), data.scored(invalid=args.invalid)
    arena = arena_tables(counted, scored, policy_names(args))
    if args.policies:
        return counted, arena, []
    comparable, left_out = placeable(arena.comparisons, 'bt', exact=True)
    if len(comparable) < 2:
        raise RankingError(f'{args.sessions}: no two policies can be compared')
    return counted, arena_tables(counted, scored, comparable), left_out


def _methods(args: argparse.Namespace, rows: 'Sequence[Comparison]' = (),
             items: Sequence[str] = ()) -> 'dict[str, Method]':
    from arena_robot.ranking.methods import METHODS, method
    audits = read_audits(args)
    names = [name.strip() for name in args.method.split(',')] if args.method else [
        name for name, row in METHODS.rows().items()
        if row.measured or (audits and row.needs_audits)]
    return {name: method(name, **audit_option(name, rows, items, audits)) for name in names}


def _report(args: argparse.Namespace, arena: Any, splits: Any, curves: Any, drawn: Any,
            left_out: list[str]) -> dict[str, Any]:
    from arena_robot.ranking.quality import reference
    from arena_robot.ranking.standings import plain
    items = arena.comparisons.items
    report = {
        'methods': _all(splits),
        'efficiency': {name: [{'sessions': size, **_measures(scored)}
                              for size, scored in curve.items()]
                       for name, curve in curves.items()},
        'reference': dict(zip(items, reference(arena.rollouts, len(items)), strict=True)),
        'settings': {'comparisons': len(arena.comparisons), 'splits': args.splits,
                     'share': args.share, 'seed': args.seed, 'repeats': args.repeats,
                     'left_out': left_out}}
    if drawn:
        report['redraw'] = _all(drawn)
    return dict(plain(report))


def _all(measures: Any) -> dict[str, Any]:
    """Return the measures per method and what each gains on the first, repeat by repeat."""
    from arena_robot.ranking.quality import summary
    first = next(iter(measures.values()))
    return {name: {**_measures(scored), 'gain': {
        measure: summary(scored.values[measure] - first.values[measure])
        for measure in scored.values}} for name, scored in measures.items()}


def _measures(scored: Any) -> dict[str, Any]:
    return {**scored.summaries(), 'failed': scored.failed, 'rescued': scored.rescued}


def _sizes(text: str) -> list[int]:
    from arena_robot.core.errors import ConfigError
    try:
        sizes = sorted({int(word) for word in text.split(',') if word.strip()})
    except ValueError as error:
        raise ConfigError(f"--sizes '{text}' is not a list of whole numbers") from error
    if any(size < 2 for size in sizes):
        raise ConfigError('--sizes must be at least 2 sessions')
    return sizes


def _text(report: dict[str, Any]) -> str:
    settings = report['settings']
    lines = [f"{settings['comparisons']} comparisons, {settings['splits']} splits at "
             f"{settings['share']:.0%}, reference = mean progress"]
    lines += _block(report['methods'])
    if 'redraw' in report:
        lines += ['', 'fresh draws of the compared pair in every session']
        lines += _block(report['redraw'])
    for name, curve in report['efficiency'].items():
        lines += ['', f'{name}, by number of sessions'] if curve else []
        for row in curve:
            lines.append(f"{row['sessions']:>6}  pearson {_cell(row['pearson'])}  mmrv "
                         f"{_cell(row['mmrv'])}  accuracy {_cell(row['accuracy'])}")
    return '\n'.join(lines)


def _block(methods: dict[str, Any]) -> list[str]:
    width = max(len('method'), *(len(name) for name in methods))
    first = next(iter(methods))
    heads = ('pearson', 'mmrv', 'accuracy', 'leak-free pearson', f'pearson gained on {first}')
    lines = [(f"{'method':{width}}  " + '  '.join(f'{head:<23}' for head in heads)).rstrip()]
    for name, row in methods.items():
        cells = [_cell(row.get(m)) for m in ('pearson', 'mmrv', 'accuracy', 'pearson_leak_free')]
        cells.append(_cell(row['gain']['pearson'], '+.4f'))
        lines.append(f'{name:{width}}  ' + '  '.join(cells).rstrip()
                     + (f"  {row['failed']} failed" if row['failed'] else ''))
    return lines


def _cell(value: list[float | None] | None, form: str = '.4f') -> str:
    if not value or value[0] is None:
        return f"{'-':<23}"
    mean, low, high = (format(x, form) for x in value)
    return f'{mean} [{low}, {high}]'


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
        for way in WAYS:
            print(f'playing {name}, {way} pairs …', file=sys.stderr)
            curves.setdefault(name, {})[way] = play(
                truths, way, args.comparisons, args.seed, weights, at_work, aim)
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
