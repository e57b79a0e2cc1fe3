"""
A judge's audits: ``audit/<judge>.json`` in an episode's folder, and what `arena audit` prints.

A file holds what one judge said of the episode, and the OPD metrics. A ranking takes a number per
session and policy from the output of ``arena audit --json``.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json

FOLDER = 'audit'
VERSION = 1
METRICS = ('ppl', 'mp', 'final')
# By a judge's name: why evaluators are not judged by it, and why its metrics below are refused,
# unless its model has proven itself: `bench/bench_judge_unseen.py --unseen` measures it.
UNTRUSTED: Mapping[str, str] = {
    'local': 'the judge looks at the arm, unless its model was measured not to (docs/audit.md, '
             'local)'}
# MC, whose last step is MC@100; STR; and SQS, a fifth of which is STR.
WITHHELD = ('mc', 'str', 'sqs')
EVALUATORS = 'evaluators'
MISSED = "the judge's model misses the bar of this metric (docs/audit.md, local)"


@dataclass(frozen=True)
class EpisodeAudit:
    """
    One judge's audit of one episode; numbers are shares, an undefined metric is None.

    ``phi`` at ``times_s`` is empty when ``status`` is not ``ok``; ``detail`` says why.
    ``metrics`` are counted by ``convention`` with ``epsilon`` and ``delta``; those in ``refused``
    are not supported by the judge, for the reason given, and None. ``model`` and ``mode`` name the
    judge's model and mode, ``clipped`` the values that were outside [0, 1]. ``trusted`` is what a
    judge that is not trusted by its name has proven itself for; ``success_probability`` and
    ``half_width`` are of each instant, empty where the judge says none.
    """

    name: str
    judge: str
    model: str
    status: str
    convention: str
    epsilon: float
    delta: float
    instruction: str = ''
    detail: str = ''
    mode: str = ''
    calibrated: bool = True
    interval_s: float | None = None
    views: tuple[str, ...] = ()
    clipped: int = 0
    success: bool | None = None
    times_s: tuple[float, ...] = ()
    phi: tuple[float, ...] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    raw: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    success_probability: tuple[float, ...] = ()
    half_width: tuple[float, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the judge gave a usable trace."""
        return self.status == 'ok'

    @property
    def untrusted(self) -> str:
        """Why no evaluator is judged by this judge; empty where it is trusted."""
        return not_trusted(self.judge, self.trusted)

    @property
    def lost(self) -> Mapping[str, str]:
        """The metrics that this judge is not trusted with, with the reason."""
        if self.judge not in UNTRUSTED:
            return {}
        return {m: self.untrusted or MISSED for m in WITHHELD if m not in self.trusted}


def not_trusted(judge: str, trusted: Collection[str]) -> str:
    """Return why no evaluator is judged by a judge; empty where it is trusted, or proven."""
    return '' if EVALUATORS in trusted else UNTRUSTED.get(judge, '')


def withheld(audit: EpisodeAudit) -> EpisodeAudit:
    """Return an audit without the metrics that its judge is not trusted with."""
    lost = {m: why for m, why in audit.lost.items() if m in audit.metrics}
    if not lost:
        return audit
    return replace(audit, metrics={**audit.metrics, **dict.fromkeys(lost)},
                   refused={**lost, **audit.refused})


def write_audit(folder: Path, audit: EpisodeAudit) -> Path:
    """Write an audit into the folder of its episode; return the file."""
    path = audit_path(folder, audit.judge)
    path.parent.mkdir(exist_ok=True)
    write_json(path, audit_to_json(audit))
    return path


def audit_path(folder: Path, judge: str) -> Path:
    """Return the file of a judge's audit in the folder of its episode."""
    return folder / FOLDER / f'{judge}.json'


def read_audit(path: Path) -> EpisodeAudit:
    """Return an audit; DataError when the file is none."""
    try:
        return audit_from_json(json.loads(path.read_text(encoding='utf-8')), str(path))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} is no audit: {error}') from error


def audits_of(folder: Path) -> list[Path]:
    """Return the audit files of an episode, by judge."""
    return sorted((folder / FOLDER).glob('*.json'))


def audit_to_json(audit: EpisodeAudit) -> dict[str, Any]:
    """Return an audit for JSON."""
    return {'version': VERSION, **dataclasses.asdict(audit)}


def audit_from_json(data: Any, where: str) -> EpisodeAudit:
    """Return an audit from JSON, of any age, without what its judge is not trusted with."""
    if not isinstance(data, dict) or data.get('version') != VERSION:
        raise DataError(f'{where} is no audit of version {VERSION}')
    try:
        return withheld(build(EpisodeAudit, {k: v for k, v in data.items() if k != 'version'},
                              where))
    except ConfigError as error:
        raise DataError(f'{where} is no audit: {error}') from error


@dataclass(frozen=True)
class AuditScores:
    """
    ``values`` (0 to 1) by session and policy; sessions are named as in the table of sessions.

    ``evaluators`` are (agree, decisive) by name, of sessions decisive for evaluator and audit;
    nobody where the judge is ``untrusted``, for the reason given.
    """

    values: Mapping[tuple[str, str], float]
    evaluators: Mapping[str, tuple[int, int]]
    untrusted: str = ''


def read_audit_scores(path: Path, metric: str = 'ppl') -> AuditScores:
    """
    Return the scores in a file that `arena audit --json` wrote.

    ``final`` is the last progress. Rollouts without it, and those for which the judge is not
    calibrated, are left out. Raises ConfigError for an unknown metric, DataError for a bad file.
    """
    if metric not in METRICS:
        raise ConfigError(f"an audit's score is {', '.join(METRICS)}, found '{metric}'")
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        values = {(str(e['name']).rpartition('/')[0], str(e['policy'])): value
                  for e in data['episodes'] if e['calibrated'] and e['policy']
                  and (value := _value(e, metric)) is not None}
        judge = data.get('judge', {})
        why = not_trusted(judge.get('name', ''), judge.get('trusted', ()))
        people = {str(e['evaluator']): (int(e['agree']), int(e['decisive']))
                  for e in data['agreement']['evaluators'] if not why}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'{path} is not the output of `arena audit --json`: {error!r}') from error
    if not values:
        raise DataError(f'{path} has no calibrated audit of a named policy')
    return AuditScores(values, people, why)


def _value(episode: Mapping[str, Any], metric: str) -> float | None:
    if metric == 'final':
        return float(episode['phi'][-1]) if episode['phi'] else None
    value = episode['metrics'].get(metric)
    return None if value is None else float(value)
