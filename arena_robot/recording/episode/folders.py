"""Folders of episodes."""

from pathlib import Path

from arena_robot.core.errors import DataError

SLOTS = ('A', 'B')


def episodes(place: Path) -> list[Path]:
    """
    Return the episode folders at ``place``: itself, or the slots of the session it is.

    Raises DataError when there is none.
    """
    if _is_episode(place):
        return [place]
    found = [place / slot for slot in SLOTS if _is_episode(place / slot)]
    if not found:
        raise DataError(f'{place} is neither an episode (a folder with a .mcap file) nor a '
                        'session with episodes A and B in it')
    return found


def _is_episode(place: Path) -> bool:
    return (place / 'metadata.yaml').exists() or any(place.glob('*.mcap'))
