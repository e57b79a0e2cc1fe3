"""
Check whether a camera was moved since the start photographs of an earlier session.

A camera on the robot's wrist is not compared: it moves with the arm.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from arena_robot.core.clock import to_iso
from arena_robot.core.errors import ArenaError
from arena_robot.core.observation import ROLES, Pixels, view
from arena_robot.session.loop.match import MOVED_CAMERA, picture_shift, read_photos
from arena_robot.session.ports import Check

NAME = 'camera positions'
START = 'start'
FIXED = tuple(role for role in ROLES if role != 'wrist')
MOVED = 1.5 * MOVED_CAMERA    # less strict than within a session: the light differs by days


def newest_photos(sessions: Path) -> tuple[Path, dict[str, Pixels]] | None:
    """Return the folder and the start photographs of the newest session that has some."""
    folders = [path for path in sessions.glob(f'*/{START}') if path.is_dir()]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        if photos := read_photos(folder):
            return folder, photos
    return None


def positions_check(sessions: Path, look: Callable[[], Mapping[str, Pixels]]) -> Check:
    """
    Compare what the fixed cameras show (``look``) with the newest start photographs.

    A camera that moved is a warning: where cameras stand may be changed, and then has to be
    calibrated again.
    """
    try:
        kept = newest_photos(sessions)
        if kept is None:
            return Check(NAME, True, 'no earlier start photographs to compare with')
        shifts = _shifts(kept[1], look())
    except (ArenaError, OSError) as error:
        return Check(NAME, True, f'not compared: {error}')
    folder = kept[0]
    since = f'session {folder.parent.name} ({to_iso(folder.stat().st_mtime_ns)[:16]} UTC)'
    moved = [f'the {role} camera was moved since the start photographs of {since}: its picture is '
             f'shifted by up to {100 * shift:.1f} % of its width. Put it back, or calibrate it '
             'again with `arena calibrate camera`'
             for role, shift in shifts.items() if shift is not None and shift > MOVED]
    if moved:
        return Check(NAME, True, '; '.join(moved), warning=True)
    same = [role for role, shift in shifts.items() if shift is not None]
    return Check(NAME, True, f"{', '.join(same)} as in {since}" if same
                 else f'too little in common with the start photographs of {since} to compare')


def _shifts(photos: Mapping[str, Pixels], seen: Mapping[str, Pixels]) -> dict[str, float | None]:
    shifts: dict[str, float | None] = {}
    for role in FIXED:
        name = next((candidate for candidate in (view(role), view(role, 'right'))
                     if candidate in photos and candidate in seen), None)
        if name is not None and photos[name].shape == seen[name].shape:
            shifts[role] = picture_shift(photos[name], seen[name])
    return shifts
