"""
The arm's MJCF: a Franka of primitive shapes, or the arm of an embodiment's model.

A Franka has its published kinematics and inertias. Of a model in MJCF or URDF everything from the
arm's base on is built; what hangs on the tool's body only where the embodiment names the joints
of the model's own fingers, else a 2F-85 takes its place. Other joints are locked. Only what lies
behind the elbow can touch things.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from functools import cache
from math import cos, sin
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import FINGERS, Fingers
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.arms import (
    FRANKA_DH,
    FRANKA_FLANGE_M,
    FRICTION,
    ROBOTS,
    ROTORS,
    Robot,
)
from arena_robot.safety.embodiments import GripperPart, part_of
from arena_robot.safety.kinematics import rotation_of
from arena_robot.safety.models import ArmPart, model_path, urdf_spec

JOINTS = tuple(f'joint{i}' for i in range(1, 8))
TASK_TENDONS = tuple(f'task{i}' for i in range(6))
FLANGE_SITE = 'flange'
# Of a model what the scene has no use for, or has itself; with meshes that MuJoCo cannot read.
LEFT_OUT = ('actuators', 'sensors', 'keys', 'equalities', 'tendons', 'skins', 'pairs', 'excludes',
            'cameras', 'lights', 'textures')
SHAPES = ('sphere', 'capsule', 'ellipsoid', 'cylinder', 'box', 'mesh')
# Where a model says nothing: the mass (kg) of a link and its radius of gyration (m), the inertia
# of a rotor behind its gear (kg m², kg of a slide), and the radius (m) of a link without shape.
LINK_KG, GYRATION_M, ROTOR, ROD_M = 0.3, 0.05, (0.05, 1.0), 0.03
# Of a mesh the faces that are drawn as they are, and the grid (m) that larger ones are coarsened
# to, a pixel of an outside camera whose pictures are 512 wide; and the corners of a hull.
FACES, GRID_M, HULL = 2000, 0.004, 32
# The bandwidth (rad/s) below which a finger's servo keeps, however light the finger is.
FINGER_RAD_S = 100.0
# How far (rad or m) behind a joint's limit it meets its stop: a target may be at the limit, and
# the stop's force would be a collision.
SLACK = 0.05
BLOCK_M = 0.06      # half the width of the block below an arm that stands above the table
FAINT = 1e-6        # less mass (kg) or inertia is that of a placeholder
HIDDEN = 4          # a group of geoms that is not drawn: shapes that collide beside drawn ones

# Per link: (kind, material, size, from, to) in the link's frame; 'hit' capsules also collide.
_SHAPES: tuple[tuple[tuple[Any, ...], ...], ...] = (
    (('cylinder', 'arm_white', 0.062, (0, 0, -0.195), (0, 0, -0.075)),
     ('cylinder', 'arm_grey', 0.0635, (0, 0, -0.193), (0, 0, -0.183)),
     ('capsule', 'arm_white', 0.061, (0, 0, -0.09), (0, 0, -0.02)),
     ('cylinder', 'arm_white', 0.062, (0, -0.055, 0), (0, 0.055, 0))),
    (('cylinder', 'arm_white', 0.061, (0, 0, 0.052), (0, 0, 0.078)),
     ('cylinder', 'arm_grey', 0.046, (0, 0, 0.078), (0, 0, 0.083)),
     ('cylinder', 'arm_white', 0.061, (0, 0, -0.078), (0, 0, -0.052)),
     ('cylinder', 'arm_grey', 0.046, (0, 0, -0.083), (0, 0, -0.078)),
     ('capsule', 'arm_white', 0.058, (0, -0.05, 0), (0, -0.12, 0)),
     ('cylinder', 'arm_white', 0.060, (0, -0.10, 0), (0, -0.19, 0)),
     ('cylinder', 'arm_grey', 0.0605, (0, -0.182, 0), (0, -0.192, 0))),
    (('cylinder', 'arm_white', 0.060, (0, 0, -0.122), (0, 0, -0.06)),
     ('capsule', 'arm_white', 0.054, (0.005, 0, -0.07), (0.0825, 0, -0.012)),
     ('cylinder', 'arm_white', 0.055, (0.0825, -0.05, 0), (0.0825, 0.05, 0))),
    (('cylinder', 'arm_white', 0.054, (0, 0, 0.05), (0, 0, 0.074)),
     ('cylinder', 'arm_grey', 0.040, (0, 0, 0.074), (0, 0, 0.079)),
     ('cylinder', 'arm_white', 0.054, (0, 0, -0.074), (0, 0, -0.05)),
     ('cylinder', 'arm_grey', 0.040, (0, 0, -0.079), (0, 0, -0.074)),
     ('capsule', 'arm_white', 0.052, (-0.01, 0.02, 0), (-0.0825, 0.075, 0)),
     ('cylinder', 'arm_white', 0.056, (-0.0825, 0.062, 0), (-0.0825, 0.122, 0)),
     ('cylinder', 'arm_grey', 0.0565, (-0.0825, 0.114, 0), (-0.0825, 0.124, 0))),
    (('cylinder', 'arm_white', 0.056, (0, 0, -0.26), (0, 0, -0.20)),
     ('capsule', 'arm_white', 0.052, (0, 0.004, -0.215), (0, 0.055, -0.10), 'hit'),
     ('capsule', 'arm_white', 0.043, (0, 0.066, -0.12), (0, 0.05, -0.01), 'hit'),
     ('cylinder', 'arm_white', 0.048, (0, -0.02, 0), (0, 0.072, 0))),
    (('cylinder', 'arm_white', 0.047, (0, 0, -0.048), (0, 0, 0.016), 'hit'),
     ('cylinder', 'arm_grey', 0.036, (0, 0, 0.016), (0, 0, 0.022)),
     ('capsule', 'arm_white', 0.044, (0.02, 0, 0), (0.088, 0, 0), 'hit'),
     ('cylinder', 'arm_white', 0.047, (0.088, -0.052, 0), (0.088, 0.045, 0))),
    (('cylinder', 'arm_white', 0.045, (0, 0, 0.05), (0, 0, 0.082), 'hit'),
     ('cylinder', 'arm_grey', 0.0315, (0, 0, 0.082), (0, 0, 0.107)),
     ('capsule', 'arm_white', 0.013, (0.038, 0.0, 0.066), (0.058, 0.0, 0.066)),
     ('cylinder', 'arm_blue', 0.006, (0.062, 0.0, 0.066), (0.072, 0.0, 0.066))),
)


def add_arm(world: Node, robot: Robot) -> Node:
    """Add base and seven links below ``world``; return the flange body (``link8``)."""
    base = world.add('body', name='link0')
    for kind, material, size, a, b in (
            ('cylinder', 'arm_white', 0.066, (0, 0, 0.004), (0, 0, 0.138)),
            ('cylinder', 'arm_grey', 0.0675, (0, 0, 0.126), (0, 0, 0.136)),
            ('capsule', 'arm_white', 0.055, (-0.005, 0, 0.055), (-0.085, 0, 0.055)),
            ('cylinder', 'arm_grey', 0.085, (0, 0, 0), (0, 0, 0.014))):
        base.add('geom', class_='visual', type=kind, material=material, size=[size],
                 fromto=(*a, *b))
    base.add('geom', class_='visual', type='box', material='arm_grey', size=(0.075, 0.07, 0.007),
             pos=(-0.07, 0, 0.007))
    body = base
    for i in range(7):
        body = _link(body, robot, i)
    flange = body.add('body', name='link8', pos=(0, 0, FRANKA_FLANGE_M))
    flange.add('site', name=FLANGE_SITE, size=[0.004], rgba=(0, 0, 0, 0))
    return flange


def _link(parent: Node, robot: Robot, i: int) -> Node:
    a, d, alpha = FRANKA_DH[i]
    body = parent.add('body', name=f'link{i + 1}', gravcomp=1,
                      pos=(a, -sin(alpha) * d, cos(alpha) * d),
                      quat=(cos(alpha / 2), sin(alpha / 2), 0, 0))
    link = robot.links[i]
    body.add('inertial', mass=link.mass, pos=link.com, fullinertia=link.inertia)
    tau = robot.joint_torque[i]
    span = robot.limits.hardware_lower[i], robot.limits.hardware_upper[i]
    body.add('joint', name=JOINTS[i], axis=(0, 0, 1), range=span,
             armature=ROTORS[i], damping=FRICTION, actuatorfrcrange=(-tau, tau))
    for kind, material, size, start, end, *hit in _SHAPES[i]:
        body.add('geom', class_='arm' if hit else 'visual', type=kind, material=material,
                 size=[size], fromto=(*start, *end))
    return body


def joint_names(robot: Robot) -> tuple[str, ...]:
    """Return the names (n,) of the arm's joints in a scene."""
    return tuple(f'arm_{name}' for name in robot.own_joints) or JOINTS


