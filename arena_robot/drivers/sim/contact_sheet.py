"""Contact sheet: all tasks from all cameras, half way through the expert's rollout."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ROLES, Pixels
from arena_robot.drivers.sim.expert import PERIOD_S, ExpertMotions
from arena_robot.drivers.sim.render import MAX_HEIGHT, MAX_WIDTH, Shot
from arena_robot.drivers.sim.room_model import OVERVIEW
from arena_robot.drivers.sim.station import SimStation

_PAPER, _INK = 250, (40, 40, 40)
_HALF_WAY = {'do_not_move': 0.1}
_GAP = 6
_HEAD = 30


def contact_sheet(names: Sequence[str], seed: int, width: int, columns: int, *,
                  beauty: bool = True) -> Pixels:
    """
    Return (H, W, 3) RGB: a strip of three views, ``width`` pixels each, for every task.

    Task number i is drawn with seed ``seed + i``, so that looks vary. Above them are whole
    stations, one per column, at tasks spread over the list.
    """
    tiles = [_tile(name, seed + i, width, beauty) for i, name in enumerate(names)]
    shown = [int((column + 0.5) * len(tiles) / columns) for column in range(columns)]
    rows = [[tiles[i][1] for i in shown]]
    strips = [strip for strip, _ in tiles]
    while len(strips) % columns:
        strips.append(np.full_like(strips[0], _PAPER))
    rows += [strips[i:i + columns] for i in range(0, len(strips), columns)]
    return np.vstack([np.hstack(row) for row in rows])


def _tile(name: str, seed: int, width: int, beauty: bool) -> tuple[Pixels, Pixels]:
    """Return a task's strip of views and a picture of the whole station, equally wide."""
    with SimStation.make(name, seed, size=(MAX_WIDTH, MAX_HEIGHT), eyes=('left',),
                         beauty=beauty) as station:
        _work(station, _moment(name, seed))
        title = f"{name}: '{station.instruction}'"
        views = [station.cameras[role].frame().left.pixels for role in ROLES]
        whole = station.studio.picture(Shot(OVERVIEW, MAX_WIDTH, MAX_HEIGHT))
    full = 3 * (width + _GAP) + _GAP
    strip = np.full((width * 9 // 16 + _HEAD, full, 3), _PAPER, np.uint8)
    for column, picture in enumerate(views):
        left = _GAP + column * (width + _GAP)
        strip[_HEAD:, left:left + width] = _shrunk(picture, width)
    cv2.putText(strip, title, (_GAP, _HEAD - 9), cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1,
                cv2.LINE_AA)
    banner = np.full((full * 9 // 16 + _GAP, full, 3), _PAPER, np.uint8)
    inner = _shrunk(whole, full - 2 * _GAP)
    banner[_GAP:_GAP + len(inner), _GAP:-_GAP] = inner
    return strip, banner


def _shrunk(picture: Pixels, width: int) -> Pixels:
    small = cv2.resize(picture, (width, width * 9 // 16), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def _moment(name: str, seed: int) -> int:
    """Return the step of the expert's rollout that shows the task best."""
    with SimStation.make(name, seed, cameras=()) as station:
        progress = []
        for _ in station.task.solve(ExpertMotions(station)):
            station.step(PERIOD_S)
            progress.append(station.progress())
    wanted = _HALF_WAY.get(name, 0.48)
    return int(np.argmax(np.array(progress) >= wanted)) + 1


def _work(station: SimStation, steps: int) -> None:
    for done, _ in enumerate(station.task.solve(ExpertMotions(station)), 1):
        station.step(PERIOD_S)
        if done >= steps:
            return


def write_picture(path: Path, pixels: Pixels) -> None:
    """Write an RGB picture; ConfigError when the suffix is not a picture's."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, 88]
    try:
        written = cv2.imwrite(str(path), np.ascontiguousarray(pixels[..., ::-1]), quality)
    except cv2.error as error:
        raise ConfigError(f'cannot write {path}: use .jpg or .png') from error
    if not written:
        raise ConfigError(f'cannot write {path}: is the folder there?')
