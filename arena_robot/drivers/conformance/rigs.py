"""A rig around the driver that a backend names, with the parameters that were given."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import EYES, ROLES, RobotMode, view
from arena_robot.drivers.arguments import CLOCK, arguments, check_names, fitted
from arena_robot.drivers.base import Arm, Camera, Gripper, Part
from arena_robot.drivers.conformance.arm import MOTIONS as ARM_MOTIONS
from arena_robot.drivers.conformance.gripper import MOTIONS as GRIPPER_MOTIONS
from arena_robot.drivers.conformance.rig import AnyRig, ArmRig, CameraRig, GripperRig
from arena_robot.drivers.table import GRIPPER_MODELS, driver

_FAR = {'far_target_is_clipped': 'a real arm is not asked for a target out of reach'}
_PLAYED = 'a recording does not move'
_NO_GEOMETRY = 'a recording does not hold the geometry of its cameras'
_ONE_EYE = 'only one eye of this camera was recorded'
_WRIST = 6


@contextmanager
def driver_rig(kind: str, backend: str, params: Mapping[str, Any] | None = None,
               ) -> Iterator[AnyRig]:
    """
    Make the part that ``backend`` names, not yet open, and end what it needs afterwards.

    ``params`` are arguments of the driver's constructor; of ``sim``: task, robot and, of a camera,
    role; of ``replay``: folder and, of a camera, role and focal; of a gripper also its
    ``gripper_type``. Raises ConfigError.
    """
    made = driver(kind, backend)
    values = dict(params or {})
    options: dict[str, Any] = {}
    if kind == 'gripper' and 'gripper_type' in values:
        options['model'] = GRIPPER_MODELS.find(str(values.pop('gripper_type')))
    if backend == 'sim':
        with _simulated(kind, values) as rig:
            yield rig
    elif backend == 'replay':
        yield _replayed(kind, values)
    else:
        clock = SystemClock()
        yield _rig(kind, _made(made, values, clock), clock, **options)


def _rig(kind: str, part: Part, clock: Clock, **options: Any) -> AnyRig:
    if kind == 'camera':
        return CameraRig(cast(Camera, part), clock, **options)
    if kind == 'gripper':
        return GripperRig(cast(Gripper, part), clock, **options)
    options = {'withheld': _FAR, 'joints': (_WRIST,), **options}
    return ArmRig(cast(Arm, part), clock, **options)


def _made(found: type[Any], values: dict[str, Any], clock: Clock) -> Part:
    """Return the part as a node makes it. Raises ConfigError."""
    check_names(found, values)
    known = arguments(found)
    if any(one.name == CLOCK for one in known):
        values = {CLOCK: clock, **values}
    missing = [one.name for one in known if one.required and one.name not in values]
    if missing:
        raise ConfigError(f'{found.__name__} needs {", ".join(missing)}: give each as '
                          '--param NAME=VALUE')
    return cast(Part, found(**{
        one.name: values[one.name] if one.name == CLOCK else fitted(found, one, values[one.name])
        for one in known if one.name in values}))


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
        options = {'joints': tuple(range(7)), 'withheld': {}}
    start = station.save()

    def mend() -> None:
        station.world.faults.dead.clear()
        station.restore(start)

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
