"""Motions of a session: reset pose, photographs, scene match, rollouts, stop."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.episode import EndReason, Episode
from arena_robot.core.errors import DriverError, SessionError
from arena_robot.core.joined_call import JoinedCall, then
from arena_robot.core.observation import STILL_RAD_S, Pixels
from arena_robot.policy.base import Policy
from arena_robot.session.base import SessionConfig, blinded
from arena_robot.session.loop.match import Mask, ViewMatch, compare_views, keep_photos, read_photos
from arena_robot.session.loop.parts import Parts, move_to_reset
from arena_robot.session.loop.rollout import Rollout, RolloutRequest, StepSink

REST_S = 2.0    # an arm stops in a fraction of a second
# A stop without an answer for so long may be lost: the next press sends another.
ANSWER_S = 0.3
STOPS_IN_FLIGHT = 8    # with ANSWER_S between two, the presses of 2.4 s
SAID_S = 1.0    # how long a part's word that it has stopped by itself is shown
# Ends of a rollout that leave the arm free: nobody pressed STOP, and the station is well.
FREE_ENDS = (EndReason.DONE, EndReason.TIMEOUT)


class RobotMotions:
    """
    Runs one motion of the robot at a time; the stop works at any time.

    A stop is a state of the arm, not a command: it refuses every later command, of whatever time
    and process, until a person begins the next step here that moves the arm.

    ``leave_out`` are masks by view of regions that do not count in the scene match.
    """

    def __init__(self, parts: Parts, clock: Clock, config: SessionConfig,
                 leave_out: dict[str, Mask] | None = None) -> None:
        self.parts = parts
        self._clock = clock
        self._config = config
        self._leave_out = leave_out or {}
        self._busy = threading.Lock()
        self._stops = self._stops_before = 0    # those before the present step began
        self._latching, self._counting = False, threading.Lock()
        self._rollout: Rollout | None = None
        self._arm_stop = JoinedCall('stop', self._stop_arm, ANSWER_S, STOPS_IN_FLIGHT)
        self._rest = JoinedCall('rest', self.wait_rest)
        self._start: dict[str, Pixels] = {}
        self._recovered = False     # since the last way to the reset pose
        self.doing = ''

    @property
    def steps(self) -> int:
        """Return how many steps the running rollout has made, 0 when none runs."""
        rollout = self._rollout
        return rollout.steps if rollout else 0

    @property
    def waiting(self) -> str:
        """Return what the running rollout waits for, as a sentence; or ''."""
        rollout = self._rollout
        return rollout.waiting() if rollout else ''

    @property
    def stops(self) -> int:
        """Return how often :meth:`stop` was called; see :meth:`rollout`."""
        return self._stops

    @property
    def start_photos(self) -> dict[str, Pixels]:
        """Return the start photographs by view, RGB."""
        return dict(self._start)

    def arm_tripped(self) -> bool:
        """Return whether the arm, as far as it says now, must be recovered."""
        with suppress(DriverError):
            return self.parts.arm.state(SAID_S).recovery_required
        return False

    def gripper_failed(self) -> bool:
        """Return whether the gripper, as far as it says now, must be activated."""
        with suppress(DriverError):
            return bool(self.parts.gripper.state(SAID_S).fault)
        return False

    def stop(self, reason: EndReason = EndReason.STOPPED, detail: str = '') -> None:
        """Stop the arm now; a running rollout ends with ``reason``."""
        self.begin_stop(reason, detail).result()

    def begin_stop(self, reason: EndReason = EndReason.STOPPED,
                   detail: str = '') -> 'Future[None]':
        """
        Stop the arm now, without waiting; the future is done once the arm has answered.

        Calls share a request to the arm; one that comes ANSWER_S after an unanswered request
        sends its own, so a lost answer delays no later press. At most STOPS_IN_FLIGHT wait at a
        time. After one of FREE_ENDS the arm takes commands again at once.
        """
        with self._counting:
            self._latching = self._latching or reason not in FREE_ENDS
            self._stops += 1
        rollout = self._rollout
        if rollout is not None:
            rollout.end(reason, detail)
        return self._arm_stop.ask()

    def begin_rest(self) -> 'Future[None]':
        """Stop the arm now, without waiting; the future is done once it is measured at rest."""
        return then(self.begin_stop(), self._rest.ask)

    def wait_rest(self, timeout_s: float = REST_S) -> None:
        """Return once the arm's measured speed shows rest; DriverError when it does not."""
        end_s = time.monotonic() + timeout_s
        while True:
            state = self.parts.arm.wait_state(timeout_s)
            fastest = float(np.max(np.abs(state.dq)))
            if fastest < STILL_RAD_S:
                return
            if time.monotonic() > end_s:
                raise DriverError(
                    f'{timeout_s:g} s after STOP the arm is not at rest: a joint moves at '
                    f'{fastest:.2f} rad/s, below {STILL_RAD_S:g} is rest. Use the hardware stop')

    def home(self) -> None:
        """Open the gripper and move the arm to the reset pose. Raises DriverError."""
        with self._alone('the arm moves to its reset pose'):
            self._home()

    def recover(self) -> None:
        """Recover the arm, which may move; its next way to the reset pose is slow."""
        with self._alone('the arm is recovered and may move a little'):
            self._recovered = True
            self.parts.arm.recover()

    def activate_gripper(self) -> None:
        """Activate the gripper, whose fingers open and close fully. Raises DriverError."""
        with self._alone('the gripper is activated: its fingers open and close'):
            self.parts.gripper.activate()

    def photograph(self, folder: Path) -> tuple[str, ...]:
        """Move to the reset pose, keep a photograph of every view in ``folder``, name them."""
        with self._alone('the arm moves to its reset pose, then the start is photographed'):
            self._home()
            photos = keep_photos(folder, self._look())
            self._refuse_stopped()
            self._start = photos
            return tuple(photos)

    def remember(self, folder: Path) -> None:
        """Read the start photographs from a folder, after a restart; there may be none."""
        self._start = read_photos(folder)

    def match(self) -> dict[str, ViewMatch]:
        """Compare the current images with the start photographs. Raises DriverError."""
        return compare_views(self._start, self._look(), self._leave_out)

    def keep_reset(self, folder: Path) -> dict[str, ViewMatch]:
        """Move to the reset pose, keep photographs in ``folder``, compare with the start."""
        with self._alone('the arm moves to its reset pose, then the scene is compared'):
            self._home()
            photos = keep_photos(folder, self._look())
            matches = compare_views(self._start, photos, self._leave_out)
            self._refuse_stopped()
            return matches

    @contextmanager
    def rollout(self, job: RolloutRequest, policy: Policy, sink: StepSink,
                max_steps: int = 0, stops: int | None = None) -> Iterator[Rollout]:
        """
        Yield a rollout that :meth:`stop` can end; no other motion can start meanwhile.

        Raises SessionError when :meth:`stop` was called since ``stops`` was read. Errors of the
        policy keep their class and lose their text; see :func:`blinded`.
        """
        config = self._config.rollout
        if max_steps:
            config = replace(config, max_steps=min(max_steps, config.max_steps))
        with self._alone(f'{job.slot.value} is running'):
            rollout = Rollout(job, self.parts, policy, self._clock, sink, config,
                              shown_error=lambda error: blinded(error, job.slot))
            self._rollout = rollout    # from here on a stop ends the rollout itself
            try:
                if stops not in (None, self._stops):
                    raise SessionError('STOP was pressed before the rollout began; start again')
                self._release_stop()
                yield rollout
            finally:
                self._rollout = None

    def run(self, job: RolloutRequest, policy: Policy, sink: StepSink) -> Episode:
        """Run a policy to its end; see :meth:`Rollout.run`."""
        with self.rollout(job, policy, sink) as rollout:
            return rollout.run()

    def _stop_arm(self) -> None:
        rollout = self._rollout
        if rollout is not None:
            rollout.finish_step()
        if self._latching:
            self.parts.arm.halt()
        else:
            self.parts.arm.stop()

    def _release_stop(self) -> None:
        """Let the arm move again; a STOP that is pressed meanwhile is latched once more."""
        with self._counting:
            self._refuse_stopped()
            self._latching = False
        try:
            self.parts.arm.resume()
        finally:
            if self._was_stopped():
                self.parts.arm.halt()
        self._refuse_stopped()

    def _was_stopped(self) -> bool:
        return self._stops != self._stops_before

    def _refuse_stopped(self) -> None:
        if self._was_stopped():
            raise DriverError('stopped: nothing further is done; try again when it is safe')

    @contextmanager
    def _alone(self, doing: str) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SessionError(f'wait: {self.doing}')
        self._stops_before = self._stops
        self.doing = doing
        try:
            yield
        finally:
            self.doing = ''
            self._busy.release()

    def _home(self) -> None:
        arm = self.parts.arm.description()
        self._release_stop()
        move_to_reset(self.parts, self._clock, np.asarray(arm.reset_joints, float),
                      stopped=self._was_stopped,
                      slow=arm.robot if self._recovered else None)
        self._recovered = False

    def _look(self) -> dict[str, Pixels]:
        return {name: image.pixels for name, image in self.parts.look().items()}