def base_of(robot_type: str) -> tuple[ArmPart, Path, tuple[GripperPart, ...]] | None:
    """Return arm, model file and own grippers of an embodiment; None for a Franka."""
    if robot_type in ROBOTS:
        return None
    part, _, folder, grippers = part_of(robot_type)
    return None if part.robot else (part, model_path(part.model, folder), grippers)


def add_servos(root: Node, robot: Robot) -> None:
    """
    Add a servo for each joint and six task-space servos.

    The task-space ones act through fixed tendons whose coefficients the controller sets to the
    rows of the flange Jacobian, so that MuJoCo itself evaluates the hybrid law at every step.
    """
    tendons, actuators = root.add('tendon'), root.add('actuator')
    joints = joint_names(robot)
    for name in TASK_TENDONS:
        fixed = tendons.add('fixed', name=name)
        for joint in joints:
            fixed.add('joint', joint=joint, coef=1)
    for name in joints:
        actuators.add('general', name=name, joint=name, gainprm=(1, 0, 0), biastype='affine',
                      biasprm=(0, -1, -1))
    for name in TASK_TENDONS:
        actuators.add('general', name=name, tendon=name, gainprm=(1, 0, 0), biastype='affine',
                      biasprm=(0, -1, -1))


@dataclass(frozen=True)
class ArmModel:
    """
    A compiled model, its arm, and the bodies that are built: of each its number and parent.

    ``gripper`` is the one at the tool whose fingers the model has; None: a 2F-85 takes its place.
    Of ``hands``, those of other arms, the first finger is a joint of the arm.
    """

    part: ArmPart
    model: mujoco.MjModel = field(repr=False)
    bodies: tuple[tuple[int, int], ...]
    tool: int
    tool_pose: tuple[Floats, Floats]
    gripper: GripperPart | None = None
    hands: tuple[GripperPart, ...] = ()

    @property
    def followers(self) -> dict[str, tuple[str, float, float]]:
        """Of each second finger the first one, and a and b of its place a + b times that one's."""
        out = {}
        for hand in (hand for hand in self.hands if len(hand.joints) == 2):
            (first, second), (closed, shut), (opened, wide) = (
                hand.joints, hand.closed_at, hand.open_at)
            slope = (wide - shut) / (opened - closed)
            out[second] = first, shut - slope * closed, slope
        return out

    def _moved_by(self, body: int) -> list[str]:
        first = int(self.model.body_jntadr[body])
        return [self.model.joint(first + i).name for i in range(self.model.body_jntnum[body])]

    def grips(self, body: int) -> bool:
        """Return whether a body is a finger of another arm's hand."""
        return any(joint in hand.joints for hand in self.hands for joint in self._moved_by(body))

    def name(self, body: int) -> str:
        """Return the name of a body in a scene, which of a finger is that of its joint."""
        of = self._moved_by(body)
        own = self.gripper.joints if self.gripper else ()
        fingers = [FINGERS[own.index(joint)] for joint in of if joint in own]
        return fingers[0] if fingers else f'arm_{self.model.body(body).name}'


