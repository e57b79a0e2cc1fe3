"""What generated code may call: readings of the scene, and motions of the gripper."""

from collections.abc import Callable
from typing import Any, Protocol

from arena_robot.core.observation import Floats
from arena_robot.skills.confined.numbers import in_bbox


class SceneView(Protocol):
    """
    Reads a scene; positions in m in the base frame, angles in rad.

    Every method raises CodeRefused for a name that the scene lacks.
    """

    def get_eef_pos(self) -> tuple[Floats, Floats]:
        """Return position (3,) of the point between the pads and its roll, pitch, yaw (3,)."""

    def get_position(self, object_name: str) -> Floats:
        """Return the (3,) position of an object."""

    def get_link_state(self, object_name: str, link_name: str) -> Floats:
        """Return the (3,) position of a link: the place where it is held or pushed."""

    def get_joint_state(self, object_name: str, joint_name: str) -> float:
        """Return a joint's position, rad or m."""

    def get_joint_limit(self, object_name: str, joint_name: str) -> tuple[float, float]:
        """Return a joint's limits (low, high), rad or m."""

    def get_bounding_box(self, object_name: str) -> tuple[Floats, Floats]:
        """Return the corners (low, high), (3,) each, of an object along the base axes."""

    def get_bounding_box_link(self, object_name: str, link_name: str) -> tuple[Floats, Floats]:
        """Return the corners (low, high), (3,) each, of a link along the base axes."""


class GripperPrimitives(Protocol):
    """Motions; a motion that fails leaves nothing grasped. Raises CodeRefused as a view does."""

    def grasp_object(self, object_name: str) -> None:
        """Grasp a free object from above."""

    def grasp_object_link(self, object_name: str, link_name: str) -> None:
        """Grasp a link of an object."""

    def release_grasp(self) -> None:
        """Open the gripper and retreat."""

    def check_grasped(self, object_name: str, link_name: str = '') -> bool:
        """Return whether both fingers touch the object, or that link of it."""


Functions = dict[str, Callable[..., Any]]
READINGS = ('get_eef_pos', 'get_position', 'get_link_state', 'get_joint_state',
            'get_joint_limit', 'get_bounding_box', 'get_bounding_box_link', 'in_bbox')
MOTIONS = ('grasp_object', 'grasp_object_link', 'release_grasp')
PRIMITIVES = (*MOTIONS, 'check_grasped')


def readings(view: SceneView) -> Functions:
    """Return what reward code may call, by name."""
    return {'get_eef_pos': view.get_eef_pos, 'get_position': view.get_position,
            'get_link_state': view.get_link_state, 'get_joint_state': view.get_joint_state,
            'get_joint_limit': view.get_joint_limit,
            'get_bounding_box': view.get_bounding_box,
            'get_bounding_box_link': view.get_bounding_box_link, 'in_bbox': in_bbox}


def primitives(hand: GripperPrimitives) -> Functions:
    """Return what code of a primitive subtask may call, by name."""
    return {'grasp_object': hand.grasp_object, 'grasp_object_link': hand.grasp_object_link,
            'release_grasp': hand.release_grasp, 'check_grasped': hand.check_grasped}
