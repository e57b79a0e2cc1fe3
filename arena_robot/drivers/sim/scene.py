"""Assemble arm, gripper, room, cameras and a task's props into one MuJoCo model."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from arena_robot.core.observation import ROLES
from arena_robot.drivers.sim.arm_model import (
    ArmModel,
    add_arm,
    add_followers,
    add_model,
    add_servos,
)
from arena_robot.drivers.sim.gripper_model import (
    Fingers,
    add_finger_servos,
    add_gripper,
    add_own_hand,
    add_own_servos,
    add_wrist_camera,
)
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.drivers.sim.props import Prop
from arena_robot.drivers.sim.room_model import (
    Look,
    add_eyes,
    add_room,
    add_tripod_camera,
    floor_png,
    look_for,
    wood_png,
)
from arena_robot.robots.arms import Robot
from arena_robot.safety.embodiments import GripperPart

_MATERIALS: dict[str, tuple[tuple[float, float, float], float, float]] = {
    'arm_white': ((0.93, 0.93, 0.925), 0.35, 0.4), 'arm_grey': ((0.62, 0.63, 0.64), 0.3, 0.4),
    'arm_blue': ((0.1, 0.45, 0.85), 0.3, 0.3), 'dark': ((0.13, 0.13, 0.135), 0.25, 0.3),
    'metal': ((0.62, 0.63, 0.65), 0.6, 0.6), 'metal_dark': ((0.2, 0.205, 0.215), 0.4, 0.4),
    'pad': ((0.2, 0.2, 0.21), 0.05, 0.1), 'bracket': ((0.16, 0.16, 0.17), 0.1, 0.2),
    'zed': ((0.11, 0.115, 0.125), 0.5, 0.6), 'lens': ((0.02, 0.02, 0.05), 0.9, 0.9),
    'wall': ((0.86, 0.85, 0.82), 0.0, 0.0), 'board': ((0.97, 0.97, 0.96), 0.1, 0.1),
    'shelf': ((0.72, 0.60, 0.44), 0.1, 0.1),
    'plain': ((0.5, 0.5, 0.5), 0.12, 0.3),
}


@dataclass(frozen=True)
class SceneSpec:
    """
    What to build: the arm, the props, and the seed of the look; ``beauty`` adds shadows.

    ``arm`` is the model of an embodiment's arm; None: a Franka.
    """

    robot: Robot
    props: tuple[Prop, ...] = ()
    seed: int = 0
    step_s: float = 0.001
    beauty: bool = False
    arm: ArmModel | None = None

    @property
    def gripper(self) -> GripperPart | None:
        """The gripper whose fingers are the model's; None: a 2F-85."""
        return self.arm.gripper if self.arm else None

    @property
    def fingers(self) -> Fingers:
        """The joints of the gripper."""
        return Fingers.of(self.gripper) if self.gripper else Fingers()


@dataclass(frozen=True)
class CompiledScene:
    """A compiled model with the spec and look it was built from."""

    spec: SceneSpec
    model: mujoco.MjModel = field(repr=False)
    look: Look = field(repr=False)


def build_scene(spec: SceneSpec) -> CompiledScene:
    """Compile a scene; the same spec gives the same model."""
    rng = np.random.default_rng((spec.seed, 7))
    look = look_for(rng)
    root = Node.root('mujoco', model='droid_station')
    _options(root, spec)
    assets, files = _assets(root, spec, look), dict[str, bytes]()
    world = root.add('worldbody')
    for role in ('left', 'right'):
        add_eyes(add_tripod_camera(world, role, getattr(look, role)), role)
    flange = (add_model(world, assets, spec.robot, spec.arm, files) if spec.arm
              else add_arm(world, spec.robot))
    hand = add_own_hand(flange, spec.gripper) if spec.gripper else add_gripper(flange)
    wrist = add_wrist_camera(hand)
    tilt = look.wrist_tilt
    wrist.element.set('xyaxes', f'0 1 0 {np.cos(tilt):.9g} 0 {np.sin(tilt):.9g}')
    add_eyes(wrist, ROLES[2])
    add_servos(root, spec.robot)
    if spec.arm:
        add_followers(root, spec.arm)
    if spec.gripper:
        add_own_servos(root, spec.fingers)
    else:
        add_finger_servos(root)
    for prop in spec.props:
        prop.build(root, world)
    add_room(world, look)
    files |= {'wood.png': wood_png(rng, look.wood), 'floor.png': floor_png(rng, look.floor)}
    return CompiledScene(spec, mujoco.MjModel.from_xml_string(root.xml(), files), look)


def _options(root: Node, spec: SceneSpec) -> None:
    root.add('compiler', angle='radian', balanceinertia=True, autolimits=True)
    root.add('option', timestep=spec.step_s, integrator='implicitfast', cone='elliptic',
             impratio=5, iterations=60, ls_iterations=50).add('flag', sleep='enable')
    root.add('size', memory='8M')
    root.add('statistic', extent=1, center=(0.4, 0, 0.2))
    visual = root.add('visual')
    visual.add('global', offwidth=1280, offheight=720)
    visual.add('quality', shadowsize=4096 if spec.beauty else 0,
               offsamples=8 if spec.beauty else 0)
    visual.add('headlight', ambient=(0.34, 0.34, 0.35), diffuse=(0.12, 0.12, 0.12),
               specular=(0, 0, 0))
    visual.add('map', znear=0.01, zfar=12, shadowclip=2.2)
    top = root.add('default')
    _default(top, 'visual', contype=0, conaffinity=0, group=2, mass=0)
    _default(top, 'arm', contype=1, conaffinity=0, mass=0, friction=(0.5, 0.005, 0.0001))
    _default(top, 'finger', contype=1, conaffinity=0, mass=0, friction=(0.8, 0.01, 0.0005))
    _default(top, 'pad', contype=1, conaffinity=0, mass=0, condim=6, priority=1,
             friction=(1.6, 0.03, 0.002), solimp=(0.97, 0.99, 0.001), solref=(0.006, 1))
    _default(top, 'fixed', contype=0, conaffinity=1, friction=(0.8, 0.01, 0.0005))
    _default(top, 'prop', material='plain', contype=1, conaffinity=1, condim=4,
             friction=(0.8, 0.01, 0.0005))


def _default(top: Node, name: str, **geom: str | float | tuple[float, ...]) -> None:
    top.add('default', class_=name).add('geom', **geom)


def _assets(root: Node, spec: SceneSpec, look: Look) -> Node:
    assets = root.add('asset')
    assets.add('texture', name='sky', type='skybox', builtin='gradient', rgb1=(0.86, 0.88, 0.9),
               rgb2=(0.7, 0.71, 0.72), width=64, height=384)
    assets.add('texture', name='wood', type='2d', file='wood.png')
    assets.add('material', name='wood', texture='wood', texrepeat=(1.2, 1.2), texuniform=True,
               specular=0.15, shininess=0.2)
    if spec.beauty:
        assets.add('texture', name='floor', type='2d', file='floor.png')
        assets.add('material', name='floor', texture='floor', texrepeat=(0.8, 0.8),
                   texuniform=True, specular=0.0)
    else:  # a textured floor costs a third of a small picture's time
        assets.add('material', name='floor', rgba=(*look.floor, 1), specular=0.0)
    for name, (rgb, specular, shininess) in _MATERIALS.items():
        assets.add('material', name=name, rgba=(*rgb, 1), specular=specular,
                   shininess=shininess, emission=0.32 if name in ('wall', 'board') else 0)
    return assets