@cache
def read_model(part: ArmPart, path: Path, grippers: tuple[GripperPart, ...] = ()) -> ArmModel:
    """Return an embodiment's arm with its shapes and masses. Raises ConfigError."""
    hands = tuple(hand for hand in grippers if hand.joints[0] in part.joints)
    gripper = next((hand for hand in grippers if hand not in hands), None)
    try:
        spec = urdf_spec(path) if path.suffix == '.urdf' else _mjcf(path)
        for mesh in spec.meshes if path.suffix == '.urdf' else ():
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL   # some have no volume
        for kind in LEFT_OUT:
            for element in list(getattr(spec, kind)):
                spec.delete(element)
        spec.compiler.fusestatic = spec.compiler.discardvisual = False
        spec.compiler.boundmass = spec.compiler.boundinertia = 1e-9
        model = spec.compile()
    except (ValueError, ET.ParseError, mujoco.FatalError) as error:
        raise ConfigError(f'MuJoCo cannot simulate {path}: {error}') from error
    tool = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, part.tool)
    pose = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    if tool < 0:
        site = model.site(part.tool)
        tool, pose = int(site.bodyid[0]), (site.pos, site.quat)
    base = model.body(part.base).id
    bodies = [(base, base)]
    # Of what stands in the model's world, only that on which the arms do.
    roots = {int(model.body_rootid[model.joint(name).bodyid[0]]) for name in part.joints}
    for child in range(base + 1, model.nbody):
        parent = int(model.body_parentid[child])
        if (gripper or parent != tool) and parent in dict(bodies) and (parent or child in roots):
            bodies.append((child, parent))
    return ArmModel(part, model, tuple(bodies), tool, pose, gripper, hands)


