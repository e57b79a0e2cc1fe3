"""sim_station: a whole DROID station in one process, all nodes with one simulated world."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock as ClockMessage
from std_msgs.msg import Bool, Float64, String
from std_srvs.srv import Trigger

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ArenaError, ConfigError
from arena_robot.core.observation import EYES, ROLES
from arena_robot.drivers.sim.camera import SimCamera
from arena_robot.drivers.sim.parts import SimArm
from arena_robot.drivers.sim.station import SavedState, SimStation, read_start, write_start
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.nodes.arm.node import ArmNode
from arena_robot.nodes.camera import CameraNode
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib import convert, diagnostics, qos
from arena_robot.nodes.lib.calls import answering
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import (
    ANY,
    Current,
    Parameters,
    declare,
    param,
    refuse_unknown,
)
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import ROBOT_TYPE, PartParams
from arena_robot.nodes.lib.spin import Spin, run_with
from arena_robot.nodes.lib.timeline import STEADY, SameTime, ShiftedTime, Timeline
from arena_robot.nodes.simulation.governor import Governor
from arena_robot.robots.arms import Robot
from arena_robot.robots.cameras import STYLE_OF, CameraKind
from arena_robot.safety.limits import robot_of
from arena_robot.safety.urdf import CameraMount

MakeParts = Callable[['SimStationNode'], Sequence[PartNode[PartParams]]]


@dataclass(frozen=True, kw_only=True)
class SimParams(Parameters):
    """The parameters of sim_station."""

    task: str = param(
        'cube_in_bowl', 'scene to set up; ~/reset_scene reads it again', live=ANY)
    seed: int = param(
        0, 'variation of the scene; ~/reset_scene reads it again', 0, 2**31 - 1, live=ANY)
    robot_type: str = param('panda', ROBOT_TYPE)
    image_width: int = param(512, 'width of every image', 16, 1280, unit='px')
    image_height: int = param(288, 'height of every image', 16, 720, unit='px')
    camera_rate: float = param(15.0, 'frames published', 1.0, 60.0, unit='Hz')
    cameras: tuple[str, ...] = param(
        ROLES, 'roles of the cameras that exist, of those of the embodiment', choices=ROLES)
    eyes: tuple[str, ...] = param(
        EYES, "eyes that are rendered; ['left'] saves half the time", choices=EYES)
    beauty: bool = param(False, 'shadows and smooth edges; slow')
    real_time_factor: float = param(
        1.0, 'simulated per real second; 0: as fast as possible', 0.0, 100.0)
    give_way: bool = param(
        True, 'with /clock: run slower while commands arrive late or steps see old pictures, as '
        'when the machine is too busy for real_time_factor')
    publish_clock: bool = param(
        False, 'publish /clock; needed when real_time_factor is not 1')
    clock_rate: float = param(
        125.0, 'messages on /clock, in simulated time', 1.0, 250.0, unit='Hz')
    restore_mm: float = param(
        0.0, 'position error (standard deviation) of ~/restore_start', 0.0, 100.0,
        unit='mm', live=ANY)
    restore_deg: float = param(
        0.0, 'angle error (standard deviation) of ~/restore_start', 0.0, 180.0, unit='deg',
        live=ANY)
    start_file: str = param(
        '', 'file that keeps the saved start, for a node that is started again; empty: none')
    progress_rate: float = param(10.0, 'messages on ~/progress', 0.1, 50.0, unit='Hz')

    def __post_init__(self) -> None:
        robot_of(self.robot_type)


class SimStationNode(Listening):
    """
    Node of the simulated world: scenes, saved starts, the oracle's progress, and ``/clock``.

    ``make_parts`` gets the node, once its world is made, and returns the nodes of its parts.
    """

    def __init__(self, name: str = 'sim_station', *, make_parts: MakeParts,
                 **options: Any) -> None:
        super().__init__(name, **options)
        self._current = Current(self, declare(self, SimParams()),
                                check=lambda values: TASKS.find(values.task))
        refuse_unknown(self)
        v = self.params
        if v.real_time_factor != 1.0 and not v.publish_clock:
            raise ConfigError(f'real_time_factor {v.real_time_factor:g} needs publish_clock: '
                              'true, and use_sim_time: true in the nodes of other processes')
        self.station = SimStation.make(
            v.task, v.seed, v.robot_type, cameras=v.cameras, eyes=v.eyes,
            size=(v.image_width, v.image_height),
            rate_hz=v.camera_rate, epoch_ns=SystemClock().now_ns(), beauty=v.beauty)
        world = self.station.world
        self.timeline = self._timeline()
        self.parts = tuple(make_parts(self))
        self._saved: SavedState | None = None
        self._start_file = Path(v.start_file).expanduser() if v.start_file else None
        self._restores = 0
        self._offer()
        if v.publish_clock:
            self._ticks = qos.publisher(self, ClockMessage, '/clock', qos.CLOCK)
            self._clock_due_ns = 0
            world.on_tick.append(self._on_tick)
            if v.give_way and v.real_time_factor > 0.0:
                self._governor = Governor(self, world, v.real_time_factor)

    @property
    def params(self) -> SimParams:
        """The parameters; those that may change while the node runs, as they are now."""
        return self._current.values

    def _timeline(self) -> Timeline:
        """Return simulated time as ROS time with /clock, else shifted to wall time."""
        world = self.station.world
        if self.params.publish_clock:
            return SameTime(world.clock)
        shifted = ShiftedTime(world.clock, SystemClock())
        world.on_tick.append(shifted.tick)
        return shifted

    def run(self) -> None:
        """Start simulated time."""
        self.station.world.start(self.params.real_time_factor or None)

    def close(self) -> None:
        """End the world; the parts' nodes are closed before."""
        self.station.close()

    # -- services and topics -----------------------------------------------------------------

    def _offer(self) -> None:
        self._progress = qos.publisher(self, Float64, '~/progress')
        self._potential = qos.publisher(self, Float64, '~/potential')
        self._success = qos.publisher(self, Bool, '~/success')
        self._words = qos.publisher(self, String, '~/instruction', qos.LATCHED)
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        self._words.publish(String(data=self.station.instruction))
        group = MutuallyExclusiveCallbackGroup()
        for name, work in (('reset_scene', self._reset), ('save_start', self._save),
                           ('restore_start', self._restore)):
            self.create_service(Trigger, f'~/{name}', answering(name, work),
                                callback_group=group)
        self.create_timer(1.0 / self.params.progress_rate, self._publish_progress,
                          clock=STEADY)
        self.create_timer(1.0, self._report, clock=STEADY)
        self._last = (self.timeline.now_ns(), SystemClock().steady_ns())

    def _reset(self, *_: Any) -> str:
        now = self.params
        self._drop_commands()
        self.station.reset(now.task, now.seed)
        self._saved = None
        if self._start_file is not None:
            self._start_file.unlink(missing_ok=True)
        self._words.publish(String(data=self.station.instruction))
        return self.station.instruction

    def _save(self, *_: Any) -> str:
        self._saved = self.station.save()
        if self._start_file is not None:
            write_start(self._start_file, self.station.kept(self._saved))
        return 'saved'

    def _load(self) -> SavedState:
        """Set up the start that was saved before the node was started again."""
        start = read_start(self._start_file) if self._start_file is not None else None
        if start is None:
            raise ArenaError('no start was saved: call ~/save_start first')
        self._drop_commands()
        saved = self.station.load(start)
        self._words.publish(String(data=self.station.instruction))
        return saved

    def _restore(self, *_: Any) -> str:
        self._saved = self._saved or self._load()
        now = self.params
        self._restores += 1
        self._drop_commands()
        self.station.restore(self._saved, moved_mm=now.restore_mm, turned_deg=now.restore_deg,
                             seed=self._restores)
        return f'restored to {now.restore_mm:g} mm and {now.restore_deg:g} deg'

    def _drop_commands(self) -> None:
        for part in self.parts:
            if part.active:
                part.on_hold()

    def _publish_progress(self) -> None:
        self._progress.publish(Float64(data=float(self.station.progress())))
        self._potential.publish(Float64(data=self.station.potential()))
        self._success.publish(Bool(data=bool(self.station.succeeded())))

    def _report(self) -> None:
        world, before = self.station.world, self._last
        self._last = (world.now_ns(), SystemClock().steady_ns())
        factor = (self._last[0] - before[0]) / max(self._last[1] - before[1], 1)
        wanted = self.params.real_time_factor
        slow = wanted > 0.0 and factor < 0.9 * wanted
        self._reports.publish(diagnostics.report(self.timeline.now_ns(), diagnostics.status(
            self, 'simulation', 'sim', diagnostics.WARN if slow else diagnostics.OK,
            'slower than asked' if slow else 'running',
            {'real time factor': f'{factor:.2f}', 'asked': f'{wanted:g}',
             'time lost (s)': f'{world.lag_s:.2f}', 'task': self.station.task.name})))

    def _on_tick(self) -> None:
        now_ns = self.station.world.now_ns()
        if now_ns >= self._clock_due_ns:
            self._clock_due_ns = now_ns + round(1e9 / self.params.clock_rate)
            self._ticks.publish(ClockMessage(clock=convert.time_of(now_ns)))


