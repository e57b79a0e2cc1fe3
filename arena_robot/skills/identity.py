"""
When two solutions, or beginnings of solutions, are the same.

A prefix is its scene and its first subtasks. A subtask is its kind, its code without blank ends
of lines, and its action space; its name is a label and does not count.
"""

import hashlib
import json

from arena_robot.skills.as_json import plain
from arena_robot.skills.base import Solution, Subtask


def prefix_key(solution: Solution, length: int) -> str:
    """Return the SHA-256 of the scene and the first ``length`` subtasks, 16 hexadecimal digits."""
    parts = [solution.task, plain(solution.scene),
             *(_subtask(one) for one in solution.subtasks[:length])]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def solution_key(solution: Solution) -> str:
    """Return the key of the whole solution."""
    return prefix_key(solution, len(solution.subtasks))


def prefix_keys(solution: Solution) -> list[str]:
    """Return the keys of the prefixes with 1, 2, … n subtasks."""
    return [prefix_key(solution, length + 1) for length in range(len(solution.subtasks))]


def _subtask(one: Subtask) -> list[str]:
    lines = [line.rstrip() for line in one.code.strip().splitlines()]
    return [one.kind.value, '\n'.join(lines), one.action_space.value]