def _mjcf(path: Path) -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(str(path))
    folder = path.parent / spec.meshdir
    gone = {mesh.name or Path(mesh.file).stem for mesh in spec.meshes
            if mesh.file and not (folder / mesh.file).is_file()}
    for geom in list(spec.geoms):
        if geom.meshname in gone:
            spec.delete(geom)
    for mesh in list(spec.meshes):
        if (mesh.name or Path(mesh.file).stem) in gone:
            spec.delete(mesh)
    for material in spec.materials:
        material.textures = [''] * len(material.textures)
    return spec


def add_model(world: Node, assets: Node, robot: Robot, made: ArmModel,
              files: dict[str, bytes]) -> Node:
    """Add an embodiment's arm below ``world``, its meshes to ``files``; return the flange body."""
    model, place = made.model, made.part.base_pose
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, rotation_of(np.array(place[3:])).ravel())
    nodes: dict[int, Node] = {}
    elbows = [int(model.joint(robot.own_joints[i]).bodyid[0]) for i in robot.limits.chain.elbows]
    behind = set(elbows)
    shaped = any(_is_shape(model, geom) for body, _ in made.bodies
                 for geom in _geoms(model, body))
    for body, parent in made.bodies:
        behind |= {body} if parent in behind else set()
        if body == parent:
            node = world.add('body', name=f'arm_{made.part.base}', pos=place[:3], quat=quat)
        else:
            node = nodes[parent].add('body', name=made.name(body), gravcomp=1,
                                     pos=model.body_pos[body], quat=model.body_quat[body])
            _inertial(node, model, body)
        nodes[body] = node
        _joints(node, robot, made, body)
        if body == made.tool and made.gripper and len(made.gripper.joints) == 1:
            node = node.add('body', name=FINGERS[1])     # what its only finger closes against
        for geom in _geoms(model, body) if body else ():
            if _is_shape(model, geom):
                _geom(node, assets, model, geom, body in behind, files, made.grips(body))
    if place[2] > 0.0:      # what it stands on; touches nothing
        world.add('geom', class_='visual', type='box', material='metal_dark',
                  size=(BLOCK_M, BLOCK_M, place[2] / 2), pos=(*place[:2], place[2] / 2))
    if not shaped:
        _rods(nodes, made)
    pos, quat = made.tool_pose
    flange = nodes[made.tool].add('body', name='flange', pos=pos, quat=quat)
    flange.add('site', name=FLANGE_SITE, size=[0.004], rgba=(0, 0, 0, 0))
    return flange


def _geoms(model: mujoco.MjModel, body: int) -> range:
    first = int(model.body_geomadr[body])
    return range(first, first + int(model.body_geomnum[body]))


def _is_shape(model: mujoco.MjModel, geom: int) -> bool:
    return _kind(model, geom) in SHAPES


def _kind(model: mujoco.MjModel, geom: int) -> str:
    name = str(mujoco.mjtGeom(int(model.geom_type[geom])).name)
    return name.removeprefix('mjGEOM_').lower()


def _inertial(node: Node, model: mujoco.MjModel, body: int) -> None:
    """Add a body's mass, or that of a link of which the model does not say it."""
    mass, inertia = float(model.body_mass[body]), model.body_inertia[body]
    if mass < FAINT and not model.body_jntnum[body]:
        return
    if mass < FAINT or np.any(inertia < FAINT * mass):
        mass = max(mass, LINK_KG)
        inertia = np.full(3, mass * GYRATION_M ** 2)
    node.add('inertial', mass=mass, pos=model.body_ipos[body], quat=model.body_iquat[body],
             diaginertia=inertia)


def _joints(node: Node, robot: Robot, made: ArmModel, body: int) -> None:
    """Add those of a body's joints that are the arm's, or its gripper's."""
    model, first = made.model, int(made.model.body_jntadr[body])
    for joint in range(first, first + int(model.body_jntnum[body])):
        name = str(model.joint(joint).name)
        leader = made.followers.get(name, (name,))[0]
        if leader not in robot.own_joints:
            if made.gripper and name in made.gripper.joints:
                _finger(node, made.gripper, model, joint)
            continue
        i, dof = robot.own_joints.index(leader), int(model.jnt_dofadr[joint])
        tau, slides = robot.joint_torque[i], model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        ends = {} if leader != name else {'range': (robot.limits.hardware_lower[i] - SLACK,
                                                    robot.limits.hardware_upper[i] + SLACK)}
        node.add('joint', name=f'arm_{name}', type='slide' if slides else 'hinge',
                 pos=model.jnt_pos[joint], axis=model.jnt_axis[joint],
                 ref=float(model.qpos0[model.jnt_qposadr[joint]]),
                 armature=max(float(model.dof_armature[dof]), ROTOR[slides]),
                 damping=float(np.ravel(model.dof_damping[dof])[0]),
                 actuatorfrcrange=(-tau, tau), **ends)


