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
import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from arena_robot.audit.aggregate import Fingerprint, Mean, PolicySummary
    from arena_robot.audit.base import Judge
    from arena_robot.audit.opd import OpdTable
    from arena_robot.audit.run import AuditSettings
    from arena_robot.records.audit_file import EpisodeAudit
    from arena_robot.reports.audit_agreement import AuditedSession
    from arena_robot.reports.episode_audit import FoundEpisode


def audit_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument('--curve', choices=('raw', 'v1.5'), default='raw',
                        help="raw: what the judge said; v1.5: smoothed as the authors' second "
                             'tool does (default %(default)s)')
    parser.add_argument('--epsilon', type=float, metavar='E',
                        help='smaller changes are stagnation (default 0.005); measure it with '
                             '`arena judge noise`')
    parser.add_argument('--delta', type=float, default=1e-8, metavar='D',
                        help='added to the path length in PPL of the paper (default %(default)s)')
    parser.add_argument('--milestones', type=int, default=4, metavar='K',
                        help='MC counts in steps of 1/K (default %(default)s)')
    parser.add_argument('--by-task', action='store_true', help='tables per policy and task')
    parser.add_argument('--save', action='store_true',
                        help='write audit/JUDGE.json into the folder of each episode')
    parser.add_argument('--plots', type=Path, metavar='FOLDER',
                        help='draw the curves, milestones and success quality of the policies, '
                             'and the failure fingerprints')
    parser.add_argument('--cache', type=Path, default=Path('~/.cache/arena_robot/audit'),
                        metavar='FOLDER', help='where traces are kept (default %(default)s)')
    parser.add_argument('--no-cache', action='store_true', help='judge everything anew')
    add_worker_arguments(parser)


def run_audit(args: argparse.Namespace) -> int:
    """Measure and print."""
    from arena_robot.audit.opd import convention
    from arena_robot.audit.run import AuditSettings
    from arena_robot.core.errors import ConfigError

    if bool(args.place) == bool(args.trace):
        raise ConfigError('give either what to audit, or --trace FILE')
    if args.milestones < 1:
        raise ConfigError(f'--milestones must be at least 1, found {args.milestones}')
    settings = AuditSettings(convention(args.convention).name, args.epsilon, args.delta,
                             args.milestones, args.curve)
    if args.trace:
        return _traces(args, settings)
    return run_on_episodes(args, settings)


def _traces(args: argparse.Namespace, settings: 'AuditSettings') -> int:
    import numpy as np

    from arena_robot.audit.base import smoothed_values
    from arena_robot.audit.opd import EPSILON, convention, measure, opd_json, read_traces

    traces = read_traces(args.trace)
    names = [trace.name for trace in traces]
    shape = smoothed_values if settings.curve != 'raw' else np.asarray
    table = measure([shape(trace.phi) for trace in traces], convention(settings.convention),
                    EPSILON if settings.epsilon is None else settings.epsilon, settings.delta,
                    [trace.success for trace in traces], names, settings.milestones)
    print(json_text(opd_json(names, table)) if args.json
          else _traces_text(names, table, settings.curve))
    return 0


def _traces_text(names: list[str], table: 'OpdTable', curve: str) -> str:
    from arena_robot.audit.opd import EXTRA_METRICS, METRICS, milestone_words
    metrics = [*METRICS, *(EXTRA_METRICS if table.convention == 'v1.5' else ())]
    width = max(7, *map(len, names)) if names else 7
    lines = [f'OPD, convention {table.convention}, in percent; stagnation below '
             f'{table.epsilon:g}, delta {table.delta:g}, MC in steps of '
             f'1/{table.reached.shape[1]}, curve {curve}',
             f"{'episode':{width}}  steps  " + '  '.join(f'{m.upper():>6}' for m in metrics)]
    for row, name in enumerate(names):
        cells = (table.values(m)[row] for m in metrics)
        lines.append(f'{name:{width}}  {table.steps[row]:5}  ' + '  '.join(
            f'{100 * c:6.2f}' if c == c else f"{'-':>6}" for c in cells))
    if names:
        lines += ['', 'reached: ' + ', '.join(
            f'MC@{word} {100 * share:.1f}' for word, share in zip(
                milestone_words(table.reached.shape[1]), table.reached.mean(axis=0),
                strict=True)) + f' of {len(names)}']
    return '\n'.join(lines)


