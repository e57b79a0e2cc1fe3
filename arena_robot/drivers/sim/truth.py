"""
Ground truth of the simulation: object poses, speeds and contacts, links and joints of fixtures.

Of a fixture it knows where it is held, and how a joint moves that place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2

import mujoco
import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import FINGERS, PAD_SITE
from arena_robot.drivers.sim.props import SUFFIX
from arena_robot.drivers.sim.world import SimWorld

_BODY, _JOINT, _SITE = (mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_JOINT,
                        mujoco.mjtObj.mjOBJ_SITE)
_HINGE, _SLIDE, _FREE = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE,
                         mujoco.mjtJoint.mjJNT_FREE)


class SceneTruth:
    """Reads the present state of a world; positions in m in the base frame."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world

    @property
    def now_s(self) -> float:
        """Seconds simulated so far."""
        return self.world.now_s

    def position(self, name: str) -> Floats:
        """Return the (3,) position of a body."""
        out: Floats = self.world.data.xpos[self._body(name)].copy()
        return out

    def up(self, name: str) -> Floats:
        """Return the (3,) direction of a body's own z axis."""
        out: Floats = self.world.data.xmat[self._body(name)].reshape(3, 3)[:, 2].copy()
        return out

    def upright(self, name: str) -> float:
        """Return the cosine of a body's tilt: 1 upright, 0 lying."""
        return float(self.up(name)[2])

    def yaw(self, name: str) -> float:
        """Return the direction of a body's x axis in the table plane, rad."""
        matrix = self.world.data.xmat[self._body(name)].reshape(3, 3)
        return atan2(matrix[1, 0], matrix[0, 0])

    def speed(self, name: str) -> float:
        """Return how fast a free body moves, m/s."""
        _, dof = self.world.joint(name)
        return float(np.linalg.norm(self.world.data.qvel[dof:dof + 3]))

    def joint(self, name: str) -> float:
        """Return a one-dimensional joint's position in rad or m."""
        return float(self.world.data.qpos[self.world.joint(name)[0]])

    def site(self, name: str) -> Floats:
        """Return the (3,) position of a site."""
        i = mujoco.mj_name2id(self.world.model, mujoco.mjtObj.mjOBJ_SITE, name)
        out: Floats = self.world.data.site_xpos[i].copy()
        return out

    def tcp(self) -> Floats:
        """Return the (3,) point between the pads."""
        return self.site(PAD_SITE)

    def distance(self, name: str) -> float:
        """Return the distance from the pads to a body's origin."""
        return float(np.linalg.norm(self.tcp() - self.position(name)))

    def touching(self, name: str) -> set[str]:
        """Return the names of the bodies in contact with a body."""
        body, names = self._body(name), set()
        model, contact = self.world.model, self.world.data.contact
        bodies = model.geom_bodyid[contact.geom] if self.world.data.ncon else np.zeros((0, 2), int)
        for a, b in bodies[(bodies == body).any(axis=1)]:
            names.add(model.body(int(b if a == body else a)).name)
        return names

    def grasped(self, name: str) -> bool:
        """Return whether both fingers touch a body."""
        return set(FINGERS) <= self.touching(name)

    def hide(self, name: str) -> None:
        """Move a mocap body out of sight, below the floor."""
        mocap = int(self.world.model.body_mocapid[self._body(name)])
        self.world.data.mocap_pos[mocap, 2] = -5.0

    def _body(self, name: str) -> int:
        return int(mujoco.mj_name2id(self.world.model, mujoco.mjtObj.mjOBJ_BODY, name))


@dataclass(frozen=True)
class GripPlace:
    """Where a body is held: point (3,), direction of the bar in the table plane, opening (m)."""

    point: Floats
    yaw: float
    width_m: float


@dataclass(frozen=True)
class JointMotion:
    """How a joint moves: ``hinge`` or not, a point on its axis (3,), direction (3,), state."""

    name: str
    hinge: bool
    anchor: Floats
    axis: Floats
    position: float
    low: float
    high: float


