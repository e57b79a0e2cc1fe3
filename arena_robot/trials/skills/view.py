"""What generated code sees and does at the simulated station."""

import numpy as np

from arena_robot.core.errors import CodeRefused
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.truth import SceneTruth
from arena_robot.skills.base import SkillObject
from arena_robot.trials.skills.motion import PadPose, SkillMotions

_HOVER_M = 0.09


class StationView:
    """
    Reads the station's scene for generated code; see SceneView.

    ``links`` and ``joints`` note which bodies and joints the code asked for, in order.
    """

    def __init__(self, motions: SkillMotions, objects: tuple[SkillObject, ...]) -> None:
        self._motions = motions
        self._links = motions.links
        self._truth: SceneTruth = motions.station.truth
        self._objects = {item.name: item for item in objects}
        self.asked_bodies: dict[str, None] = {}
        self.asked_joints: dict[str, None] = {}

    def get_eef_pos(self) -> tuple[Floats, Floats]:
        """Return position of the pads, and roll, pitch, yaw."""
        point, turn = self._motions.kinematics.pose(self._motions.station.arm.state().q)
        return point, np.array([np.pi, 0.0, np.arctan2(turn[1, 0], turn[0, 0])])

    def get_position(self, object_name: str) -> Floats:
        """Return where an object's origin is."""
        return self._truth.position(self._noted(self._object(object_name).name))

    def get_link_state(self, object_name: str, link_name: str) -> Floats:
        """Return where a link is held, or its origin."""
        body = self._noted(self.body(object_name, link_name))
        grip = self._links.grip(body)
        return self._truth.position(body) if grip is None else grip.point

    def get_joint_state(self, object_name: str, joint_name: str) -> float:
        """Return a joint's position."""
        return self._links.motion(self._joint(object_name, joint_name)).position

    def get_joint_limit(self, object_name: str, joint_name: str) -> tuple[float, float]:
        """Return a joint's limits."""
        motion = self._links.motion(self._joint(object_name, joint_name))
        return motion.low, motion.high

    def get_bounding_box(self, object_name: str) -> tuple[Floats, Floats]:
        """Return an object's corners."""
        body = self._noted(self._object(object_name).name)
        return self._links.corners(self._links.tree(body))

    def get_bounding_box_link(self, object_name: str, link_name: str) -> tuple[Floats, Floats]:
        """Return a link's corners."""
        return self._links.corners([self._noted(self.body(object_name, link_name))])

    def body(self, object_name: str, link_name: str = '') -> str:
        """Return the body of a link; of the whole object without a link."""
        item = self._object(object_name)
        if not link_name:
            return item.name
        for link in item.links:
            if link.name == link_name:
                return f'{item.name}_{link.name}' if link.parent else item.name
        raise CodeRefused(f"{object_name} has no link '{link_name}'; it has "
                          f"{', '.join(link.name for link in item.links)}")

    def _object(self, name: str) -> SkillObject:
        if name not in self._objects:
            raise CodeRefused(f"the scene has no object '{name}'; it has "
                              f"{', '.join(self._objects)}")
        return self._objects[name]

    def _joint(self, object_name: str, joint_name: str) -> str:
        item = self._object(object_name)
        if joint_name not in {joint.name for joint in item.joints}:
            raise CodeRefused(f"{object_name} has no joint '{joint_name}'; it has "
                              f"{', '.join(joint.name for joint in item.joints) or 'none'}")
        name = f'{object_name}_{joint_name}'
        self.asked_joints[name] = None
        return name

    def _noted(self, body: str) -> str:
        self.asked_bodies[body] = None
        return body


class StationHand:
    """Makes the motions that primitive code asks for; see GripperPrimitives."""

    def __init__(self, motions: SkillMotions, view: StationView) -> None:
        self._motions, self._view = motions, view
        self._links = motions.links

    def grasp_object(self, object_name: str) -> None:
        """Grasp a free object at its middle, anything else where its root is held."""
        body = self._view.body(object_name)
        if not self._links.is_free(body):
            self._grasp_grip(body)
            return
        truth = self._motions.station.truth
        self._grasp(PadPose(truth.position(body), _near(truth.yaw(body), np.pi / 2)), 0.085)

    def grasp_object_link(self, object_name: str, link_name: str) -> None:
        """Grasp a link at its grip; a link without one cannot be grasped."""
        body = self._view.body(object_name, link_name)
        if self._links.is_free(body):
            self.grasp_object(object_name)
        else:
            self._grasp_grip(body)

    def release_grasp(self) -> None:
        """Open a little more than needed, go up."""
        width = self._motions.station.gripper.state().width_m
        pose = self._motions.pose
        self._motions.run(self._motions.grip(min(width + 0.03, 0.085)))
        up = PadPose(pose.point + np.array([0.0, 0.0, 0.1]), pose.yaw)
        self._motions.run(self._motions.go(up))

    def check_grasped(self, object_name: str, link_name: str = '') -> bool:
        """Return whether both fingers touch the object, or the rigid part of that link."""
        body = self._view.body(object_name, link_name)
        return self._links.held(
            self._links.rigid(body) if link_name else self._links.tree(body))

    def _grasp_grip(self, body: str) -> None:
        grip = self._links.grip(body)
        if grip is not None:
            self._grasp(PadPose(grip.point, _near(grip.yaw, np.pi)), grip.width_m)

    def _grasp(self, pose: PadPose, width_m: float) -> None:
        motions = self._motions
        above = PadPose(pose.point + np.array([0.0, 0.0, _HOVER_M]), pose.yaw)
        if motions.station.gripper.state().width_m < width_m - 0.01:
            motions.run(motions.grip(width_m))
        motions.run(motions.over(above))
        motions.run(motions.grip(width_m))
        motions.run(motions.go(pose))
        motions.run(motions.grip(0.0))


def _near(yaw: float, period: float) -> float:
    """Return the yaw of the same grasp that is nearest to straight ahead."""
    return float((yaw + period / 2) % period - period / 2)
