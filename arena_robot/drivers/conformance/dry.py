"""A dry run of the checks that move: parts that only note what they would be sent."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from typing_extensions import Self

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import ArmState, Floats, GripperState, RobotMode
from arena_robot.drivers.conformance.rig import AnyRig, ArmRig, GripperRig
from arena_robot.drivers.conformance.suite import AnyCheck, run_check
from arena_robot.robots.arms import DOF, PANDA
from arena_robot.safety.limits import motion_s

STROKE_S = 1.5


class Noting:
    """A part that is not there; ``noted`` are the calls that would have been sent."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str]] = []

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""

    def note(self, verb: str, values: object = '') -> None:
        """Keep a call."""
        self.noted.append((verb, str(values)))


class DryArm(Noting):
    """An arm that is at once where it is sent, from the ``state`` of the real one."""

    def __init__(self, state: ArmState) -> None:
        super().__init__()
        self._state = state

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return where it would be."""
        return self._state

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return where it would be."""
        return self._state

    def command(self, command: ArmCommand) -> ArmCommand:
        """Note a target."""
        self._go('command', command.q, RobotMode.MOVE)
        return command

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Note a motion."""
        start = self._state.q
        self._go('move_to', q, RobotMode.IDLE)
        return motion_s(start, np.asarray(q), duration_s, PANDA)

    def stop(self) -> None:
        """Note it."""
        self.note('stop')
        self._state = replace(self._state, mode=RobotMode.IDLE)

    def recover(self) -> None:
        """Note it."""
        self.note('recover')

    def _go(self, verb: str, q: Floats, mode: RobotMode) -> None:
        q = np.asarray(q, dtype=float)
        if q.shape != (DOF,) or not np.all(np.isfinite(q)):
            self.note(f'{verb}, which the driver has to refuse', q)
            raise SafetyError(f'an arm target must be {DOF} finite numbers, got {q!r}')
        self.note(verb, '[' + ' '.join(f'{one:.3f}' for one in q) + ']')
        self._state = replace(self._state, q=q, q_desired=q, dq=np.zeros(DOF), mode=mode)


class DryGripper(Noting):
    """A gripper whose fingers take ``STROKE_S`` for every way."""

    def __init__(self, state: GripperState) -> None:
        super().__init__()
        self._state, self._from, self._passed_s = state, state.position, STROKE_S

    def advance(self, seconds: float) -> None:
        """Move the fingers on."""
        self._passed_s += seconds

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return where the fingers would be."""
        share = min(1.0, self._passed_s / STROKE_S)
        position = self._from + share * (self._state.requested_position - self._from)
        return replace(self._state, position=position, is_moving=share < 1.0)

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return where the fingers would be."""
        return self.state()

    def command(self, command: GripperCommand) -> GripperCommand:
        """Note a target."""
        values = (command.position, command.speed, command.force)
        if not np.all(np.isfinite(values)):
            self.note('command, which the driver has to refuse', command)
            raise SafetyError(f'a gripper command must be finite, got {command}')
        position, speed, force = (min(1.0, max(0.0, one)) for one in values)
        self.note('command', f'position {position:g}, speed {speed:g}, force {force:g}')
        self._from, self._passed_s = self.state().position, 0.0
        self._state = replace(self._state, requested_position=position)
        return replace(command, position=position, speed=speed, force=force)

    def stop(self) -> None:
        """Note it."""
        self.note('stop')
        self._from, self._passed_s = self.state().position, STROKE_S
        self._state = replace(self._state, requested_position=self._from)

    def activate(self) -> None:
        """Note it."""
        self.note('activate')


def would_send(checks: Sequence[AnyCheck], rig: AnyRig) -> list[tuple[str, list[str]]]:
    """
    Return for each check what it would send; only the state of the rig's part is read.

    Equal calls in a row are one line with the first, the last and their number.
    """
    with rig.opened() as part:
        state: Any = part.state(rig.max_age_s)  # type: ignore[union-attr]
    found = []
    for check in checks:
        dry: DryArm | DryGripper
        if isinstance(rig, ArmRig):
            dry = DryArm(state)
            own: AnyRig = ArmRig(dry, rig.clock, withheld=rig.withheld, joints=rig.joints,
                                 sleep=dry.advance)
        else:
            dry = DryGripper(state)
            own = GripperRig(dry, rig.clock, withheld=rig.withheld, sleep=dry.advance)
        result = run_check(check, own)
        found.append((check.__name__.replace('_', ' '),
                      _lines(dry.noted) or [f'nothing: {result.detail}']))
    return found


def _lines(noted: list[tuple[str, str]]) -> list[str]:
    lines = []
    for verb, calls in groupby(noted, key=lambda call: call[0]):
        values = [value for _, value in calls]
        more = f' … {values[-1]}, {len(values)} in all' if len(values) > 2 else ''
        lines += [f'{verb} {value}{more}'.rstrip() for value in values[:1 if more else None]]
    return lines