def add_followers(root: Node, made: ArmModel) -> None:
    """Have the second finger of each other arm's hand follow the first."""
    for second, (first, start, slope) in made.followers.items():
        x, y = (float(made.model.joint(name).qpos0[0]) for name in (first, second))
        root.add('equality').add('joint', joint1=f'arm_{second}', joint2=f'arm_{first}',
                                 polycoef=(start + slope * x - y, slope, 0, 0, 0))


def _finger(node: Node, part: GripperPart, model: mujoco.MjModel, joint: int) -> None:
    """Add the joint of a finger."""
    i, fingers = part.joints.index(str(model.joint(joint).name)), Fingers.of(part)
    node.add('joint', name=fingers.joints[i], pos=model.jnt_pos[joint], axis=model.jnt_axis[joint],
             type='slide' if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE else 'hinge',
             ref=float(model.qpos0[model.jnt_qposadr[joint]]),
             range=sorted((fingers.closed[i], fingers.open[i])),
             armature=max(float(model.dof_armature[int(model.jnt_dofadr[joint])]),
                          fingers.stiffness[i] / FINGER_RAD_S ** 2))


def _geom(node: Node, assets: Node, model: mujoco.MjModel, geom: int, touches: bool,
          files: dict[str, bytes], grips: bool) -> None:
    """Add a shape: drawn unless it only collides, and colliding where the arm ``touches``."""
    touching = 'pad' if grips or node.element.get('name') in FINGERS else 'arm'
    kind, material = _kind(model, geom), int(model.geom_matid[geom])
    collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
    beside = any(not (model.geom_contype[other] or model.geom_conaffinity[other])
                 for other in _geoms(model, int(model.geom_bodyid[geom])))
    drawn = not (collides and beside)
    if not drawn and not touches:
        return
    values: dict[str, Any] = {'size': model.geom_size[geom]}
    if kind == 'mesh':
        number = int(model.geom_dataid[geom])
        name = f'arm_mesh{number}'
        if f'{name}.stl' not in files:
            files[f'{name}.stl'] = _stl(model, number)
            assets.add('mesh', name=name, file=f'{name}.stl', inertia='shell',
                       maxhullvert=HULL)
        values = {'mesh': name}
    node.add('geom', class_=touching if collides and touches else 'visual', type=kind,
             pos=model.geom_pos[geom], quat=model.geom_quat[geom], group=2 if drawn else HIDDEN,
             rgba=model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom], **values)


def _stl(model: mujoco.MjModel, mesh: int) -> bytes:
    """Return a mesh as binary STL: 80 bytes, a count, and of each face a normal and corners."""
    at, first = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    points = model.mesh_vert[at:at + model.mesh_vertnum[mesh]].astype(float)
    faces = model.mesh_face[first:first + model.mesh_facenum[mesh]]
    if len(faces) > FACES:
        points, faces = _coarser(points, faces)
    corners = points[faces]
    rows = np.zeros(len(corners), [('normal', '<f4', 3), ('corners', '<f4', (3, 3)),
                                   ('end', '<u2')])
    rows['corners'] = corners
    return bytes(80) + len(rows).to_bytes(4, 'little') + rows.tobytes()


def _coarser(points: Floats, faces: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int64]]:
    """Return a mesh whose points in one cell of a grid are one, in their middle."""
    _, cell = np.unique(np.floor(points / GRID_M), axis=0, return_inverse=True)
    count = np.bincount(cell)
    middle = np.column_stack([np.bincount(cell, column) / count for column in points.T])
    left = cell[faces]
    flat = ((left == np.roll(left, 1, axis=1)).any(axis=1))
    return middle, left[~flat]


def _rods(nodes: dict[int, Node], made: ArmModel) -> None:
    """Draw each link of an arm without shapes as a rod to the next one."""
    ends = [(parent, made.model.body_pos[body]) for body, parent in made.bodies[1:]]
    for body, end in [*ends, (made.tool, made.tool_pose[0])]:
        if np.linalg.norm(end) > ROD_M:
            nodes[body].add('geom', class_='visual', type='capsule', material='arm_white',
                            size=[ROD_M], fromto=(0, 0, 0, *end))
