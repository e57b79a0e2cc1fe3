"""
A desk for pictures of the evaluator's page: it is put into one state after another.

What its cameras show is recorded on the simulated station first.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.episode import Slot
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.verdict import Extras
from arena_robot.drivers.sim.expert import PERIOD_S
from arena_robot.drivers.sim.station import SimStation
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import HINTS, DeskState, RunView
from arena_robot.session.loop.match import compare_views
from arena_robot.session.protocol.states import State
from arena_robot.trials.labelled import script

EVERY = 3    # control steps from picture to picture
MOVED_MM = 6.0
REST_S, FROZEN_S = 60.0, 3.2
TASK = 'put the yellow cube in the bowl'
CHECKS = tuple(Check(name, True, detail) for name, detail in (
    ('left camera', '1280 x 720'), ('right camera', '1280 x 720'), ('wrist camera', '1280 x 720'),
    ('arm', 'idle'), ('gripper', '100 % open'), ('disk', '412 GB free'), ('server', 'answers')))
Views = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Films:
    """What the cameras saw: both rollouts, and the scene put back not quite as it was."""

    rollouts: Mapping[Slot, list[Views]]
    put_back: Views

    @classmethod
    def record(cls) -> 'Films':
        """Run the task twice on the simulated station: done, and with the cube dropped."""
        with SimStation.make('cube_in_bowl', 0, size=(512, 288), rate_hz=5.0,
                             eyes=('left',)) as station:
            def look() -> Views:
                return {f'{role}_left': station.cameras[role].frame(5.0).left.pixels
                        for role in station.cameras}

            rollouts = {}
            start = station.save()
            for slot, way in ((Slot.A, 'expert'), (Slot.B, 'drop')):
                station.restore(start)
                rollouts[slot] = [look()]
                for step, _ in enumerate(script(station, way, 0), 1):
                    station.step(PERIOD_S)
                    if step % EVERY == 0:
                        rollouts[slot].append(look())
            station.restore(start, moved_mm=MOVED_MM)
            station.step(EVERY * PERIOD_S)
            return cls(rollouts, look())


class ShownDesk:
    """
    A desk in the state that it is put into; commands are accepted and change nothing.

    The view ``frozen`` gets no new pictures; the arm is at rest while ``rest`` is set.
    """

    def __init__(self, films: Films) -> None:
        self._films, self._changed = films, threading.Condition()
        self._now, self._run = DeskState(message=HINTS[State.IDLE]), cast(RunView | None, None)
        self.live = films.rollouts[Slot.A][0]
        self.frozen, self.rest = '', threading.Event()
        self.rest.set()

    def put(self, state: State, **more: Any) -> None:
        """Show ``state``, with fields of DeskState that differ from those of a usual session."""
        matches = {name: one.score for name, one in compare_views(
            self._films.rollouts[Slot.A][0], self._films.put_back).items()}
        usual = {'session_id': 'e5065082' + 24 * '0', 'station': 'lab-3', 'evaluator': 'Ada',
                 'control': self._now.control, 'message': HINTS[state], 'instruction': TASK,
                 'draft_instruction': TASK, 'checks': CHECKS,
                 'commitment': hashlib.sha256(TASK.encode()).hexdigest(),
                 'matches': matches, 'match': min(matches.values())}
        with self._changed:
            self._now = DeskState(state, **{**usual, **more})
            self._run = None
            if state.running:
                self._run = RunView(state.running, 96, 400, 6.4)
            self._changed.notify_all()

    def state(self) -> DeskState:
        """Return the state that is shown."""
        return self._now

    def wait_change(self, seen: DeskState, timeout_s: float) -> DeskState:
        """Return the state once it is not ``seen``, at the latest after ``timeout_s``."""
        with self._changed:
            self._changed.wait_for(lambda: self._now != seen, timeout_s)
            return self._now

    def running(self) -> RunView | None:
        """Return the run that is shown."""
        return self._run

    def take(self, name: str, take_over: bool = False) -> None:
        """Give control to ``name``."""
        with self._changed:
            self._now = replace(self._now, control=name)
            self._changed.notify_all()

    def today(self) -> list[DeskState]:
        """Return no earlier sessions."""
        return []

    def views(self) -> tuple[str, ...]:
        """Return the names of the views."""
        return tuple(self.live)

    def site(self) -> str:
        """Return the address of a site."""
        return 'https://arena.example.org'

    def consent(self) -> str:
        """Return what a station could tell the people in its pictures."""
        return ('The cameras record this room while a policy runs, without sound. Anybody can see '
                'it on the site for a year. Ask Ada for deletion.')

    def extras(self) -> Extras:
        """Return what a station asks by default."""
        return Extras()

    def frame(self, view: str) -> bytes:
        """Return the picture of a view."""
        return to_jpeg(self.live[view])

    def frame_age_s(self, view: str) -> float:
        """Return that every picture is new, but for the camera that is frozen."""
        return FROZEN_S if view == self.frozen else 0.0

    def stop(self) -> None:
        """Return once the arm is at rest."""
        self.rest.wait(REST_S)

    def reference(self, view: str) -> bytes:
        """Return the start photograph of a view."""
        return to_jpeg(self._films.rollouts[Slot.A][0][view])

    def clip(self, slot: Slot, view: str) -> tuple[bytes, ...]:
        """Return the later half of a rollout, in which more is to be seen."""
        pictures = self._films.rollouts[slot]
        return tuple(to_jpeg(one[view]) for one in pictures[len(pictures) // 2:])

    def __getattr__(self, name: str) -> Callable[..., str]:
        return lambda *_, **__: ''
