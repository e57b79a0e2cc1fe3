"""What ``arena audit --json`` printed, as a ranking takes it: a number per session and policy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.errors import ConfigError, DataError

METRICS = ('ppl', 'mp', 'final')


@dataclass(frozen=True)
class AuditScores:
    """
    ``values`` (0 to 1) by session and policy; sessions are named as in the table of sessions.

    ``evaluators`` are (agree, decisive) by name, of sessions decisive for evaluator and audit.
    """

    values: Mapping[tuple[str, str], float]
    evaluators: Mapping[str, tuple[int, int]]


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
        people = {str(e['evaluator']): (int(e['agree']), int(e['decisive']))
                  for e in data['agreement']['evaluators']}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'{path} is not the output of `arena audit --json`: {error!r}') from error
    if not values:
        raise DataError(f'{path} has no calibrated audit of a named policy')
    return AuditScores(values, people)


def _value(episode: Mapping[str, Any], metric: str) -> float | None:
    if metric == 'final':
        return float(episode['phi'][-1]) if episode['phi'] else None
    found = episode['metrics'].get(metric)
    return None if found is None else float(found)
