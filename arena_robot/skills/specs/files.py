"""Specifications and solutions as JSON."""

import dataclasses
import json
from enum import Enum
from pathlib import Path
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_json
from arena_robot.skills.base import Solution, TaskSpec


def spec_as_json(spec: TaskSpec) -> dict[str, Any]:
    """Return a specification as JSON's types; a policy model leaves out ``family``."""
    found: dict[str, Any] = _plain(
        dataclasses.asdict(dataclasses.replace(spec, initial=dict(spec.initial))))
    return found


def spec_from_json(data: dict[str, Any], where: str = 'specification') -> TaskSpec:
    """Return the specification in ``data``. Raises ConfigError that names the wrong key."""
    return build(TaskSpec, data, where)


def solution_as_json(solution: Solution) -> dict[str, Any]:
    """Return a solution as JSON's types."""
    found: dict[str, Any] = _plain(
        dataclasses.asdict(dataclasses.replace(solution, scene=dict(solution.scene))))
    return found


def solution_from_json(data: dict[str, Any], where: str = 'solution') -> Solution:
    """Return the solution in ``data``. Raises ConfigError that names the wrong key."""
    return build(Solution, data, where)


def read_solution(path: Path) -> Solution:
    """Return the solution in a JSON file. Raises DataError or ConfigError."""
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'cannot read a solution from {path}: {error}') from error
    if not isinstance(data, dict):
        raise DataError(f'{path} must hold one JSON object, found a {type(data).__name__}')
    return solution_from_json(data, str(path))


def write_solution(path: Path, solution: Solution) -> None:
    """Write a solution as a JSON file."""
    write_json(path, solution_as_json(solution))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
