"""What a task's oracle asks for; never shown to a policy model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from arena_robot.skills.base import TaskSpec


@dataclass(frozen=True)
class JointGoal:
    """A joint ends at ``target``, a share of its range, within ``tolerance`` of the range."""

    object: str
    joint: str
    target: float
    tolerance: float


@dataclass(frozen=True)
class PressGoal:
    """A joint was at some time within ``tolerance`` of its range of its lower limit."""

    object: str
    joint: str
    tolerance: float = 0.4


@dataclass(frozen=True)
class PlaceGoal:
    """An object ends, let go, within ``distance_m`` of another one over the table plane."""

    object: str
    target: str
    distance_m: float = 0.06


@dataclass(frozen=True)
class LiftGoal:
    """An object ends at least ``height_m`` above its start."""

    object: str
    height_m: float = 0.08


TaskGoal = JointGoal | PressGoal | PlaceGoal | LiftGoal


@dataclass(frozen=True)
class SkillTask:
    """
    A task with the goals of its oracle.

    All goals must hold, and every joint in ``untouched`` (``object/joint``) must end near its
    start. ``held`` names the link by which a joint is moved, by ``object/joint``. ``grasps``:
    the reference solution grasps it; otherwise it is pushed.
    """

    spec: TaskSpec
    goals: tuple[TaskGoal, ...]
    held: Mapping[str, str] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()
    grasps: bool = True
