"""
What a station allows: the limits of an arm, which a lab may change in its YAML.

The joint limits are those of DROID's controller, a little inside the maker's own (``hardware_*``),
from which the differential IK keeps a distance, as DROID's does. Each robot's are in robots.py.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from arena_robot.core.action import MAX_JOINT_DELTA
from arena_robot.core.observation import DOF, Floats

# DROID's hybrid joint impedance: joint and cartesian stiffness and damping.
KQ = np.array([40.0, 30.0, 50.0, 25.0, 35.0, 25.0, 10.0])
KQD = np.array([4.0, 6.0, 5.0, 5.0, 3.0, 2.0, 1.0])
KX = np.array([400.0] * 3 + [15.0] * 3)
KXD = np.array([37.0] * 3 + [2.0] * 3)


@dataclass(frozen=True)
class ArmLimits:
    """
    Bounds on what may be sent to an arm.

    Joints rad, (7,); velocity rad/s; torque N m of the controller's spring; ``workspace_*`` the
    box (m, base frame) that the flange stays in, ``elbow_*`` that of the elbow.
    ``max_joint_delta`` bounds how far an action's target may lie from the measured joints (rad),
    ``max_lead`` the same for a raw target that reaches the arm a little later.
    """

    joint_lower: tuple[float, ...]
    joint_upper: tuple[float, ...]
    hardware_lower: tuple[float, ...]
    hardware_upper: tuple[float, ...]
    velocity: tuple[float, ...] = (2.075,) * 4 + (2.51,) * 3
    torque: tuple[float, ...] = (86.0,) * 4 + (11.5,) * 3
    workspace_lower: tuple[float, ...] = (-1.0, -1.0, -1.0)
    workspace_upper: tuple[float, ...] = (1.0, 1.0, 1.0)
    elbow_lower: tuple[float, ...] = (-1.0, -1.0, -1.0)
    elbow_upper: tuple[float, ...] = (1.0, 1.0, 1.0)
    velocity_margin: float = 0.5
    max_joint_delta: float = MAX_JOINT_DELTA
    max_lead: float = 0.3

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            size = 3 if field.name.startswith(('workspace', 'elbow')) else DOF
            if isinstance(value, tuple) and len(value) != size:
                raise ValueError(f'{field.name} needs {size} numbers, found {len(value)}')
            if not np.all(np.isfinite(value)):
                raise ValueError(f'{field.name} must be finite, found {value}')
        for low, high in (('joint_lower', 'joint_upper'), ('hardware_lower', 'hardware_upper'),
                          ('workspace_lower', 'workspace_upper'), ('elbow_lower', 'elbow_upper')):
            if np.any(np.array(getattr(self, low)) >= np.array(getattr(self, high))):
                raise ValueError(f'{low} must lie below {high} in every element')
        for name in ('velocity', 'torque', 'velocity_margin', 'max_joint_delta', 'max_lead'):
            if np.any(np.array(getattr(self, name)) <= 0.0):
                raise ValueError(f'{name} must be positive, found {getattr(self, name)}')

    @cached_property
    def q_min(self) -> Floats:
        """Lower joint limits (7,) rad: DROID's or the maker's, whichever is tighter."""
        return np.maximum(self.joint_lower, self.hardware_lower)

    @cached_property
    def q_max(self) -> Floats:
        """Upper joint limits (7,) rad: DROID's or the maker's, whichever is tighter."""
        return np.minimum(self.joint_upper, self.hardware_upper)

    @cached_property
    def dq_max(self) -> Floats:
        """Velocity limits (7,) rad/s."""
        return np.array(self.velocity)

    @cached_property
    def tau_max(self) -> Floats:
        """Torque limits (7,) N m."""
        return np.array(self.torque)

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper corners (2, 3) m of the boxes of flange and elbow, in this order."""
        return (np.array([self.workspace_lower, self.elbow_lower]),
                np.array([self.workspace_upper, self.elbow_upper]))
