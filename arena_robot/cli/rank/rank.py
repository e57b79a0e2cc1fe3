"""
Rank the policies of a table of A/B sessions.

Counted are the sessions that are valid and have a preference; invalid rows are left out and
listed on standard error. Without --policies every policy is ranked that the method can place,
and the others are named in the diagnostics. --cluster-by says what counts as one observation
in the intervals; --intervals 0 omits them.

  arena rank --sessions sessions.csv --method davidson
  arena rank --sessions sessions.csv --episodes episodes.csv --method task_partial --json
  arena rank --sessions sessions.csv --audits audits.json --method preference_audit

audits.json is what `arena audit FOLDER --json` printed of the same sessions.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.ranking.recommended import RECOMMENDED

if TYPE_CHECKING:
    from arena_robot.core.episode import Comparison
    from arena_robot.records.audit_file import AuditScores
    from arena_robot.records.roboarena import RoboArenaData

from arena_robot.cli.terminal import ListRows, json_text

BY = ('preference', 'progress', 'success', 'time')
BY_HELP = ('what decides which of a pair was better: preference, progress, success, or time to '
           'success (default %(default)s); all but the first need --episodes')


def rank_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_table_arguments(parser)
    parser.add_argument('--method', default=RECOMMENDED, metavar='NAME',
                        help=f'method by name, or module:name (default {RECOMMENDED})')
    parser.add_argument('--by', default=BY[0], metavar='WHAT', choices=BY, help=BY_HELP)
    parser.add_argument('--option', action='append', default=[], metavar='KEY=VALUE',
                        help='option of the method, such as k=32 (elo), l2=0.1 (bt) or buckets=20')
    parser.add_argument('--intervals', type=int, default=200, metavar='N',
                        help='bootstrap replicates, 0 for none (default 200)')
    parser.add_argument('--level', type=float, default=0.95, help='of intervals (default 0.95)')
    parser.add_argument('--cluster-by', default='auto', metavar='WHAT',
                        choices=('auto', 'session', 'evaluator', 'institution'),
                        help='what counts as one observation in intervals: session, evaluator or '
                             'institution (default: evaluator where 10 or more are known, else '
                             'session)')
    parser.add_argument('--pair', metavar='A,B',
                        help='also test which of two policies is better')
    parser.add_argument('--needed', metavar='GOAL',
                        help='also tell how many more sessions are needed until it is known which '
                             'policy is "first", the whole "order", or which K are ahead (a '
                             'number)')
    parser.add_argument('--waiting', action='store_true',
                        help='also tell how much it decides that an arm waits for its policy, '
                             'and the scores without that')
    add_apart_arguments(parser)
    parser.add_argument('--influence', action='store_true',
                        help='also tell how few verdicts, evaluators or institutions, when left '
                             'out, change who is first')
    parser.add_argument('--evaluators', action='store_true',
                        help='also report vote statistics of evaluators and institutions')
    parser.add_argument('--plot', metavar='FILE', help='plot the standings (.png or .svg)')
    parser.add_argument('--plot-matrix', metavar='FILE', help='plot wins per pair (.png or .svg)')
    add_worker_arguments(parser)


def add_apart_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that weigh or rank some of the sessions apart."""
    parser.add_argument('--half-life', type=float, metavar='DAYS',
                        help='a verdict counts half when it is so many days older than the '
                             'newest (default: all count alike)')
    parser.add_argument('--windows', type=int, metavar='N',
                        help='also rank N windows of time, each by itself, and tell whose score '
                             'changed from the first to the last')
    parser.add_argument('--robots', action='store_true',
                        help='also rank the sessions of each kind of robot by itself (column '
                             'robot), and tell whether the kinds may be pooled')


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that ``rank`` and ``study methods`` share."""
    parser.add_argument('--list-methods', action=ListRows, help='list the methods and exit',
                        table='arena_robot.ranking.methods:METHODS')
    parser.add_argument('--sessions', required=True, metavar='CSV', help='one row per A/B session')
    parser.add_argument('--episodes', metavar='CSV', help='one row per rollout, with its score')
    parser.add_argument('--audits', metavar='JSON',
                        help='what `arena audit --json` printed, for opd, preference_audit, '
                             'hierarchical and --evaluators')
    parser.add_argument('--audit-metric', default='ppl', metavar='NAME',
                        help="the audit's number: ppl, mp or final (default %(default)s)")
    parser.add_argument('--policies', metavar='A,B,…', help='rank only these (default: all)')
    parser.add_argument('--seed', type=int, default=0, help='seed of all random draws (default 0)')


def read_table_arguments(args: argparse.Namespace) -> 'RoboArenaData':
    """Return what the tables hold; rows that were left out are named on standard error."""
    from arena_robot.cli.terminal import tell_refused
    from arena_robot.records.roboarena_files import read_tables
    data = read_tables(args.sessions, args.episodes)
    tell_refused(data)
    return data


def read_audits(args: argparse.Namespace) -> 'AuditScores | None':
    """Return the scores in the file of --audits, None without one."""
    from pathlib import Path

    from arena_robot.records.audit_file import read_audit_scores
    return read_audit_scores(Path(args.audits), args.audit_metric) if args.audits else None


def audit_option(method: str, rows: 'Sequence[Comparison]', items: Sequence[str],
                 audits: 'AuditScores | None') -> dict[str, Any]:
    """Return the option ``audits`` for a method that takes it, where there are audits."""
    from arena_robot.ranking.methods import METHODS
    from arena_robot.ranking.rollouts import AuditTable
    row = METHODS.find(method)
    return {'audits': AuditTable.build(rows, items, audits.values)} \
        if audits and (row.needs_audits or row.hears_audits) else {}


def run_rank(args: argparse.Namespace) -> int:
    """Rank, draw, print."""
    import dataclasses

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.methods import METHODS, method, placeable, rank, rank_comparable
    from arena_robot.ranking.rollouts import arena_tables
    from arena_robot.ranking.standings import as_json

    if not 0 < args.level < 1 or args.intervals < 0:
        raise ConfigError(f'--level must be between 0 and 1 and --intervals at least 0; got '
                          f'{args.level} and {args.intervals}')
    method(args.method, **(options := parsed_options(args.option)))
    data, by = _judged(args, read_table_arguments(args))
    comparisons = arena_tables(data.comparisons(), policies=policy_names(args)).comparisons
    options |= audit_option(args.method, data.comparisons(), comparisons.items, read_audits(args))
    comparisons = _aged(args, data, comparisons)
    # Where no two can be compared, or it was asked for these, the method says what is missing.
    placed = not args.policies and len(placeable(comparisons, args.method)[0]) >= 2
    answer = (rank_comparable if placed else rank)(comparisons, args.method, **_settings(args),
                                                   **options)
    result, left_out = answer if isinstance(answer, tuple) else (answer, [])
    if placed:
        comparisons = comparisons.only(result.items)
    if left_out:
        excluded = f"left out, not comparable with the others: {', '.join(left_out)}"
        diagnostics = dataclasses.replace(result.diagnostics,
                                          warnings=(*result.diagnostics.warnings, excluded))
        result = dataclasses.replace(result, diagnostics=diagnostics)
    _draw(args, comparisons, result, METHODS.find(args.method).unit)
    report = {**as_json(result), 'by': by, 'refused': list(data.refused),
              'origins': _origins(data, result.items),
              **_extras(args, data, comparisons, options)}
    print(json_text(report) if args.json else
          '\n'.join([str(result), *_origin_lines(report), *_extra_lines(report)]))
    for warning in () if args.json else result.diagnostics.warnings:
        print(f'arena: {warning}', file=sys.stderr)
    return 0


def _judged(args: argparse.Namespace, data: 'RoboArenaData',
            ) -> tuple['RoboArenaData', dict[str, Any]]:
    """
    Return the sessions with what --by says as their preference, and how many have one.

    Raises ConfigError where none has.
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.records.roboarena import RankedBy
    judged = data.judged_by(RankedBy(args.by))
    by = {'measure': args.by, 'sessions': sum(session.counts for session in judged.sessions),
          'of': sum(session.valid for session in data.sessions)}
    if args.by != BY[0] and not by['sessions']:
        raise ConfigError(f'--by {args.by}: no session says of both rollouts what this needs; '
                          'name the table of rollouts with --episodes (docs/ranking.md says which '
                          'columns)')
    return judged, by


