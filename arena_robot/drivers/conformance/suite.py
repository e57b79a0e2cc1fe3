"""
Run the checks on one part: what moves nothing first, then, if allowed, commands and motions.

:func:`driver_rig` makes the part that a backend names. A dry run makes the checks that move with a
part that only notes what it would be sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
from typing_extensions import Self

from arena_robot.core import conformance
from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.config import nearest
from arena_robot.core.conformance import FAIL, Check, CheckFailed, Result, skipped
from arena_robot.core.errors import ArenaError, ConfigError, SafetyError
from arena_robot.core.observation import (
    EYES,
    ROLES,
    ArmState,
    Floats,
    GripperState,
    RobotMode,
    view,
)
from arena_robot.drivers.base import Arm, Camera, Gripper, Part
from arena_robot.drivers.conformance import arm, camera, gripper
from arena_robot.drivers.conformance.arm import MOTIONS as ARM_MOTIONS
from arena_robot.drivers.conformance.gripper import MOTIONS as GRIPPER_MOTIONS
from arena_robot.drivers.conformance.rig import AnyRig, ArmRig, CameraRig, GripperRig
from arena_robot.drivers.table import (
    BACKEND,
    CLOCK,
    GRIPPER_MODELS,
    arguments,
    check_names,
    driver,
    fitted,
)
from arena_robot.robots.arms import PANDA, Robot
from arena_robot.safety.filter import clipped, finite
from arena_robot.safety.limits import motion_s, robot_of

AnyCheck = Check[Any]    # of the rig of its kind of part
STROKE_S = 1.5           # of the fingers of a dry run; the checks wait 1.8 s
_FAR = {'far_target_is_clipped': 'a real arm is not asked for a target out of reach'}
_PLAYED = 'a recording does not move'
_NO_GEOMETRY = 'a recording does not hold the geometry of its cameras'
_ONE_EYE = 'only one eye of this camera was recorded'


@dataclass(frozen=True)
class Suite:
    """The checks of one kind of part, and ``warning``: what the moving ones do."""

    still: tuple[AnyCheck, ...]
    commands: tuple[AnyCheck, ...] = ()
    motions: tuple[AnyCheck, ...] = ()
    warning: str = ''

    @property
    def moving(self) -> tuple[AnyCheck, ...]:
        """The checks that send commands."""
        return (*self.commands, *self.motions)


ARM = Suite(arm.STILL, arm.COMMANDS, arm.MOTIONS,
            'the flange turns about itself by up to 0.2 rad (joint 7) and back; keep the area '
            'clear and a hand on the user stop')
GRIPPER = Suite(gripper.STILL, gripper.COMMANDS, gripper.MOTIONS,
                'the fingers open and close completely; keep them free')
CAMERA = Suite(camera.STILL)
SUITES = {'arm': ARM, 'gripper': GRIPPER, 'camera': CAMERA}


def run_check(check: AnyCheck, rig: AnyRig) -> Result:
    """Run one check, or skip it for the reason that the rig has."""
    if check.__name__ in rig.withheld:
        return skipped([check], rig.withheld[check.__name__])[0]
    return conformance.run_check(check, rig, _explained)


def run_still(suite: Suite, rig: AnyRig, report: Callable[[Result], None]) -> list[Result]:
    """Run the checks that move nothing and hand each result to ``report``."""
    return _run(suite.still, rig, report, go_on=True)


def run_moving(suite: Suite, rig: AnyRig, report: Callable[[Result], None]) -> list[Result]:
    """Run the checks that move; where something real moves, a failure is the last one."""
    return _run(suite.moving, rig, report, go_on=rig.harmless)


def leave_out(checks: Sequence[AnyCheck], why: str, report: Callable[[Result], None],
              ) -> list[Result]:
    """Skip checks for the reason ``why``; hand each result to ``report``."""
    results = skipped(checks, why)
    for result in results:
        report(result)
    return results


def _run(checks: Sequence[AnyCheck], rig: AnyRig, report: Callable[[Result], None], *,
         go_on: bool) -> list[Result]:
    results: list[Result] = []
    for number, check in enumerate(checks):
        result = run_check(check, rig)
        report(result)
        results.append(result)
        if result.outcome == FAIL and not go_on:
            why = f'not run after {check.__name__} failed'
            return [*results, *leave_out(checks[number + 1:], why, report)]
    return results


def _explained(error: Exception) -> CheckFailed:
    code = f' [{error.code}]' if isinstance(error, ArenaError) else ''
    return CheckFailed("the check's calls", f'{type(error).__name__}: {error}{code}',
                       'see arena_robot/drivers/base.py for what each method promises')


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

    def __init__(self, state: ArmState, robot: Robot = PANDA) -> None:
        super().__init__()
        self._state, self._robot = state, robot

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
        return motion_s(start, np.asarray(q), duration_s, self._robot)

    def stop(self) -> None:
        """Note it."""
        self.note('stop')
        self._state = replace(self._state, mode=RobotMode.IDLE)

    def recover(self) -> None:
        """Note it."""
        self.note('recover')

    def _go(self, verb: str, q: Floats, mode: RobotMode) -> None:
        try:
            q = finite(q, self._robot.joints, 'arm target')
        except SafetyError:
            self.note(f'{verb}, which the driver has to refuse', np.asarray(q))
            raise
        self.note(verb, '[' + ' '.join(f'{joint:.3f}' for joint in q) + ']')
        self._state = replace(self._state, q=q, q_desired=q, dq=np.zeros(len(q)), mode=mode)


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
        try:
            sent = clipped(command)
        except SafetyError:
            self.note('command, which the driver has to refuse', command)
            raise
        self.note('command', f'position {sent.position:g}, speed {sent.speed:g}, '
                  f'force {sent.force:g}')
        self._from, self._passed_s = self.state().position, 0.0
        self._state = replace(self._state, requested_position=sent.position)
        return sent

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
    calls = []
    for check in checks:
        dry: DryArm | DryGripper
        if isinstance(rig, ArmRig):
            dry = DryArm(state, rig.robot)
            own: AnyRig = ArmRig(dry, rig.clock, withheld=rig.withheld, robot=rig.robot,
                                 joints=rig.joints, sleep=dry.advance)
        else:
            dry = DryGripper(state)
            own = GripperRig(dry, rig.clock, withheld=rig.withheld, sleep=dry.advance)
        result = run_check(check, own)
        calls.append((check.__name__.replace('_', ' '),
                      _lines(dry.noted) or [f'nothing: {result.detail}']))
    return calls


def _lines(noted: list[tuple[str, str]]) -> list[str]:
    lines = []
    for verb, calls in groupby(noted, key=lambda call: call[0]):
        values = [value for _, value in calls]
        more = f' … {values[-1]}, {len(values)} in all' if len(values) > 2 else ''
        lines += [f'{verb} {value}{more}'.rstrip() for value in values[:1 if more else None]]
    return lines


@contextmanager
def driver_rig(kind: str, backend: str, params: Mapping[str, Any] | None = None,
               ) -> Iterator[AnyRig]:
    """
    Make the part that ``backend`` names, not yet open, and end what it needs afterwards.

    ``params`` are arguments of the driver's constructor; of ``sim``: task, robot and, of a camera,
    role; of ``replay``: folder and, of a camera, role and focal; of a gripper also its
    ``gripper_type``. Raises ConfigError.
    """
    cls = driver(kind, backend)
    values = dict(params or {})
    options: dict[str, Any] = {}
    if kind == 'arm' and backend != 'replay' and 'robot_type' in values:
        options['robot'] = robot_of(str(values['robot_type']))
    if kind == 'gripper' and 'gripper_type' in values:
        options['model'] = GRIPPER_MODELS.find(str(values.pop('gripper_type')))
    if backend == 'sim':
        with _simulated(kind, values) as rig:
            yield rig
    elif backend == 'replay':
        yield _replayed(kind, values)
    else:
        clock = SystemClock()
        if any(argument.name == BACKEND for argument in arguments(cls)):
            values[BACKEND] = backend
        yield _rig(kind, _made(cls, values, clock), clock, **options)


def _rig(kind: str, part: Part, clock: Clock, **options: Any) -> AnyRig:
    if kind == 'camera':
        return CameraRig(cast(Camera, part), clock, **options)
    if kind == 'gripper':
        return GripperRig(cast(Gripper, part), clock, **options)
    last = options.setdefault('robot', PANDA).joints - 1    # it turns the flange about itself
    options = {'withheld': _FAR, 'joints': (last,), **options}
    return ArmRig(cast(Arm, part), clock, **options)


def _made(cls: type[Any], values: dict[str, Any], clock: Clock) -> Part:
    """Return the part as a node makes it. Raises ConfigError."""
    check_names(cls, values)
    known = arguments(cls)
    if any(arg.name == CLOCK for arg in known):
        values = {CLOCK: clock, **values}
    missing = [arg.name for arg in known if arg.required and arg.name not in values]
    if missing:
        raise ConfigError(f'{cls.__name__} needs {", ".join(missing)}: give each as '
                          '--param NAME=VALUE')
    return cast(Part, cls(**{
        arg.name: values[arg.name] if arg.name == CLOCK else fitted(cls, arg, values[arg.name])
        for arg in known if arg.name in values}))


def _known(values: Mapping[str, Any], names: tuple[str, ...], backend: str) -> None:
    for name in values:
        if name not in names:
            raise ConfigError(f"the backend {backend} has no parameter '{name}'."
                              f'{nearest(name, names)}')


@contextmanager
def _simulated(kind: str, values: Mapping[str, Any]) -> Iterator[AnyRig]:
    from arena_robot.drivers.sim.station import SimStation
    camera = kind == 'camera'
    _known(values, ('task', 'robot', *(('role',) if camera else ())), 'sim')
    role = _role(values) if camera else ''
    station = SimStation.make(str(values.get('task', 'do_not_move')),
                              robot=str(values.get('robot', 'panda')),
                              cameras=(role,) if camera else ())
    part = station.cameras[role] if camera else station.arm if kind == 'arm' else station.gripper
    trips = {'arm': lambda: station.arm.inject(RobotMode.REFLEX),
             'gripper': lambda: station.gripper.inject(8)}
    options: dict[str, Any] = {'own_rate': True} if camera else {}
    if kind == 'arm':
        options = {'joints': (), 'withheld': {}, 'robot': station.robot}
    start = station.save()

    def mend() -> None:
        station.world.faults.dead.clear()
        station.restore(start)

    if camera:    # it takes pictures by itself; what moves is stepped, faster than real time
        station.world.start()
    try:
        yield _rig(kind, part, station.clock, trip=trips.get(kind), mend=mend, harmless=True,
                   silence=lambda: station.world.faults.dead.add(role or kind), **options)
    finally:
        station.close()


def _replayed(kind: str, values: Mapping[str, Any]) -> AnyRig:
    from arena_robot.drivers.replay import open_recorded, replayed
    camera = kind == 'camera'
    _known(values, ('folder', *(('role', 'focal') if camera else ())), 'replay')
    if 'folder' not in values:
        raise ConfigError('the backend replay needs --param folder=DIR, an episode folder')
    role, clock = _role(values) if camera else '', SystemClock()
    player = open_recorded(str(values['folder']), clock)
    part = replayed(kind, player, role, float(values.get('focal', 0.414)))
    moving = {'arm': ARM_MOTIONS, 'gripper': GRIPPER_MOTIONS}.get(kind, ())
    withheld = {check.__name__: _PLAYED for check in moving}
    if camera:
        withheld['eyes_differ_by_the_baseline'] = _NO_GEOMETRY
        if not all(view(role, eye) in player.recorded.views for eye in EYES):
            withheld['eyes_have_one_stamp_and_the_promised_size'] = _ONE_EYE

    def silence() -> None:
        player.offset_ns = clock.now_ns() - player.recorded.end_ns

    return _rig(kind, part, clock, silence=silence, mend=player.rewind, harmless=True,
                withheld=withheld)


def _role(values: Mapping[str, Any]) -> str:
    role = str(values.get('role', 'left'))
    if role not in ROLES:
        raise ConfigError(f"no camera role '{role}'.{nearest(role, ROLES)}")
    return role
