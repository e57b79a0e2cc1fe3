"""
Rollout of one policy: observe, infer when the chunk is used up, act through safety, log.

It ends after ``max_steps``, by the evaluator, or at the first error of a policy, a part or the
safety layer. In every case the arm is stopped and the steps so far are kept.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from arena_robot.core.action import (
    Action,
    Chunk,
    Clamp,
    ClampReason,
    GripperCommand,
    SafeCommand,
)
from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS, EndReason, Episode, Slot, Step
from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    DriverError,
    LateCommand,
    PolicyError,
    PolicyRefused,
    SafetyError,
)
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import Policy
from arena_robot.policy.chunks import ChunkExecutor, ChunkStep, with_binary_gripper
from arena_robot.safety.action_spaces import LayoutDrive
from arena_robot.safety.embodiments import agreed_drive
from arena_robot.safety.reflexes import BY_MOTION, BY_STATION, cause
from arena_robot.session.loop.pacing import SLACK, Pacer, Tick, best_shift_ns, waiting_loop
from arena_robot.session.loop.parts import Parts

log = logging.getLogger(__name__)

STEP_ENDS_S = 0.2    # a step in progress ends within its period
FAILURES = (EndReason.DRIVER_ERROR, EndReason.SAFETY_STOP, EndReason.INTERRUPTED)
LOOKS = 5                # pictures of each camera before the first step
RESET_TIMEOUT_S = 2.0    # for a policy to forget the episode; the next one has a new token
LAST_ANSWER_S = 0.3     # for what became of the last command; the arm says it in milliseconds
STEER_EVERY = 15        # steps: once a second


class StepSink(Protocol):
    """Receiver of every inference and every step; its methods must return quickly."""

    def chunk(self, index: int, step: int, chunk: Chunk) -> None:
        """Receive inference ``index``, requested at ``step``."""

    def step(self, step: Step, observation: Observation) -> None:
        """Receive one finished step and the observation it used."""


@dataclass(frozen=True)
class RolloutConfig:
    """Rate, length, and the timeout of the policy, which may exceed a period."""

    control_rate_hz: float = CONTROL_RATE_HZ
    max_steps: int = MAX_STEPS
    inference_timeout_s: float = 10.0


@dataclass(frozen=True)
class RolloutRequest:
    """
    Request of a rollout: slot, instruction, and the episode token for the policy.

    ``third_person`` is the outside camera that a policy with only one of them sees.
    """

    session_id: str
    slot: Slot
    prompt: str
    third_person: str = 'left'

    @property
    def token(self) -> str:
        """Return the episode's token, ``<session>-A`` or ``-B``."""
        return f'{self.session_id}-{self.slot.value}'


class _Stopped(Exception):
    """Ends the loop; used only in this file."""


@dataclass(frozen=True)
class _SentStep:
    """A step whose command is on its way; its record waits for what the arm ``accepted``."""

    step: Step
    seen: Observation
    accepted: 'futures.Future[SafeCommand]'
    sent_ns: int    # steady


