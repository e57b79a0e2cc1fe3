"""
Trials: episodes of policies on the simulated station, without ROS and faster than real time.

The data path is that of a station: camera images, resizing, policy, chunk executor, safety, the
arm's driver. Images are rendered only for the steps with a query.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.action import Chunk
from arena_robot.core.episode import MAX_STEPS, EndReason, Slot, Step
from arena_robot.core.observation import EYES, Image, Observation
from arena_robot.core.parallel import Done, Workers, nothing
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.station import SimStation
from arena_robot.policy.base import Closable, Policy, PolicySpec
from arena_robot.policy.connect import connect, load_policy
from arena_robot.policy.resizing import Resizing
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

JUDGED_AFTER_S = 0.5    # what was let go comes to rest
PICTURE = (320, 180)
STDOUT, STDERR = 1, 2
# A worker of a cluster may have several threads, and pictures are drawn by one at a time.
_turn = threading.Lock()


@dataclass(frozen=True)
class Trial:
    """One episode to run: policy with its arguments, task, seed, maximum number of steps."""

    policy: str
    task: str
    seed: int
    max_steps: int = MAX_STEPS
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class TrialOutcome:
    """Result of a trial: the oracle's ``progress`` 0 to 1, and ``clamped`` steps of ``steps``."""

    trial: Trial
    succeeded: bool
    progress: float
    steps: int
    clamped: int
    end: str
    detail: str = ''


@dataclass
class _Glance:
    """A policy wrapper that counts the steps until the next query."""

    inner: Policy
    due_at: int = 0

    @property
    def spec(self) -> PolicySpec:
        return self.inner.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        chunk = self.inner.infer(observation, episode)
        used = min(len(chunk), self.spec.open_loop_horizon or len(chunk))
        self.due_at = observation.step + (1 if self.spec.pipelined else used)
        return chunk

    def reset(self, episode: str = '') -> None:
        self.due_at = 0
        self.inner.reset(episode)


@dataclass(frozen=True)
class _Glancing(Parts):
    """A station's parts that render images only for steps with a query."""

    policy: _Glance = field(kw_only=True)

    def observe(self, stamp_ns: int, prompt: str = '', step: int = 0) -> Observation:
        if step >= self.policy.due_at:
            return super().observe(stamp_ns, prompt, step)
        unseen: dict[str, Image] = {}
        return Observation(stamp_ns, self.arm_state(), self.gripper_state(), prompt, step, unseen)


class _Oracle:
    """Ends the rollout when the task is done, as an evaluator would; counts clamped steps."""

    def __init__(self, station: SimStation, done: Callable[[], None]) -> None:
        self._station = station
        self._done = done
        self.clamped = 0

    def chunk(self, index: int, step: int, chunk: Chunk) -> None:
        pass

    def step(self, step: Step, observation: Observation) -> None:
        self.clamped += bool(step.clamps)
        if self._station.succeeded():
            self._done()


class Course:
    """
    Runs trials one after the other, each on a new simulated station.

    So a result depends only on its trial. Policies are loaded, or connected to, once.
    """

    def __init__(self, robot: str = 'panda') -> None:
        self._robot = robot
        self._policies: dict[object, Policy] = {}

    def run(self, trial: Trial) -> TrialOutcome:
        """Run one episode from the task's start; an error of the policy ends it."""
        policy = _Glance(Resizing(self._policy(trial)))
        views = [view.split('_') for view in policy.spec.views()]
        with SimStation.make(
                trial.task, trial.seed, self._robot, size=PICTURE,
                cameras=sorted({role for role, _ in views}),
                eyes=sorted({eye for _, eye in views}) or EYES) as station:
            return self._rollout(trial, station, policy)

    def _rollout(self, trial: Trial, station: SimStation, policy: _Glance) -> TrialOutcome:
        arm = guarded(station.arm, station.robot, station.clock, self._robot)
        parts = _Glancing(arm, station.gripper, station.cameras, policy=policy)
        oracle = _Oracle(station, lambda: rollout.stop(EndReason.DONE))
        rollout = Rollout(
            RolloutRequest(f'{trial.task}-{trial.seed}', Slot.A, station.instruction), parts,
            policy, station.clock, oracle, RolloutConfig(max_steps=trial.max_steps))
        episode = rollout.run()
        station.step(JUDGED_AFTER_S)
        return TrialOutcome(trial, bool(station.succeeded()), float(station.progress()),
                            episode.steps,
                       oracle.clamped, episode.end.value, episode.detail)

    def close(self) -> None:
        """Close the connections to served policies; can be called twice."""
        for policy in self._policies.values():
            if isinstance(policy, Closable):
                policy.close()
        self._policies.clear()

    def _policy(self, trial: Trial) -> Policy:
        name, key = trial.policy, (trial.policy, trial.kwargs)
        if key not in self._policies:
            self._policies[key] = connect(name) if '://' in name else load_policy(
                name, dict(trial.kwargs))
        return self._policies[key]


def run_all(trials: Sequence[Trial], workers: Workers,
            done: Done[TrialOutcome] = nothing) -> list[TrialOutcome]:
    """
    Return the outcomes in the order of ``trials``; the same for all ``workers``.

    ``done`` is called with each one as it arrives. Raises what a trial raised.
    """
    try:
        return workers.map(run_here, trials, done)
    finally:
        _close()


def run_here(trial: Trial) -> TrialOutcome:
    """Run one trial in this process, which keeps its policies; what they print is no result."""
    with _turn, printing_elsewhere():
        return _course().run(trial)


@contextlib.contextmanager
def printing_elsewhere() -> Iterator[None]:
    """Send what this process prints to standard error, also what C libraries print."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    saved = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        libc.fflush(None)   # C keeps what it prints until its buffer is full
        os.dup2(saved, STDOUT)
        os.close(saved)


@functools.cache
def _course() -> Course:
    return Course()


def _close() -> None:
    """Close the policies of this process."""
    with _turn:
        _course().close()
        _course.cache_clear()
