"""
Labels of prefixes from executed solutions (the end of Algorithm 1).

A prefix is good when a solution that succeeded begins with it. The soft label is the share of
the task's solutions through the prefix that succeeded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from arena_robot.skills.base import Execution, Solution
from arena_robot.skills.identity import prefix_keys

BASE, COMPLETION = 'base', 'completion'


@dataclass(frozen=True)
class TriedSolution:
    """
    A solution and what became of it.

    ``origin`` is base or completion; a completion kept ``kept`` subtasks of base ``number``, a
    base has its own number.
    """

    solution: Solution
    execution: Execution
    origin: str = BASE
    number: int = 0
    kept: int = 0


@dataclass(frozen=True)
class PrefixLabel:
    """A prefix with 1 or more subtasks, whether it is good, and its share of successes."""

    key: str
    prefix: Solution
    good: bool
    share: float


def label_prefixes(tried: Sequence[TriedSolution]) -> tuple[PrefixLabel, ...]:
    """Return every prefix of one task's solutions once, shorter ones first, then by key."""
    passed: dict[str, list[bool]] = {}
    shown: dict[str, Solution] = {}
    for one in tried:
        for length, key in enumerate(prefix_keys(one.solution), 1):
            passed.setdefault(key, []).append(one.execution.success)
            shown.setdefault(key, replace(one.solution,
                                          subtasks=one.solution.subtasks[:length]))
    found = [PrefixLabel(key, shown[key], any(ends), sum(ends) / len(ends))
             for key, ends in passed.items()]
    return tuple(sorted(found, key=lambda one: (len(one.prefix.subtasks), one.key)))


def shortest_success(tried: Sequence[TriedSolution]) -> Solution | None:
    """Return the solution with the fewest subtasks that succeeded, the first of equals."""
    good = [one.solution for one in tried if one.execution.success]
    return min(good, key=lambda one: len(one.subtasks), default=None)
