"""
Records and interfaces of skill generation.

A policy model writes a solution for a task's specification: the scene and a list of subtasks, each
with its supervision in code. An executor runs it. The verifier scores prefixes of solutions.
Nothing here imports a simulator: executors are constructed in higher rooms. Records are JSON
values in files; unknown or missing keys are errors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError

Record = TypeVar('Record')


class SubtaskKind(str, Enum):
    """How a subtask is supervised: by calls of motion primitives, or by a reward."""

    PRIMITIVE = 'primitive'
    REWARD = 'reward'


class SkillActionSpace(str, Enum):
    """RoboGen's action spaces of a reward subtask; a primitive has none."""

    NONE = 'None'
    TRANSLATION = 'delta-translation'
    DIRECTION = 'normalized-direct-translation'


@dataclass(frozen=True)
class SkillJoint:
    """A joint of an object: ``kind`` hinge or slide, limits (rad, m), the link it moves."""

    name: str
    kind: str
    low: float
    high: float
    link: str


@dataclass(frozen=True)
class SkillLink:
    """A link of an object; ``parent`` is empty for the root, ``semantics`` such as handle."""

    name: str
    parent: str = ''
    semantics: str = ''


@dataclass(frozen=True)
class SkillObject:
    """An object of the scene with its articulation tree."""

    name: str
    category: str
    links: tuple[SkillLink, ...] = ()
    joints: tuple[SkillJoint, ...] = ()


@dataclass(frozen=True)
class TaskSpec:
    """
    What a policy model is told of a task.

    ``initial`` has the start of joints as a share of their range, by ``object/joint``.
    ``family`` groups tasks for splits, and is not shown to the policy model.
    """

    name: str
    description: str
    family: str
    objects: tuple[SkillObject, ...]
    initial: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subtask:
    """One step of a solution with its supervision and success indicator in RoboGen's Python."""

    name: str
    kind: SubtaskKind
    code: str
    action_space: SkillActionSpace = SkillActionSpace.NONE


@dataclass(frozen=True)
class Solution:
    """
    A scene configuration and subtasks in order.

    ``scene`` has what the policy model decided about the scene: relevant objects and the start of
    joints. ``policy`` names the model that wrote it.
    """

    task: str
    scene: Mapping[str, object]
    subtasks: tuple[Subtask, ...]
    policy: str = ''


@dataclass(frozen=True)
class SubtaskResult:
    """What became of one subtask: success by its own indicator, cost, why it failed."""

    success: bool
    sim_steps: int = 0
    cpu_s: float = 0.0
    error: str = ''


@dataclass(frozen=True)
class Execution:
    """
    What became of a solution; ``results`` end with the first subtask that failed.

    ``claimed``: all subtasks succeeded by their own indicators. ``oracle``: the task's
    independent check held at the end.
    """

    results: tuple[SubtaskResult, ...]
    claimed: bool
    oracle: bool

    @property
    def success(self) -> bool:
        """The solution counts as successful only by both."""
        return self.claimed and self.oracle


class SkillExecutor(Protocol):
    """Runs solutions of one task; results of a common prefix are computed once."""

    def execute(self, spec: TaskSpec, solution: Solution, seed: int) -> Execution:
        """Run all subtasks from the start, or from the state kept after a known prefix."""


class SkillPolicy(Protocol):
    """Writes solutions."""

    name: str

    def generate(self, spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
                 seed: int) -> Solution:
        """Write a whole solution; raises ModelBadReply when it cannot be read."""

    def complete(self, spec: TaskSpec, prefix: Solution,
                 exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int,
                 failure: str = '') -> Solution:
        """
        Write the rest after the prefix's scene and subtasks, which are kept as they are.

        ``failure`` says in words why what followed the prefix before did not work.
        """


@runtime_checkable
class StreamingPolicy(Protocol):
    """A policy model whose subtasks can be looked at while it writes."""

    def write(self, spec: TaskSpec, prefix: Solution | None,
              exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int, failure: str,
              good: Callable[[Solution], bool]) -> Solution:
        """
        Write as ``generate``, or after a prefix as ``complete``.

        It ends with the first subtask after which ``good`` says no of the solution so far.
        """


def to_json(record: Any) -> dict[str, Any]:
    """Return a record, a dataclass, as JSON objects, lists, texts and numbers."""
    return {name: plain(value) for name, value in asdict(record).items()}


def from_json(cls: type[Record], data: Any, where: str) -> Record:
    """Return the record; DataError names ``where`` it does not fit."""
    if not isinstance(data, Mapping):
        raise DataError(f'{where}: expected an object, found {type(data).__name__}')
    try:
        return build(cls, data, where)
    except ConfigError as error:
        raise DataError(str(error)) from error


def plain(value: Any) -> Any:
    """Return ``value`` with tuples as lists and enums as their values."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return value.value if isinstance(value, Enum) else value
