"""Episodes of the simulated station with the known progress of every frame."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import DriverError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import ROLES
from arena_robot.drivers.sim.expert import PERIOD_S
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.records.labelled_clip import SUFFIX, ClipSource, LabelledClip, write_clip
from arena_robot.trials.faulty_expert import KINDS, script

log = logging.getLogger(__name__)

SIZE = (256, 144)    # the local judge looks at 160 by 96
EVERY = 3            # steps: a frame every 0.2 s, the local judge's interval
QUALITY = 88         # of JPEGs: hundreds of episodes are kept


@dataclass(frozen=True)
class LabelledEpisode:
    """One episode to make: a task's seed, done in one of the ways of ``KINDS``."""

    task: str
    seed: int
    kind: str

    @property
    def name(self) -> str:
        """Name of the episode, unique among all."""
        return f'{self.task}-{self.seed:04d}-{self.kind}'


def labelled_episodes(tasks: Sequence[str], seeds: Sequence[int]) -> list[LabelledEpisode]:
    """Return one episode per task and seed; the ways are spread evenly over both."""
    return [LabelledEpisode(task, seed, KINDS[(seed + 3 * number) % len(KINDS)])
            for seed in seeds for number, task in enumerate(tasks)]


def all_tasks() -> list[str]:
    """Return the names of the package's own tasks."""
    return list(TASKS.built_in)


def record(episode: LabelledEpisode, station: SimStation | None = None) -> LabelledClip:
    """Run an episode, on a new station when none is given, with a frame every 0.2 s."""
    if station is None:
        with SimStation.make(episode.task, episode.seed, size=SIZE, rate_hz=5.0,
                             eyes=('left',)) as made:
            return record(episode, made)
    station.reset(episode.task, episode.seed)
    phi: list[float] = []
    pictures: dict[str, list[bytes]] = {role: [] for role in ROLES}

    def look() -> None:
        phi.append(station.potential())
        for role in ROLES:
            pictures[role].append(to_jpeg(station.cameras[role].frame(5.0).left.pixels, QUALITY))

    try:
        look()
        for step, _ in enumerate(script(station, episode.kind, episode.seed), 1):
            station.step(PERIOD_S)
            if step % EVERY == 0:
                look()
            if step >= MAX_STEPS:
                break
    except DriverError as error:
        log.info('%s ended early: %s', episode.name, error)
    times_s = np.arange(len(phi), dtype=np.float64) * (EVERY * PERIOD_S)
    return LabelledClip(
        ClipSource(episode.name, station.instruction, episode.task, episode.seed,
                   episode.kind, bool(station.succeeded())), times_s, np.array(phi), pictures)


def record_to(folder: Path, episode: LabelledEpisode) -> Path:
    """Run an episode and write its clip into ``folder``, unless it is there already."""
    path = folder / f'{episode.name}{SUFFIX}'
    if not path.exists():
        write_clip(path, record(episode))
    return path
