"""`arena audit` of recorded episodes: work, tables, plots."""

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.progress_bar import ProgressBar
from arena_robot.cli.worker_arguments import workers

if TYPE_CHECKING:
    from arena_robot.audit.aggregate import Fingerprint, Mean, PolicySummary
    from arena_robot.audit.base import Judge
    from arena_robot.audit.run import AuditSettings
    from arena_robot.records.audit_file import EpisodeAudit
    from arena_robot.reports.audit_agreement import AuditedSession
    from arena_robot.reports.episode_audit import FoundEpisode


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
    found = [episode for place in args.place for episode in find_episodes(place)]
    with ProgressBar() as bar:
        audits = workers(args).map(functools.partial(audit_folder, job=job), found,
                                   lambda done, a: bar.show(done, len(found), a.name))
    refused = not_comparable(audits)
    rows = [audited(f, a, refused) for f, a in zip(found, audits, strict=True) if a.valid]
    tables, prints = summaries(rows, args.by_task), fingerprints(rows)
    sessions = audited_sessions(found, audits)
    if args.plots:
        from arena_robot.reports.audit_plots import plot_curves, plot_fingerprints
        plot_curves(audits, args.plots / 'curves.png')
        plot_fingerprints(prints, args.plots / 'fingerprints.png')
    where = {f.session: f.folder.parent for f in found}
    report = {'judge': _declared(judge), **_report(found, audits, tables, prints),
              'intervals_s': intervals(audits), 'refused': refused, **_agreement(sessions, where)}
    print(json.dumps(report, indent=2, allow_nan=False) if args.json
          else '\n'.join([_text(audits, tables, prints, report), *_agreement_text(report)]))
    bad = [a for a in audits if not a.valid]
    for audit in bad if not args.json else ():
        print(f'arena: {audit.name} was not judged: {audit.detail}', file=sys.stderr)
    return 1 if bad else 0


def _check_budget(args: argparse.Namespace, params: Sequence[tuple[str, Any]]) -> None:
    from arena_robot.core.errors import ConfigError
    if dict(params).get('budget') is not None and (args.jobs > 1 or args.cluster):
        raise ConfigError('each process would spend the whole budget: leave out --jobs and '
                          '--cluster, or the budget')


def _declared(judge: 'Judge') -> dict[str, Any]:
    declared = dataclasses.asdict(judge.capabilities)
    return {'name': judge.name, **declared, 'kind': judge.capabilities.kind.value}


def _report(found: 'Sequence[FoundEpisode]', audits: 'Sequence[EpisodeAudit]',
            tables: 'Sequence[PolicySummary]', prints: 'Sequence[Fingerprint]') -> dict[str, Any]:
    from arena_robot.ranking.standings import plain
    return dict(plain({
        'episodes': [{**dataclasses.asdict(a), 'policy': f.policy, 'folder': str(f.folder)}
                     for f, a in zip(found, audits, strict=True)],
        'policies': [dataclasses.asdict(t) for t in tables],
        'fingerprints': [dataclasses.asdict(p) for p in prints]}))


def _agreement(sessions: 'Sequence[AuditedSession]', where: 'Mapping[str, Path]'
               ) -> dict[str, Any]:
    from arena_robot.ranking.standings import plain
    from arena_robot.reports.audit_agreement import (
        agreement_rate,
        agreements,
        by_evaluator,
        by_institution,
        not_calibrated,
    )
    found = agreements(sessions)
    rate, decisive = agreement_rate(found)
    return {'agreement': plain({
        'rate': rate, 'decisive': decisive, 'not_calibrated': not_calibrated(sessions),
        'sessions': [{**dataclasses.asdict(a), 'folder': str(where.get(a.session, ''))}
                     for a in found],
        'institutions': [{'institution': name, 'agree': agree, 'decisive': decisive}
                         for name, (agree, decisive) in by_institution(found).items()],
        'evaluators': [{**dataclasses.asdict(e), 'kind': e.kind.value}
                       for e in by_evaluator(found)]})}


def _agreement_text(report: dict[str, Any]) -> list[str]:
    told = report['agreement']
    out = told['not_calibrated']
    left_out = ['', f'sessions left out of preference against audit, because the judge is not '
                f'calibrated there: {out}'] if out else []
    if not told['decisive']:
        return left_out
    lines = [*left_out, '', f"evaluators and audit agree in {told['rate']:.0%} of "
             f"{told['decisive']} "
             'sessions that are decisive for both']
    lines += [f"  {e['evaluator'] or 'no name'}: {e['agree']} of {e['decisive']}, "
              f"{e['kind']}"
              for e in told['evaluators']]
    lines += [f"  at {p['institution'] or 'no name'}: {p['agree']} of {p['decisive']}"
              for p in told['institutions']] if len(told['institutions']) > 1 else []
    lines += [f"  differs: {a['session']}, preferred {a['preference']}, audit {a['audit']}, "
              f"{a['folder']}"
              for a in told['sessions'] if 'TIE' not in (a['preference'], a['audit'])
              and a['preference'] != a['audit']]
    return lines


def _text(audits: 'Sequence[EpisodeAudit]', tables: 'Sequence[PolicySummary]',
          prints: 'Sequence[Fingerprint]', report: dict[str, Any]) -> str:
    first = next((a for a in audits if a.valid), None)
    if first is None:
        return 'no episode could be judged'
    low, high = (f'{s:.2g}' for s in report['intervals_s'] or (0, 0))
    every = 'one frame' if not report['intervals_s'] else \
        f'a frame every {low} s' if low == high else f'a frame every {low} to {high} s'
    lines = [f'judge {first.judge} ({first.model}), {every}; OPD convention '
             f'{first.convention}, stagnation below {first.epsilon:g}; percent']
    lines += _block('all episodes', tables, lambda t: t.overall, ('mp', 'ppl', 'cra', 'str'))
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
