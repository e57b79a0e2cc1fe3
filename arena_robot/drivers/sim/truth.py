"""Ground truth of the simulation: object poses, speeds and contacts."""

from math import atan2

import mujoco
import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import FINGERS, PAD_SITE
from arena_robot.drivers.sim.world import SimWorld


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
        body, found = self._body(name), set()
        model, contact = self.world.model, self.world.data.contact
        bodies = model.geom_bodyid[contact.geom] if self.world.data.ncon else np.zeros((0, 2), int)
        for a, b in bodies[(bodies == body).any(axis=1)]:
            found.add(model.body(int(b if a == body else a)).name)
        return found

    def grasped(self, name: str) -> bool:
        """Return whether both fingers touch a body."""
        return set(FINGERS) <= self.touching(name)

    def hide(self, name: str) -> None:
        """Move a mocap body out of sight, below the floor."""
        mocap = int(self.world.model.body_mocapid[self._body(name)])
        self.world.data.mocap_pos[mocap, 2] = -5.0

    def _body(self, name: str) -> int:
        return int(mujoco.mj_name2id(self.world.model, mujoco.mjtObj.mjOBJ_BODY, name))