def run_on_episodes(args: argparse.Namespace, settings: 'AuditSettings') -> int:
    """Audit, print, draw; 1 when an episode could not be judged."""
    from arena_robot.audit.aggregate import fingerprints, summaries
    from arena_robot.audit.judges import settings_of
    from arena_robot.reports.audit_agreement import intervals, not_comparable
    from arena_robot.reports.episode_audit import (
        AuditJob,
        audit_folder,
        audited,
        audited_sessions,
        find_episodes,
        made,
    )

    job = AuditJob(args.judge, settings_of(args.param), settings, args.interval,
                   None if args.no_cache else args.cache.expanduser(), args.save)
    _check_budget(args, job.params)
    judge = made(job)
    episodes = [episode for place in args.place for episode in find_episodes(place)]
    with ProgressBar() as bar:
        audits = workers(args).map(functools.partial(audit_folder, job=job), episodes,
                                   lambda done, a: bar.show(done, len(episodes), a.name))
    refused = not_comparable(audits)
    rows = [audited(f, a, refused) for f, a in zip(episodes, audits, strict=True) if a.valid]
    tables = summaries(rows, args.by_task, milestones=settings.milestones)
    prints = fingerprints(rows)
    sessions = audited_sessions(episodes, audits)
    if args.plots:
        _draw(args.plots, audits, tables, prints)
    where = {f.session: f.folder.parent for f in episodes}
    report = {'judge': _declared(judge), **_report(episodes, audits, tables, prints),
              'settings': {**dataclasses.asdict(settings), 'judge': dict(job.params)},
              'intervals_s': intervals(audits), 'refused': refused, **_agreement(sessions, where)}
    print(json_text(report) if args.json else '\n'.join(
        [_episodes_text(audits, tables, prints, report), *_agreement_text(report)]))
    bad = [a for a in audits if not a.valid]
    for audit in bad if not args.json else ():
        print(f'arena: {audit.name} was not judged: {audit.detail}', file=sys.stderr)
    return 1 if bad else 0


def _draw(folder: Path, audits: 'Sequence[EpisodeAudit]', tables: 'Sequence[PolicySummary]',
          prints: 'Sequence[Fingerprint]') -> None:
    from arena_robot.reports.episode_audit import plot_curves, plot_fingerprints, plot_policies
    plot_curves(audits, folder / 'curves.png')
    plot_policies(tables, folder / 'policies.png')
    plot_fingerprints(prints, folder / 'fingerprints.png')


def _check_budget(args: argparse.Namespace, params: Sequence[tuple[str, Any]]) -> None:
    from arena_robot.core.errors import ConfigError
    if dict(params).get('budget') is not None and (args.jobs > 1 or args.cluster):
        raise ConfigError('each process would spend the whole budget: leave out --jobs and '
                          '--cluster, or the budget')


def _declared(judge: 'Judge') -> dict[str, Any]:
    from arena_robot.records.audit_file import not_trusted
    declared = dataclasses.asdict(judge.capabilities)
    return {'name': judge.name, **declared, 'kind': judge.capabilities.kind.value,
            'untrusted': not_trusted(judge.name, judge.capabilities.trusted)}


def _report(episodes: 'Sequence[FoundEpisode]', audits: 'Sequence[EpisodeAudit]',
            tables: 'Sequence[PolicySummary]', prints: 'Sequence[Fingerprint]') -> dict[str, Any]:
    from arena_robot.ranking.standings import plain
    return dict(plain({
        'episodes': [{**dataclasses.asdict(a), 'policy': f.policy, 'folder': str(f.folder)}
                     for f, a in zip(episodes, audits, strict=True)],
        'policies': [dataclasses.asdict(t) for t in tables],
        'fingerprints': [dataclasses.asdict(p) for p in prints]}))


def _agreement(sessions: 'Sequence[AuditedSession]', where: 'Mapping[str, Path]'
               ) -> dict[str, Any]:
    from arena_robot.core.wilson import wilson
    from arena_robot.ranking.standings import plain
    from arena_robot.reports.audit_agreement import (
        agreement_rate,
        agreements,
        by_category,
        by_evaluator,
        by_institution,
        not_calibrated,
    )
    compared = agreements(sessions)
    rate, decisive = agreement_rate(compared)
    return {'agreement': plain({
        'rate': rate, 'decisive': decisive, 'not_calibrated': not_calibrated(sessions),
        'sessions': [{**dataclasses.asdict(a), 'folder': str(where.get(a.session, ''))}
                     for a in compared],
        'institutions': [{'institution': name, 'agree': agree, 'decisive': decisive}
                         for name, (agree, decisive) in by_institution(compared).items()],
        'categories': [{'category': name, 'agree': agree, 'decisive': decisive, **dict(zip(
            ('low', 'high'), wilson(agree, decisive), strict=True))}
            for name, (agree, decisive) in by_category(compared).items()],
        'evaluators': [{**dataclasses.asdict(e), 'kind': e.kind.value}
                       for e in by_evaluator(compared)]})}


