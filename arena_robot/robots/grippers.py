"""The grippers of DROID stations, one row each: everything that depends on which one it is."""

from dataclasses import dataclass

from arena_robot.robots.arms import Link


@dataclass(frozen=True)
class GripperModel:
    """
    A gripper with two fingers.

    ``name`` is the value of ``gripper_type``. ``stroke_m`` lies between the open pads;
    ``effort_n`` is the grip force at force 1. Joint states and actions are about ``joint``, which
    moves ``finger_link``: 0 rad open, ``closed_rad`` closed, about the negative y axis through
    ``joint_at`` (m) in ``base_link``. That hangs on the flange by ``base_joint``. ``links`` are
    the inertias of ``base_link``, with all that is not the finger, and ``finger_link``.
    ``capsule`` is its size for what keeps the arm's links apart: from the flange to the tips, and
    a radius (m).
    """

    name: str
    title: str
    stroke_m: float
    effort_n: float
    joint: str
    closed_rad: float
    joint_at: tuple[float, float, float]
    base_link: str
    base_joint: str
    finger_link: str
    links: tuple[Link, Link]
    capsule: tuple[float, float]

    def width_m(self, position: float) -> float:
        """Return the distance between the pads at a position, 0 open to 1 closed."""
        return self.stroke_m * (1.0 - position)


# The gripper of every DROID station, with the names of ros2_robotiq_gripper.
ROBOTIQ_2F85 = GripperModel(
    'robotiq_2f85', 'Robotiq 2F-85', stroke_m=0.085, effort_n=235.0,
    joint='robotiq_85_left_knuckle_joint', closed_rad=0.7929, joint_at=(0.0306, 0.0, 0.0549),
    base_link='robotiq_85_base_link', base_joint='robotiq_85_base_joint',
    finger_link='robotiq_85_left_knuckle_link', links=(
        # The manual's 0.9 kg as two solid cylinders, of the palm's size and of a finger's.
        Link(0.84, (0.0, 0.0, 0.05), (0.001036, 0.001036, 0.000672, 0.0, 0.0, 0.0)),
        Link(0.06, (0.0, 0.0, 0.03), (1.4e-05, 1.4e-05, 3e-06, 0.0, 0.0, 0.0))),
    capsule=(0.17, 0.06))    # open fingers are 0.015 m wider
GRIPPERS = {model.name: model for model in (ROBOTIQ_2F85,)}
