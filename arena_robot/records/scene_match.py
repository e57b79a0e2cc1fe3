"""
``scene_match.json`` beside the episode of slot B: how like the start photographs the scene was.

The station measures it before B runs. Version 1 has the lowest score ``match`` and the scores of
the ``views``, 0 to 1 (1: nothing changed; 0.37: one percent of the picture changed).
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json

SCENE_MATCH_FILE = 'scene_match.json'
VERSION = 1
MOST_VIEWS = 20


@dataclass(frozen=True)
class SceneMatch:
    """The station's scores before B, see the module."""

    match: float
    views: Mapping[str, float] = field(default_factory=dict)


def write_scene_match(folder: Path, found: SceneMatch) -> None:
    """Write the file into the folder of an episode, whole or not at all."""
    write_json(folder / SCENE_MATCH_FILE, {'version': VERSION, **dataclasses.asdict(found)})


def parse_scene_match(text: bytes, where: str) -> SceneMatch:
    """Return what the bytes of such a file say; DataError names ``where``."""
    try:
        data: Any = json.loads(text)
        if not isinstance(data, dict) or data.pop('version', None) != VERSION:
            raise ValueError(f'expected a mapping of version {VERSION}')
        found = build(SceneMatch, data, where)
        scores = (found.match, *found.views.values())
        if len(found.views) > MOST_VIEWS or not all(
                math.isfinite(one) and 0.0 <= one <= 1.0 for one in scores):
            raise ValueError(f'up to {MOST_VIEWS} scores from 0 to 1 were expected')
    except (ValueError, TypeError, RecursionError, ConfigError) as error:
        raise DataError(f'{where} is no scene match: {error}') from error
    return found