def _agreement_text(report: dict[str, Any]) -> list[str]:
    agreement = report['agreement']
    if why := report['judge']['untrusted']:
        return ['', f'no evaluator is judged by these audits: {why}']
    out = agreement['not_calibrated']
    left_out = ['', f'sessions left out of preference against audit, because the judge is not '
                f'calibrated there: {out}'] if out else []
    if not agreement['decisive']:
        return left_out
    lines = [*left_out, '', f"evaluators and audit agree in {agreement['rate']:.0%} of "
             f"{agreement['decisive']} "
             'sessions that are decisive for both']
    lines += [f"  {e['evaluator'] or 'no name'}: {e['agree']} of {e['decisive']}, "
              f"{e['kind']}"
              for e in agreement['evaluators']]
    lines += [f"  at {p['institution'] or 'no name'}: {p['agree']} of {p['decisive']}"
              for p in agreement['institutions']] if len(agreement['institutions']) > 1 else []
    lines += [f"  {c['category']}: {c['agree']} of {c['decisive']} [{c['low']:.2f}, "
              f"{c['high']:.2f}]"
              for c in agreement['categories']] if len(agreement['categories']) > 1 else []
    lines += [f"  differs: {a['session']}, preferred {a['preference']}, audit {a['audit']}, "
              f"{a['folder']}"
              for a in agreement['sessions'] if 'TIE' not in (a['preference'], a['audit'])
              and a['preference'] != a['audit']]
    return lines


def _episodes_text(audits: 'Sequence[EpisodeAudit]', tables: 'Sequence[PolicySummary]',
          prints: 'Sequence[Fingerprint]', report: dict[str, Any]) -> str:
    first = next((a for a in audits if a.valid), None)
    if first is None:
        return 'no episode could be judged'
    low, high = (f'{s:.2g}' for s in report['intervals_s'] or (0, 0))
    every = 'one frame' if not report['intervals_s'] else \
        f'a frame every {low} s' if low == high else f'a frame every {low} to {high} s'
    chosen = ', '.join(f'{k}={v}' for k, v in report['settings']['judge'].items())
    lines = [f'judge {first.judge} ({first.model}' + (f'; {chosen}' if chosen else '')
             + f'), {every}; OPD convention {first.convention}, stagnation below '
             f'{first.epsilon:g}, delta {first.delta:g}, MC in steps of '
             f"1/{report['settings']['milestones']}, curve {report['settings']['curve']}; percent"]
    lines += _block('all episodes', tables, lambda t: t.overall, ('mp', 'ppl', 'cra', 'str'))
    lines += _block('reached', tables, lambda t: {f'mc@{q}': m for q, m in t.reached.items()},
                    [f'mc@{q}' for q in tables[0].reached] if tables else [])
    if any(t.labelled for t in tables):
        lines += _block('successes alone', tables, lambda t: t.successes, ('ppl', 'cra', 'str'))
        lines += _block('failures alone', tables, lambda t: t.failures,
                        ('mp', 'ppl', 'cra', 'str'))
    reasons = sorted({f'{m.upper()}: {why}' for a in audits for m, why in a.refused.items()})
    lines += ['', 'not computed for some episodes:', *(f'  {r}' for r in reasons)] \
        if reasons else []
    if report['refused']:
        lines += ['', 'PPL and STR are not in the tables: ' + report['refused']['ppl']]
    shown = [p for p in prints if any(z is not None for z in p.z.values())]
    if shown:
        lines += ['', 'failure fingerprints: standard deviations from the mean of the policies, '
                  'more is better']
        lines += [f'  {p.policy}, {p.task}: ' + ', '.join(
            f'{m.upper()} {z:+.2f}' for m, z in p.z.items() if z is not None) for p in shown]
    return '\n'.join(lines)


def _block(title: str, tables: 'Sequence[PolicySummary]', means: Any,
           metrics: Sequence[str]) -> list[str]:
    names = {id(t): t.policy + (f', {t.task}' if t.task else '') for t in tables}
    width = max(6, *(len(n) for n in names.values()))
    lines = ['', f'{title:{width}}      n  ' + '  '.join(f'{m.upper():<19}' for m in metrics)]
    for t in tables:
        rows = means(t)
        count = max((m.count for m in rows.values()), default=0)
        lines.append((f'{names[id(t)]:{width}}  {count:5}  ' + '  '.join(
            f'{_cell(rows.get(m)):<19}' for m in metrics)).rstrip())
    return lines


def _cell(mean: 'Mean | None') -> str:
    if mean is None or not mean.count:
        return '-'
    value = f'{100 * mean.mean:5.1f}'
    return value if mean.low != mean.low else \
        f'{value} [{100 * mean.low:.1f}, {100 * mean.high:.1f}]'
