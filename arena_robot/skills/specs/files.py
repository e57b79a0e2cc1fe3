"""Specifications and solutions in JSON files."""

import json
from pathlib import Path

from arena_robot.core.errors import DataError
from arena_robot.core.files import write_json
from arena_robot.skills.as_json import from_json, to_json
from arena_robot.skills.base import Solution, TaskSpec


def read_spec(path: Path) -> TaskSpec:
    """Return the specification in a JSON file. Raises DataError."""
    return from_json(TaskSpec, _read(path), str(path))


def write_spec(path: Path, spec: TaskSpec) -> None:
    """Write a specification as a JSON file."""
    write_json(path, to_json(spec))


def read_solution(path: Path) -> Solution:
    """Return the solution in a JSON file. Raises DataError."""
    return from_json(Solution, _read(path), str(path))


def write_solution(path: Path, solution: Solution) -> None:
    """Write a solution as a JSON file."""
    write_json(path, to_json(solution))


def _read(path: Path) -> object:
    try:
        data: object = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'cannot read {path}: {error}') from error
    return data