class Rollout:
    """
    One episode; :meth:`run` it once, :meth:`stop` it from any thread.

    ``shown_error`` returns what may be shown of an error of the policy; None shows it as it is.
    """

    def __init__(self, job: RolloutRequest, parts: Parts, policy: Policy,
                 clock: Clock, sink: StepSink, config: RolloutConfig = RolloutConfig(),
                 shown_error: Callable[[Exception], Exception] | None = None) -> None:
        self.job = job
        self._parts = parts
        self._clock = clock
        self._sink = sink
        self._config = config
        self._shown_error = shown_error
        self._executor = ChunkExecutor(policy, timeout_s=config.inference_timeout_s,
                                       now_s=lambda: clock.steady_ns() * 1e-9,
                                       control_rate_hz=config.control_rate_hz)
        self._wanted: tuple[EndReason, str] | None = None
        self._failure = ''
        self._gate = threading.Lock()
        self._chunks = 0
        self._steps = 0
        self._sent: deque[_SentStep] = deque()
        self._tracked: Floats | None = None
        self._drive: LayoutDrive | None = None
        self._began_ns = self._waited_ns = 0
        self._jumps = JumpDetector(clock)
        self._jumped: list[str] = []

    @property
    def steps(self) -> int:
        """Return how many steps were made and recorded so far."""
        return self._steps

    def waiting(self) -> str:
        """Return in a sentence what is waited for: a part, or a stop after a failure; or ''."""
        if self._failure:
            return f'{self._failure}. The arm has not confirmed yet that it is at rest.'
        if silence := self._parts.silence.told():
            return silence
        return waiting_loop(self._parts.cameras, self._parts.ages.image_s) \
            if self._began_ns else ''

    def stop(self, reason: EndReason = EndReason.STOPPED, detail: str = '') -> None:
        """Stop the arm now and end the episode; the first reason counts."""
        self.end(reason, detail)
        self.finish_step()
        self._parts.arm.stop()

    def end(self, reason: EndReason = EndReason.STOPPED, detail: str = '') -> None:
        """End the episode without waiting for the arm; no further step is begun."""
        self._wanted = self._wanted or (reason, detail)
        self._executor.cancel()

    def finish_step(self) -> None:
        """Wait until the step under way has sent its command, if that is soon."""
        # The gate is free again before the arm is stopped: a lost answer holds nothing up.
        if self._gate.acquire(timeout=STEP_ENDS_S):
            self._gate.release()

    def run(self) -> Episode:
        """Run until the episode ends; return how it ended, also after an error."""
        started_ns = self._clock.now_ns()
        end, detail = EndReason.INTERRUPTED, 'the station was interrupted'
        try:
            end, detail = self._end()
            self._failure = detail if end in FAILURES else ''
        finally:
            loop_ns = self._clock.steady_ns() - self._began_ns if self._began_ns else 0
            problem = self._hold()
            with suppress(ArenaError):    # refused because of the stop: not carried out
                self._record(LAST_ANSWER_S)
            detail = '; '.join(part for part in (detail, *self._jumped, problem) if part)
            self._reset_policy()
        episode = Episode(self.job.session_id, self.job.slot, self.job.prompt, self._steps, end,
                          started_ns, self._clock.now_ns(), detail,
                          waited=self._waited_ns / loop_ns if loop_ns else None)
        # Without the loop's timing, which tells how long the policy takes.
        log.info('slot %s ended: %s after %d steps', self.job.slot.value, end.value, self._steps)
        return episode

    def _end(self) -> tuple[EndReason, str]:
        try:
            self._loop()
        except _Stopped:
            return self._wanted or (EndReason.STOPPED, '')
        except PolicyError as error:
            return EndReason.POLICY_ERROR, str(error)
        except (SafetyError, DriverError) as error:
            if self._wanted and isinstance(error, SafetyError):    # refused because of the stop
                return self._wanted
            return self._whose_stop(error), str(error)
        except ArenaError as error:
            return EndReason.INTERRUPTED, str(error)
        except Exception as error:  # must neither lose the steps nor leave the arm moving
            log.exception('slot %s: the control loop failed', self.job.slot.value)
            return EndReason.INTERRUPTED, f'the control loop failed: {type(error).__name__}'
        return EndReason.TIMEOUT, f'{self._config.max_steps} steps were made'

    def _whose_stop(self, error: ArenaError) -> EndReason:
        """
        Return the end after an error of the safety layer or of a part.

        An arm in a reflex is noticed by either, whichever is first; its own errors say whether the
        policy's motion was the cause.
        """
        reflex = None
        with suppress(DriverError):
            reflex = cause(self._parts.arm.state(1.0))
        if reflex is BY_STATION or (isinstance(error, DriverError) and reflex is not BY_MOTION):
            return EndReason.DRIVER_ERROR
        return EndReason.SAFETY_STOP

    def _loop(self) -> None:
        pacer = Pacer(self._config.control_rate_hz, self._clock)
        self._drive = self._agreed_drive()
        self._clock.sleep_until_steady_ns(self._begin_ns(pacer.period_ns))
        self._began_ns = self._clock.steady_ns()
        steered = 0
        for index in range(self._config.max_steps):
            tick = pacer.wait()
            if jump_s := self._jumps.jump_s():
                self._jumped.append(f'the clock was set by {jump_s:+.1f} s at step {index}')
            self._record()
            self._go_on()
            self._step(index, tick)
            late = tick.late_s * self._config.control_rate_hz > SLACK
            if late or index - steered >= STEER_EVERY:
                steered = index
                pacer.steer(best_shift_ns(pacer.due_stamp_ns(), pacer.period_ns,
                                          self._parts.arrivals()))
        pacer.wait()
        self._record(LAST_ANSWER_S)
        self._go_on()

    def _agreed_drive(self) -> LayoutDrive | None:
        """
        Return how the layout of the policy's actions is driven; None where it has none.

        Raises PolicyRefused for one that this arm does not have.
        """
        try:
            spec = self._executor.spec
        except Exception as error:
            raise self._shown_error(error) if self._shown_error else error from None
        if not spec.layout:
            return None
        arm = self._parts.arm.description()
        try:
            drive = agreed_drive(arm.robot_type or arm.robot.name, spec.layout,
                                 self._config.control_rate_hz)
        except ConfigError as error:
            raise PolicyRefused(str(error)) from error
        if drive.space is not spec.action_space:
            raise PolicyRefused(f"actions in the layout '{spec.layout}' become "
                                f'{drive.space.value}, and the spec of the policy has the action '
                                f'space {spec.action_space.value}')
        return drive

    def _begin_ns(self, period_ns: int) -> int:
        """Return the steady time of a start at which every step gets a fresh image."""
        for _ in range(LOOKS):
            self._parts.look()
            self._go_on()
        now_ns, steady_ns = self._clock.now_ns(), self._clock.steady_ns()
        shift_ns = best_shift_ns(now_ns, period_ns, self._parts.arrivals())
        return steady_ns + (shift_ns if shift_ns >= 0 else shift_ns + period_ns)

    def _step(self, index: int, tick: Tick) -> None:
        seen = replace(self._parts.observe(tick.start_ns, self.job.prompt, index),
                       third_person=self.job.third_person)
        taken = self._next_action(seen)
        if self._drive is not None:
            taken = self._translated(taken, self._drive, seen)
        self._parts.gripper_state(), self._parts.arm_state()    # the inference may have taken long
        with self._gate:
            self._go_on()
            now_ns, sent_ns = self._clock.now_ns(), self._clock.steady_ns()
            accepted = self._parts.arm.act(taken.action, now_ns)
            if accepted.done() and not isinstance(accepted.exception(), LateCommand):
                accepted.result()
            grip = self._parts.gripper.command(
                GripperCommand(float(taken.action.values[-1]), now_ns)).position
        stamps = {name: image.stamp_ns for name, image in seen.images.items()}
        self._sent.append(_SentStep(Step(
            index, tick.start_ns, seen.arm.stamp_ns, seen.gripper.stamp_ns, stamps,
            taken.requested, seen.arm.q_desired, grip, taken.chunk_index, taken.chunk_step, (),
            tick.loop_s, tick.late_s, taken.inference_s), seen, accepted, sent_ns))
        self._record()

    def _record(self, wait_s: float = 0.0) -> None:
        """
        Hand on the steps whose commands the arm has answered, with the target that it accepted.

        Raises what the arm refused a command for, and DriverError without an answer for as long
        as a part may be silent. A command that came too late left the target before it in force.
        """
        while self._sent:
            sent = self._sent[0]
            try:
                accepted = sent.accepted.result(wait_s)
            except futures.TimeoutError:
                silent_s = (self._clock.steady_ns() - sent.sent_ns) * 1e-9
                if silent_s > self._parts.ages.patience_s:
                    raise DriverError(f'the arm has not said for {silent_s:.1f} s what became of '
                                      f'the command of step {sent.step.index}') from None
                return
            except LateCommand as error:
                accepted = self._not_taken(sent, error)
            except ArenaError:
                self._sent.popleft()
                raise
            self._sent.popleft()
            self._tracked = accepted.q
            self._steps = sent.step.index + 1
            self._sink.step(replace(sent.step, q_sent=accepted.q, clamps=accepted.clamps),
                            sent.seen)

    def _not_taken(self, sent: _SentStep, error: LateCommand) -> SafeCommand:
        kept = sent.seen.arm.q_desired if self._tracked is None else self._tracked
        asked = tuple(float(v) for v in sent.step.requested)
        return SafeCommand(kept, (Clamp(ClampReason.NOT_TAKEN, asked, tuple(map(float, kept)),
                                        str(error)),))

    def _next_action(self, seen: Observation) -> ChunkStep:
        problem: Exception | None = None
        began_ns = self._clock.steady_ns()
        try:
            taken = self._executor.step(seen, self.job.token)
        except Exception as error:
            problem = self._shown_error(error) if self._shown_error else error
        self._waited_ns += self._clock.steady_ns() - began_ns
        self._go_on()
        if problem is not None:
            raise problem   # here, so that the original error is not stored as its context
        if taken.chunk_index >= self._chunks:
            self._chunks = taken.chunk_index + 1
            chunk = taken.chunk if self._drive is None else replace(
                taken.chunk, layout=self._executor.spec.layout)
            self._sink.chunk(taken.chunk_index, taken.asked_at, chunk)
        return taken

    def _translated(self, taken: ChunkStep, drive: LayoutDrive, seen: Observation) -> ChunkStep:
        """Return a step whose numbers are in the layout's action space."""
        if drive.adds:    # to what the arm accepted: its answer takes milliseconds
            self._record(LAST_ANSWER_S)
        base = seen.arm.q if self._tracked is None else self._tracked
        asked = drive.action(taken.requested, base)
        return replace(taken, requested=asked,
                       action=Action(with_binary_gripper(asked), drive.space))

    def _go_on(self) -> None:
        if self._wanted is not None:
            raise _Stopped

    def _reset_policy(self) -> None:
        """Reset the policy for the episode; waits two seconds at most."""
        try:
            self._executor.reset(self.job.token, RESET_TIMEOUT_S)
        except Exception as error:  # its text could name the policy
            log.warning('the policy of slot %s was not reset: %s', self.job.slot.value,
                        type(error).__name__)
        finally:
            self._executor.close()

    def _hold(self) -> str:
        try:
            self._parts.arm.stop()
        except ArenaError as error:
            log.error('the arm did not take the stop: %s', error)
            return f'the arm did not take the stop: {error}'
        return ''