def _origins(data: 'RoboArenaData', ranked: Sequence[str]) -> dict[str, int]:
    from arena_robot.ranking.standings import origins
    return origins(row for row in data.comparisons() if {row.a, row.b} <= set(ranked))


def _origin_lines(report: Mapping[str, Any]) -> list[str]:
    chosen, origins = report['diagnostics'].get('chosen'), report['origins']
    by = report['by']
    return [*([f"by {by['measure']}: {by['sessions']} of {by['of']} valid sessions say which was "
               'better, or neither'] if by['measure'] != 'preference' else []),
            'comparisons: ' + ', '.join(f'{number} {origin}' for origin, number in origins.items())
            + (f'; in {chosen} the pair was chosen by earlier verdicts' if chosen else '')]


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return what every ranking of this command is asked for."""
    return {'intervals': args.intervals, 'seed': args.seed, 'level': args.level,
            'cluster': args.cluster_by, 'workers': workers(args)}


def _days(data: 'RoboArenaData', items: Sequence[str]) -> Any:
    """Return when each comparison of the policies was made, in days; ConfigError for none."""
    import numpy as np

    from arena_robot.core.clock import DAY_NS, from_iso
    from arena_robot.core.errors import ConfigError
    times = [row.created for row in data.comparisons() if {row.a, row.b} <= set(items)]
    if not all(times):
        raise ConfigError('--half-life and --windows need the time of every session that counts, '
                          "in the column 'created'")
    return np.array([from_iso(time) for time in times]) / DAY_NS


def _aged(args: argparse.Namespace, data: 'RoboArenaData', comparisons: Any) -> Any:
    """Return the comparisons with the weights of --half-life."""
    from arena_robot.ranking.evaluators.agreement import decayed
    if args.half_life is None or not len(comparisons):
        return comparisons
    days = _days(data, comparisons.items)
    return decayed(comparisons, days.max() - days, args.half_life)


def _over_time(args: argparse.Namespace, data: 'RoboArenaData', comparisons: Any,
               options: dict[str, Any]) -> dict[str, Any]:
    from arena_robot.core.clock import DAY_NS, to_utc
    from arena_robot.ranking.differences import over_time
    from arena_robot.ranking.standings import as_json
    found = over_time(comparisons, _days(data, comparisons.items), args.windows, args.method,
                      **_settings(args), **options)
    return {'windows': [{'first': str(to_utc(round(first * DAY_NS)).date()),
                         'last': str(to_utc(round(last * DAY_NS)).date()), **as_json(standings)}
                        for (first, last), standings in zip(found.spans, found.standings,
                                                            strict=True)],
            'changes': [{'policy': name, 'change': change, 'low': low, 'high': high}
                        for name, (change, low, high) in found.changes.items()],
            'left_out': list(found.left_out)}


def _time_lines(found: dict[str, Any]) -> list[str]:
    from arena_robot.ranking.standings import TOO_FEW
    scores = [{row['policy']: row['score'] for row in window['standings']}
              for window in found['windows']]
    width = max(len('policy'), *(len(row['policy']) for row in found['changes']))
    return ['', f"{'policy':{width}}" + ''.join(
        f"  {window['first']} to {window['last']}" for window in found['windows']) + '  change',
            *(f"{row['policy']:{width}}" + ''.join(f"{score[row['policy']]:26.3f}"
                                                   for score in scores)
              + f"  {row['change']:+.2f} (" + (TOO_FEW if row['low'] is None else
                                               f"{row['low']:+.2f} to {row['high']:+.2f}") + ')'
              for row in found['changes'])]


def _by_robot(args: argparse.Namespace, comparisons: Any, options: dict[str, Any],
              ) -> dict[str, Any]:
    from dataclasses import asdict

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.differences import across_robots
    from arena_robot.ranking.standings import as_json
    if 'robot' not in comparisons.conditions.factors:
        raise ConfigError("--robots needs the kind of robot of sessions, in the column 'robot'")
    found = across_robots(comparisons, args.method, **_settings(args), **options)
    fields = {key: value for key, value in asdict(found).items() if key != 'standings'}
    return {**fields, 'differs': [dict(zip(('policy', 'best', 'worst'), row, strict=True))
                                  for row in found.differs],
            'standings': {name: as_json(result) for name, result in found.standings.items()}}


def _robot_lines(found: Mapping[str, Any]) -> list[str]:
    scores = [{row['policy']: row['score'] for row in result['standings']}
              for result in found['standings'].values()]
    names = list(dict.fromkeys(name for score in scores for name in score))
    width = max(map(len, ('policy', *names)))
    wide = [max(8, len(robot)) for robot in found['standings']]
    unknown = [f"comparisons that name no robot: {found['unknown']}"] if found['unknown'] else []
    return ['', f"{'policy':{width}}" + ''.join(
        f'  {robot:>{w}}' for robot, w in zip(found['standings'], wide, strict=True)),
            *(f'{name:{width}}' + ''.join(
                f"  {format(score[name], '.3f') if name in score else '-':>{w}}"
                for score, w in zip(scores, wide, strict=True)) for name in names),
            *(f'{robot} has no standings: {why}' for robot, why in found['unranked'].items()),
            *unknown, f"robots, by {found['by']}: {found['words']}"]


def _extras(args: argparse.Namespace, data: 'RoboArenaData', comparisons: Any,
            options: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.evaluators.reports import evaluators, influence, institutions
    from arena_robot.ranking.methods import method
    from arena_robot.ranking.standings import plain
    extras: dict[str, Any] = {}
    if args.pair:
        names = [name.strip() for name in args.pair.split(',')]
        if len(names) != 2:
            raise ConfigError(f"--pair '{args.pair}' is not two policies with a comma between")
        extras |= _pair_evidence(args, comparisons, names)
    if args.needed:
        extras['needed'] = needed(args, comparisons)
    if args.influence:
        extras['fragility'] = _fragility(comparisons)
    if args.waiting:
        extras['waiting'] = waiting_effect(comparisons, args.level, args.cluster_by)
    if args.windows is not None:
        extras['over_time'] = _over_time(args, data, comparisons, options)
    if args.robots:
        extras['robots'] = _by_robot(args, comparisons, options)
    if args.evaluators:
        extras['evaluators'] = [asdict(evaluator) for evaluator in evaluators(comparisons)]
        extras['institutions'] = [asdict(institution) for institution in institutions(comparisons)]
        if audits := read_audits(args):
            from arena_robot.audit.aggregate import evaluator_signals
            extras['audit'] = [asdict(signal) for signal in evaluator_signals(
                evaluators(comparisons), audits.evaluators)] if not audits.untrusted else []
            extras['audit_refused'] = audits.untrusted
        extras['influence'] = [asdict(effect) for effect in influence(
            comparisons, method(args.method, **options))]
    return dict(plain(extras))


def _pair_evidence(args: argparse.Namespace, comparisons: Any, names: list[str]) -> dict[str, Any]:
    """Return the evidence of the verdicts, and of progress where both rollouts have some."""
    from dataclasses import asdict

    from arena_robot.ranking.intervals.choice import chosen_cluster
    from arena_robot.ranking.intervals.needed import evidence, progress_verdicts
    pair = comparisons.only(names)
    tested = {'evidence': pair, 'evidence_of_progress': progress_verdicts(pair)}
    results = {key: asdict(evidence(votes, *names, alpha=1 - args.level,
                                    by=chosen_cluster(comparisons, args.cluster_by)))
               for key, votes in tested.items() if key == 'evidence' or len(votes)}
    for weighed in results.values():
        weighed.pop('log_e_path')
    return results


def _fragility(comparisons: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from arena_robot.ranking.evaluators.fragility import fragility, fragility_words
    results = fragility(comparisons)
    return {'words': fragility_words(results, named=True),
            'found': [asdict(result) for result in results]}


def _extra_lines(report: dict[str, Any]) -> list[str]:
    lines = [line for key in ('needed', 'fragility') if key in report
             for line in ('', report[key]['words'])]
    lines += waiting_lines(report['waiting']) if 'waiting' in report else []
    lines += _time_lines(report['over_time']) if 'over_time' in report else []
    lines += _robot_lines(report['robots']) if 'robots' in report else []
    for key, counted in (('evidence', '{} won, {} lost, {} tied'),
                         ('evidence_of_progress',
                          'got further in {}, less far in {}, as far in {}')):
        lines += _evidence_lines(report[key], counted) if key in report else []
    for group in ('evaluators', 'institutions') if 'evaluators' in report else ():
        lines += ['', f'{group:<20} votes  agree  expected  first  ties   own scores  suspicion']
        for voter in report[group]:
            cells = ''.join(f"{'-' if voter[key] is None else format(voter[key], '.2f'):>{width}}"
                            for key, width in (('agreement', 7), ('expected', 10),
                                               ('first_share', 7), ('ties', 6),
                                               ('own_scores', 13)))
            kind = voter['kind'] + (f" to {voter['favours']}" if voter['favours'] else '')
            lines.append(f"{voter['name']:<20} {voter['votes']:>5}{cells}"
                         f"{voter['suspicion']:>11.1f}  {kind}")
    if report.get('audit_refused'):
        lines += ['', f"no evaluator is judged by the audits: {report['audit_refused']}"]
    elif 'audit' in report:
        lines += ['', 'against the audit    agree  decisive  suspicion (votes, audit)']
    lines += [f"{evaluator['name']:<20} {evaluator['agree']:>5}  {evaluator['decisive']:>8}  "
              f"{evaluator['suspicion']:.1f} ({evaluator['votes_suspicion']:.1f}, "
              f"{evaluator['audit_suspicion']:.1f})  {evaluator['audit_kind']}"
              for evaluator in report.get('audit', [])]
    lines += ['', 'without               votes  largest change'] if 'influence' in report else []
    for voter in report.get('influence', []):
        moves = ', '.join(f'{name} {a} to {b}' for name, (a, b) in voter['moved'].items())
        change = voter['failed'] or (f"{voter['largest']:.3f} ({voter['policy']})  "
                                     f"{moves or 'no rank'}")
        lines.append(f"{voter['name']:<20} {voter['votes']:>6}  {change}")
    return lines


def _evidence_lines(weighed: dict[str, Any], counted: str) -> list[str]:
    verdict = 'not enough evidence yet' if weighed['better'] is None else \
        f"{weighed['better']} is better, decided after {weighed['decided_after']} sessions"
    share = '' if weighed['low'] is None else \
        f"share won {weighed['low']:.2f} to {weighed['high']:.2f}, "
    counts = counted.format(*(weighed[key] for key in ('wins', 'losses', 'ties')))
    return ['', f"{weighed['first']} against {weighed['second']}: {counts}; {share}"
            f"p {weighed['p_value']:.2g} however often looked at, by {weighed['by']}: {verdict}"]


def policy_names(args: argparse.Namespace) -> list[str] | None:
    """Return the names after --policies, or None for all."""
    return [name.strip() for name in args.policies.split(',') if name.strip()] \
        if args.policies else None


def parsed_options(pairs: list[str]) -> dict[str, Any]:
    """
    Return KEY=VALUE pairs as numbers where they are numbers.

    :raises ConfigError: a pair has no equals sign.
    """
    from arena_robot.core.errors import ConfigError
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition('=')
        if not equals or not key:
            raise ConfigError(f"--option '{pair}' is not KEY=VALUE")
        for kind in (int, float, str):
            try:
                options[key] = kind(text)
                break
            except ValueError:
                continue
    return options


def _draw(args: argparse.Namespace, comparisons: Any, result: Any, unit: str) -> None:
    if not (args.plot or args.plot_matrix):
        return
    from arena_robot.ranking.plots import plot_standings, plot_win_matrix
    if args.plot:
        plot_standings(result, args.plot, unit)
    if args.plot_matrix:
        plot_win_matrix(comparisons, result, args.plot_matrix)


def needed(args: argparse.Namespace, comparisons: Any) -> dict[str, Any]:
    """Return how many more sessions are needed; ConfigError for an unknown goal."""
    from dataclasses import asdict

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.intervals.needed import first_known, needed_words, sessions_needed
    goal = 'top' if args.needed.isdecimal() else args.needed
    if goal not in ('first', 'top', 'order'):
        raise ConfigError(f"--needed '{args.needed}' is neither first nor order nor a number")
    estimate = sessions_needed(comparisons, goal, int(args.needed) if goal == 'top' else 1,
                               level=args.level, cluster=args.cluster_by, seed=args.seed)
    return {**(asdict(estimate) if estimate else {'goal': goal}), 'words': needed_words(estimate),
            'first_known_at_any_look': first_known(comparisons, alpha=1 - args.level,
                                                   cluster=args.cluster_by)}


def waiting_effect(comparisons: Any, level: float, cluster: str) -> dict[str, Any]:
    """Return how much waiting explains, and abilities with and without it; ConfigError."""
    import numpy as np

    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.intervals.adjusted import adjusted
    from arena_robot.ranking.pairwise.covariates import known_waits
    known, gap = known_waits(comparisons)
    if not len(known):
        raise ConfigError('--waiting needs sessions with waited_a and waited_b, the shares of the '
                          'steps in which the arm waited; none of these has both')
    with_gap = adjusted(known, gap, ['waiting'], level, cluster)
    plain = adjusted(known, np.zeros((len(known), 0)))
    return {'known': len(known), 'of': len(comparisons), 'gamma': with_gap.gamma[0],
            'low': with_gap.low[0], 'high': with_gap.high[0],
            'standings': [{'policy': known.items[k], 'score': with_gap.fit.scores[k],
                           'with_waiting': plain.fit.scores[k]}
                          for k in np.argsort(-with_gap.fit.scores, kind='stable')]}


def waiting_lines(waiting: dict[str, Any]) -> list[str]:
    """Return the effect of waiting as text."""
    width = max(len('policy'), *(len(row['policy']) for row in waiting['standings']))
    interval = 'too few to tell' if waiting['low'] is None else (
        f"{0.1 * waiting['low']:+.2f} to {0.1 * waiting['high']:+.2f}")
    return ['', f"waiting is known of {waiting['known']} of {waiting['of']} comparisons; by "
            'Bradley–Terry, waiting in 10 % of the time more than the other',
            f"changes a score by {0.1 * waiting['gamma']:+.2f} ({interval})",
            f"{'policy':{width}}  without waiting  as it was",
            *(f"{row['policy']:{width}}  {row['score']:15.3f}  {row['with_waiting']:9.3f}"
              for row in waiting['standings'])]
