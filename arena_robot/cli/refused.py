"""Rows of a table that were left out, on standard error: the same words for every verb."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.records.roboarena import RoboArenaData


def tell_refused(data: 'RoboArenaData') -> None:
    """Print where and why each refused row was left out."""
    for line in data.refusals():
        print(f'arena: refused: {line}', file=sys.stderr)