class SceneLinks:
    """
    Reads the present state of a world; positions in m in the base frame.

    Bodies and joints are those of the model. The *rigid part* of a body is the body with all
    children that no joint moves against it.
    """

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    def has_body(self, name: str) -> bool:
        """Return whether the scene has a body of that name."""
        return self._id(_BODY, name) >= 0

    def has_joint(self, name: str) -> bool:
        """Return whether the scene has a joint of that name."""
        return self._id(_JOINT, name) >= 0

    def is_free(self, body: str) -> bool:
        """Return whether a body can be carried away."""
        model, at = self._world.model, self._id(_BODY, body)
        first = int(model.body_jntadr[at])
        return first >= 0 and int(model.jnt_type[first]) == _FREE

    def rigid(self, body: str) -> list[str]:
        """Return the names of the bodies of the rigid part of ``body``, itself first."""
        return [self._name(part) for part in self._below(self._id(_BODY, body), rigid=True)]

    def tree(self, body: str) -> list[str]:
        """Return the names of ``body`` and all bodies below it."""
        return [self._name(part) for part in self._below(self._id(_BODY, body), rigid=False)]

    def grip(self, body: str) -> GripPlace | None:
        """Return where the rigid part of ``body`` is held; None when it has no such place."""
        for name in self.rigid(body):
            site = self._id(_SITE, f'{name}{SUFFIX}')
            if site >= 0:
                turn = self._world.data.site_xmat[site].reshape(3, 3)
                return GripPlace(self._world.data.site_xpos[site].copy(),
                                 float(np.arctan2(turn[1, 0], turn[0, 0])),
                                 2 * float(self._world.model.site_size[site, 0]))
        return None

    def motion(self, joint: str) -> JointMotion:
        """Return a joint's axis, state and limits."""
        model, data, i = self._world.model, self._world.data, self._id(_JOINT, joint)
        low, high = model.jnt_range[i]
        return JointMotion(joint, int(model.jnt_type[i]) == _HINGE, data.xanchor[i].copy(),
                           data.xaxis[i].copy(), float(data.qpos[model.jnt_qposadr[i]]),
                           float(low), float(high))

    def joints_of(self, body: str) -> list[str]:
        """Return the hinges and slides that move a body, the nearest first."""
        model, at, joints = self._world.model, self._id(_BODY, body), []
        while at > 0:
            first, count = int(model.body_jntadr[at]), int(model.body_jntnum[at])
            joints += [model.joint(i).name for i in range(first, first + count)
                       if int(model.jnt_type[i]) in (_HINGE, _SLIDE)]
            at = int(model.body_parentid[at])
        return joints

    def body_of(self, joint: str) -> str:
        """Return the body that a joint moves."""
        return self._name(int(self._world.model.jnt_bodyid[self._id(_JOINT, joint)]))

    def corners(self, bodies: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the corners (3,) along the base axes of all shapes of some bodies."""
        model, data = self._world.model, self._world.data
        ids = [self._id(_BODY, name) for name in bodies]
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        for geom in np.flatnonzero(np.isin(model.geom_bodyid, ids)):
            turn = data.geom_xmat[geom].reshape(3, 3)
            middle = data.geom_xpos[geom] + turn @ model.geom_aabb[geom, :3]
            half = np.abs(turn) @ model.geom_aabb[geom, 3:]
            low, high = np.minimum(low, middle - half), np.maximum(high, middle + half)
        if not np.all(np.isfinite(low)):
            low = high = data.xpos[ids[0]].copy()
        return low, high

    def held(self, bodies: Sequence[str]) -> bool:
        """Return whether each finger touches one of some bodies."""
        model, data = self._world.model, self._world.data
        ids = {self._id(_BODY, name) for name in bodies}
        fingers = {self._id(_BODY, name) for name in FINGERS}
        pairs = model.geom_bodyid[data.contact.geom] if data.ncon else np.zeros((0, 2), int)
        touching = {int(finger) for a, b in pairs for finger, touched in ((a, b), (b, a))
                    if int(finger) in fingers and int(touched) in ids}
        return touching == fingers

    def _below(self, body: int, rigid: bool) -> list[int]:
        model, bodies = self._world.model, [body]
        for child in range(body + 1, model.nbody):
            if int(model.body_parentid[child]) in bodies and not (
                    rigid and int(model.body_jntnum[child])):
                bodies.append(child)
        return bodies

    def _id(self, kind: mujoco.mjtObj, name: str) -> int:
        return int(mujoco.mj_name2id(self._world.model, kind, name))

    def _name(self, body: int) -> str:
        return str(self._world.model.body(body).name)
