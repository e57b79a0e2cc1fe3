"""
Metrics of selection over tasks: success, best of eight, filter with coverage, AUC within tasks.

Intervals are percentiles of a bootstrap that draws whole tasks: candidates of one task are alike.
Equal scores share what they would get, so a scorer that cannot tell has the mean of its task.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.observation import Floats

DRAWS = 1000      # of the bootstrap
CHOICE = 8        # candidates per choice
ACCEPTED = 0.5    # a score from here on says that success is the likelier
LEVEL = 0.95      # of the intervals
BINS = 10         # of the calibration plot


@dataclass(frozen=True)
class TaskScores:
    """Candidates of one task: ``success`` (n,) 0 or 1, ``scores`` (n,) of one scorer."""

    task: str
    success: Floats
    scores: Floats


@dataclass(frozen=True)
class SkillInterval:
    """A value with its interval; not a number where nothing can be said."""

    value: float
    low: float
    high: float

    def as_json(self) -> list[float | None]:
        """Return [value, low, high]; null for what is not a number."""
        return [None if np.isnan(v) else round(float(v), 4)
                for v in (self.value, self.low, self.high)]


def mean_success(row: TaskScores) -> float:
    """Return the share of candidates that succeed."""
    return float(row.success.mean())


def best_of(row: TaskScores) -> float:
    """
    Return the success of the best of ``CHOICE`` candidates by score, the mean of equals.

    More candidates are taken in turns of that many, and averaged.
    """
    return sum(len(scores) * float(success[scores >= scores.max()].mean())
               for success, scores in _turns(row)) / len(row.scores)


def oracle_best(row: TaskScores) -> float:
    """Return 1 when any candidate of a turn succeeds: what no choice can exceed."""
    return sum(len(success) * float(success.max())
               for success, _ in _turns(row)) / len(row.success)


def auc(row: TaskScores) -> float:
    """Return how often a success has a higher score than a failure; not a number without both."""
    good, bad = row.scores[row.success > 0.5], row.scores[row.success < 0.5]
    if not len(good) or not len(bad):
        return float('nan')
    apart = np.sign(good[:, None] - bad[None, :])
    return float(0.5 + 0.5 * apart.mean())


def over_tasks(rows: Sequence[TaskScores], of: Callable[[TaskScores], float],
               seed: int = 0) -> SkillInterval:
    """Return the mean over tasks that have a value; several rows of a task are averaged."""
    values = np.array(list(per_task(rows, of).values()))
    return interval(values[:, None], mean_of, seed)


def per_task(rows: Sequence[TaskScores], of: Callable[[TaskScores], float]) -> dict[str, float]:
    """Return the mean value of each task that has one."""
    values_of: dict[str, list[float]] = {}
    for row in rows:
        if not np.isnan(value := of(row)):
            values_of.setdefault(row.task, []).append(value)
    return {task: sum(values) / len(values) for task, values in values_of.items()}


def difference(rows: Sequence[TaskScores], of: Callable[[TaskScores], float],
               others: Sequence[TaskScores], other: Callable[[TaskScores], float],
               seed: int = 0) -> SkillInterval:
    """Return the mean difference over the same tasks, with its interval."""
    mine, theirs = per_task(rows, of), per_task(others, other)
    apart = [value - theirs[task] for task, value in mine.items() if task in theirs]
    return interval(np.array(apart)[:, None], mean_of, seed)


def filtered(rows: Sequence[TaskScores], seed: int = 0) -> tuple[SkillInterval, SkillInterval]:
    """Return precision (success among accepted) and coverage (share accepted)."""
    sums = {row.task: np.zeros(3) for row in rows}
    for row in rows:
        accepted = row.scores >= ACCEPTED
        sums[row.task] += [row.success[accepted].sum(), accepted.sum(), len(accepted)]
    table = np.array(list(sums.values())).reshape(-1, 3)
    return (interval(table, lambda t: _ratio(t, 0, 1), seed),
            interval(table, lambda t: _ratio(t, 1, 2), seed))


def calibration(rows: Sequence[TaskScores], bins: int = BINS) -> list[dict[str, float]]:
    """Return for each bin with candidates: mean score, share of successes, how many."""
    scores = np.concatenate([row.scores for row in rows]) if rows else np.zeros(0)
    success = np.concatenate([row.success for row in rows]) if rows else np.zeros(0)
    place = np.clip((scores * bins).astype(int), 0, bins - 1)
    return [{'score': round(float(scores[place == k].mean()), 4),
             'success': round(float(success[place == k].mean()), 4),
             'count': int((place == k).sum())} for k in range(bins) if (place == k).any()]


def interval(table: Floats, of: Callable[[Floats], Floats], seed: int) -> SkillInterval:
    """
    Return a statistic of the rows (tasks, k) and its interval over draws of rows.

    ``of`` takes tables (…, tasks, k) and gives (…).
    """
    if not len(table):
        return SkillInterval(float('nan'), float('nan'), float('nan'))
    rng = np.random.default_rng([seed, len(table)])
    drawn = of(table[rng.integers(len(table), size=(DRAWS, len(table)))])
    drawn, value = drawn[~np.isnan(drawn)], float(of(table))
    if not len(drawn):
        return SkillInterval(value, float('nan'), float('nan'))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return SkillInterval(value, float(low), float(high))


def mean_of(tables: Floats) -> Floats:
    """Return the means of tables (…, tasks, 1)."""
    return np.asarray(tables.mean(axis=(-2, -1)))


def _turns(row: TaskScores) -> list[tuple[Floats, Floats]]:
    return [(row.success[k:k + CHOICE], row.scores[k:k + CHOICE])
            for k in range(0, len(row.success), CHOICE)]


def _ratio(tables: Floats, part: int, whole: int) -> Floats:
    sums = tables.sum(axis=-2)
    wholes = sums[..., whole]
    return np.asarray(np.where(wholes > 0.0, sums[..., part] / np.where(wholes > 0.0, wholes, 1.0),
                               np.nan))