def part_nodes(owner: SimStationNode) -> Sequence[PartNode[PartParams]]:
    """Return the nodes of a simulated station's parts, in its process and its time."""
    station, timeline, context = owner.station, owner.timeline, owner.context
    robot = [Parameter('robot_type', value=owner.params.robot_type), *_workspace(station.robot),
             *([Parameter('gripper_type', value='')] if station.world.scene.spec.gripper else [])]
    arm: ArmNode = ArmNode(make_part=lambda: SimArm(station.world, arm.params.command_timeout),
                  timeline=timeline, context=context, parameter_overrides=robot)
    gripper = GripperNode(make_part=lambda: station.gripper, timeline=timeline, context=context)
    cameras = [CameraNode(
        f'{role}_camera', mount_of=partial(_mount, camera, arm), timeline=timeline,
        make_part=lambda camera=camera: camera, context=context, parameter_overrides=[
            Parameter('role', value=role),
            Parameter('pub_frame_rate', value=owner.params.camera_rate), *_style(camera)])
        for role, camera in station.cameras.items()]
    return [arm, gripper, *cameras]


def _workspace(robot: Robot) -> list[Parameter]:
    """Return the workspace of an embodiment: the station file has that of a Franka."""
    names = ('workspace_lower', 'workspace_upper', 'elbow_lower', 'elbow_upper')
    return [Parameter(f'limits.{name}', value=list(getattr(robot.limits, name)))
            for name in names if robot.own_joints]


def _style(camera: SimCamera) -> list[Parameter]:
    """Return the topic names of a camera that has not both eyes."""
    return [Parameter('topic_style', value=STYLE_OF[camera.kind])
            for _ in range(camera.kind is not CameraKind.STEREO)]


def _mount(camera: SimCamera, arm: ArmNode) -> CameraMount:
    on_flange, pose = camera.mount()
    return CameraMount(arm.flange_frame if on_flange else arm.link0, pose)


def compose(spin: Spin) -> SimStationNode:
    """Build the station and the nodes of its parts, start time, and spin them all."""
    owner = SimStationNode(make_parts=part_nodes, context=spin.context)
    owner.run()
    for part in owner.parts:
        if part.params.autostart:
            part.start()
        spin.add(part, threads=4 if isinstance(part, ArmNode | GripperNode) else 1)
    spin.add(owner, threads=2)
    return owner


def main(args: Sequence[str] | None = None) -> int:
    """Run the simulated station until it is interrupted."""
    return run_with(compose, args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
