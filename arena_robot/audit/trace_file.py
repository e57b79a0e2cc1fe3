"""Progress traces in a JSON file, and their OPD metrics as JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.audit.opd import QUARTERS, OpdTable
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats

_KEYS = {'name', 'phi', 'success'}


@dataclass(frozen=True)
class NamedTrace:
    """One episode: Φ_0 … Φ_T, and whether it succeeded, None when nobody said."""

    name: str
    phi: Floats
    success: bool | None = None


def read_traces(path: Path, full: float = 1.0) -> list[NamedTrace]:
    """
    Return the episodes of ``{"episodes": [{"name", "phi", "success"}]}``.

    ``full`` is the number that stands for done. Raises DataError that names the episode with what
    is wrong.
    """
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f'{path} cannot be read as JSON: {error}') from error
    if not isinstance(data, dict) or not isinstance(data.get('episodes'), list):
        raise DataError(f'{path}: expected {{"episodes": [{{"name": …, "phi": […], "success": '
                        'true|false|null}]}')
    if extra := sorted(set(data) - {'episodes'}):
        raise DataError(f"{path}: unknown key '{extra[0]}'; known: episodes")
    found = [_trace(value, number, path, full) for number, value in enumerate(data['episodes'])]
    names: set[str] = set()
    for trace in found:
        if trace.name in names:
            raise DataError(f"{path}: two episodes are called '{trace.name}'")
        names.add(trace.name)
    return found


def _trace(value: Any, number: int, path: Path, full: float) -> NamedTrace:
    name = value.get('name') if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise DataError(f'{path}: episode number {number} has no name')
    where = f"{path}: the episode '{name}'"
    if extra := sorted(set(value) - _KEYS):
        raise DataError(f"{where} has the unknown key '{extra[0]}'; known: name, phi, success")
    success, phi = value.get('success'), value.get('phi')
    if success is not None and not isinstance(success, bool):
        raise DataError(f'{where}: success is true, false or null, found {success!r}')
    if not isinstance(phi, list) or not phi:
        raise DataError(f'{where} has no values: phi must be a list of numbers')
    for at, entry in enumerate(phi):
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise DataError(f'{where}: phi[{at}] is {entry!r} and not a number')
        if isinstance(entry, float) and not math.isfinite(entry):
            raise DataError(f'{where}: phi[{at}] is {entry}')
        if not -full < entry < 2.0 * full:  # also: an integer too large for a float
            raise DataError(f'{where}: phi[{at}] is {entry}; progress is a number from 0 to '
                            f'{full:g}')
    return NamedTrace(name, np.array(phi, np.float64), success)


def opd_json(names: list[str], table: OpdTable) -> dict[str, Any]:
    """Return the metrics by episode for JSON: shares in full precision, undefined is null."""
    return {'convention': table.convention,
            'episodes': [opd_row(name, table, row) for row, name in enumerate(names)]}


def opd_row(name: str, table: OpdTable, row: int) -> dict[str, Any]:
    """Return the metrics of one episode for JSON."""
    reached: Mapping[str, int] = {
        f'{q:.0%}'[:-1]: int(table.reached[row, k]) for k, q in enumerate(QUARTERS)}
    return {'name': name, 'steps': int(table.steps[row]), 'mp': float(table.mp[row]),
            'mc': float(table.mc[row]), 'mc_at': reached, 'ppl': number(table.ppl[row]),
            'cra': number(table.cra[row]), 'str': number(table.stagnation[row])}


def number(value: Any) -> float | None:
    """Return a float for JSON; an undefined one is None."""
    return None if not math.isfinite(value) else float(value)
