"""Preflight: a check per part of the station, and of moved cameras, with the fix for each."""

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from arena_robot.core.clock import Clock, to_iso
from arena_robot.core.errors import ArenaError
from arena_robot.core.observation import ROLES, Pixels, RobotMode, view
from arena_robot.drivers.base import Camera
from arena_robot.session.base import Check
from arena_robot.session.loop.match import MOVED_CAMERA, picture_shift, read_photos
from arena_robot.session.loop.pacing import lag_problem, picture_lag_s, slow_stream
from arena_robot.session.loop.parts import LOOK_TIMEOUT_S, Parts

AHEAD_S, BEHIND_S = 0.05, 1.0    # of a reading's stamp: clocks that differ, a part that stands
FRAMES = 3              # a median needs three
SERVER_CLOCK_S = 1.0    # times of the records differ by no more than a person notices
NAME = 'camera positions'
START = 'start'
FIXED = tuple(role for role in ROLES if role != 'wrist')
MOVED = 1.5 * MOVED_CAMERA    # less strict than within a session: the light differs by days


def preflight(parts: Parts, clock: Clock, data: Path, min_free_gb: float) -> list[Check]:
    """Return a check of every camera, the arm, the gripper, the clocks and the disk."""
    checks = [_camera_check(role, camera, clock, parts.ages.image_s)
              for role, camera in parts.cameras.items()]
    checks.append(_checked('arm', partial(_arm, parts, clock)))
    checks.append(_checked('gripper', partial(_gripper, parts)))
    checks.append(_checked('disk', partial(_disk, data, min_free_gb)))
    return checks


def server_check(offset_of: Callable[[], float]) -> Check:
    """
    Return a check of the arena server; a warning when the clocks are a second or more apart.

    ``offset_of`` asks the server and returns its clock minus the station's in seconds; it raises
    an ArenaError when nobody answers.
    """
    try:
        offset_s = offset_of()
    except ArenaError as error:
        return Check('arena', False, f'arena: {error}')
    if abs(offset_s) < SERVER_CLOCK_S:
        return Check('arena', True, f'clock offset {offset_s * 1e3:+.0f} ms')
    return Check('arena', True, f"this station's clock is {-offset_s:+.1f} s off the server's; "
                                'synchronise both with NTP', warning=True)


def _checked(name: str, look: Callable[[], str]) -> Check:
    """Return the check of ``look``, which returns a remark or raises an error."""
    try:
        return Check(name, True, look())
    except (ArenaError, OSError) as error:
        return Check(name, False, f'{name}: {error}')


def _camera_check(role: str, camera: Camera, clock: Clock, max_age_s: float) -> Check:
    check = _checked(f'{role} camera', partial(_camera, camera, clock, max_age_s))
    slow = slow_stream(camera) if check.ok else ''
    return Check(check.name, True, slow, warning=True) if slow else check


def _camera(camera: Camera, clock: Clock, max_age_s: float) -> str:
    frame = camera.wait_frame(LOOK_TIMEOUT_S)
    lag_s = (clock.now_ns() - frame.left.stamp_ns) * 1e-9
    for _ in range(FRAMES if len(camera.arrivals()) < FRAMES else 0):
        camera.wait_frame(LOOK_TIMEOUT_S)
    height, width = frame.left.pixels.shape[:2]
    if frame.left.stamp_ns != frame.right.stamp_ns:
        raise ArenaError('the eyes have different stamps; restart the camera')
    if lag_s < -AHEAD_S:
        raise ArenaError(_clock_words(lag_s))
    usual_s = picture_lag_s(camera)
    problem = lag_problem(lag_s if usual_s is None else usual_s, max_age_s)
    if problem:
        raise ArenaError(problem)
    return f'{camera.serial}, {width} x {height}'


def _arm(parts: Parts, clock: Clock) -> str:
    state = parts.arm_state()
    if state.recovery_required:
        raise ArenaError(f'it is in {state.mode.name}; release the stop button, then recover it')
    if state.errors and state.mode is RobotMode.OTHER:
        raise ArenaError('; '.join(state.errors))
    if state.errors:
        raise ArenaError(f"it reports {', '.join(state.errors)}; recover it")
    _same_time(state.stamp_ns, clock)
    return state.mode.name.lower()


def _gripper(parts: Parts) -> str:
    state = parts.gripper_state()
    if state.fault:
        raise ArenaError(f'it reports fault {state.fault}; activate the gripper')
    return f'{100 * (1 - state.position):.0f} % open'


def _same_time(stamp_ns: int, clock: Clock) -> None:
    offset_s = (clock.now_ns() - stamp_ns) * 1e-9
    if not -AHEAD_S < offset_s < BEHIND_S:
        raise ArenaError(_clock_words(offset_s))


def _clock_words(offset_s: float) -> str:
    return (f'its clock is off by {offset_s:.2f} s; synchronise the machines (chrony) before a '
            'session')


def _disk(data: Path, min_free_gb: float) -> str:
    existing = next(folder for folder in (data, *data.parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f'{existing} cannot be written; change its owner or mount it read-write')
    free_gb = shutil.disk_usage(existing).free / 1e9
    if free_gb < min_free_gb:
        raise ArenaError(f'{free_gb:.1f} GB free at {existing}, a session needs {min_free_gb:g}; '
                         'free some space')
    return f'{free_gb:.0f} GB free'


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
