"""Comparisons and rollout scores read from CSV tables with the columns of RoboArena's."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons, Floats, Ints

SESSION_COLUMNS = ('session_uuid', 'valid', 'preference', 'policy_a', 'policy_b')
EPISODE_COLUMNS = ('session_uuid', 'policy', 'partial_success')
TRUE, FALSE = ('1', 'true'), ('0', 'false', '')


@dataclass(frozen=True)
class Rollouts:
    """
    E scored rollouts of the policies of a ``Comparisons``.

    ``policy`` (E,) indexes its items, ``score`` (E,) is progress 0..1, ``session`` (E,) is the
    session index there, -1 for a rollout of a session without a counted verdict, and
    ``compared`` (E,) marks the rollouts that such a verdict was about: the A and the B.
    """

    policy: Ints
    score: Floats
    session: Ints
    compared: np.ndarray

    def means(self, n: int, mask: np.ndarray | None = None) -> Floats:
        """Return (n,) the mean score of each policy over the rollouts in ``mask``, else NaN."""
        kept = np.ones(len(self.score), bool) if mask is None else mask
        total = np.bincount(self.policy[kept], self.score[kept], minlength=n)
        count = np.bincount(self.policy[kept], minlength=n)
        return np.asarray(np.divide(total, count, out=np.full(n, np.nan), where=count > 0))


@dataclass(frozen=True)
class ArenaTables:
    """The comparisons of a table, and every scored rollout of their policies."""

    comparisons: Comparisons
    rollouts: Rollouts


def read_arena(sessions: Path | str, episodes: Path | str | None = None,
               policies: Sequence[str] | None = None) -> ArenaTables:
    """
    Read ``sessions.csv`` and, if given, ``episodes.csv``.

    Counted are the sessions that are valid and have a preference, between ``policies`` (default:
    every policy that occurs in one). A rollout is joined to A or B by its session and policy,
    because the letter is missing in early tables. Rollouts of other sessions keep their score and
    get session -1: they count in a policy's mean over all rollouts and in no comparison.

    :raises DataError: a file, a column or a value is wrong; the message names row and column.
    """
    counted = _counted(Path(sessions))
    met = sorted({row.a for row in counted} | {row.b for row in counted})
    names = list(policies) if policies is not None else met
    unknown = [name for name in names if name not in met]
    if unknown:
        raise DataError(f"{sessions}: no counted session has {', '.join(unknown)}; "
                        f"found: {', '.join(met) or 'none at all'}")
    scored = [] if episodes is None else _scores(Path(episodes))
    joined = _joined(counted, scored)
    return ArenaTables(Comparisons.from_words(joined, names), _rollouts(joined, names, scored))


def read_words(sessions: Path | str, episodes: Path | str | None = None) -> list[Comparison]:
    """
    Return the counted comparisons of the tables, with scores where ``episodes.csv`` has them.

    :raises DataError: a file, a column or a value is wrong; the message names row and column.
    """
    scored = [] if episodes is None else _scores(Path(episodes))
    return _joined(_counted(Path(sessions)), scored)


def _counted(path: Path) -> list[Comparison]:
    rows = [_comparison(path, line, row) for line, row in _rows(path, SESSION_COLUMNS)]
    return [row for row in rows if row is not None]


def _joined(rows: list[Comparison], scored: list[tuple[str, str, float]]) -> list[Comparison]:
    nan = float('nan')
    by_rollout = {(session, policy): score for session, policy, score in scored}
    return [replace(r, progress_a=by_rollout.get((r.session_id, r.a), nan),
                    progress_b=by_rollout.get((r.session_id, r.b), nan)) for r in rows]


def _rollouts(rows: list[Comparison], names: list[str],
              scored: list[tuple[str, str, float]]) -> Rollouts:
    index = {name: k for k, name in enumerate(names)}
    kept = [r for r in rows if r.a in index and r.b in index]
    place: dict[str, int] = {}
    for row in kept:
        place.setdefault(row.session_id, len(place))
    about = {(r.session_id, name) for r in kept for name in (r.a, r.b)}
    mine = [(session, policy, score) for session, policy, score in scored if policy in index]
    return Rollouts(
        np.array([index[policy] for _, policy, _ in mine], dtype=np.int64),
        np.array([score for _, _, score in mine], dtype=float),
        np.array([place.get(session, -1) for session, _, _ in mine], dtype=np.int64),
        np.array([(session, policy) in about for session, policy, _ in mine], dtype=bool))


def _comparison(path: Path, line: int, row: dict[str, str]) -> Comparison | None:
    valid = row['valid'].strip().lower()
    if valid not in TRUE + FALSE:
        raise DataError(f"{path}:{line}: valid is '{row['valid']}'; expected 1 or 0")
    said = row['preference'].strip().upper()
    if valid in FALSE or not said:
        return None
    if said not in Preference.__members__:
        raise DataError(f"{path}:{line}: preference is '{row['preference']}'; expected A, B, TIE")
    a, b = row['policy_a'].strip(), row['policy_b'].strip()
    if not a or not b or a == b:
        raise DataError(f"{path}:{line}: policies are '{a}' and '{b}'; expected two names")
    return Comparison(row['session_uuid'], a, b, Preference[said],
                      evaluator=row.get('evaluator') or '',
                      institution=row.get('institution') or '',
                      created=row.get('created') or '')


def _scores(path: Path) -> list[tuple[str, str, float]]:
    found = []
    for line, row in _rows(path, EPISODE_COLUMNS):
        text = row['partial_success'].strip()
        if not text:
            continue
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not 0.0 <= score <= 1.0:
            raise DataError(f"{path}:{line}: partial_success is '{text}'; expected 0 to 1")
        found.append((row['session_uuid'], row['policy'].strip(), score))
    return found


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline='', encoding='utf-8') as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            missing = [name for name in needed if name not in header]
            if missing:
                raise DataError(f"{path}: no column {', '.join(missing)}; "
                                f"found: {', '.join(header) or 'an empty file'}")
            return [(reader.line_num, {k: v or '' for k, v in row.items() if k is not None})
                    for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f'{path}: cannot be read: {error}') from error
