"""Steps, episodes, and the comparisons that sessions make of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from arena_robot.core.action import Clamp
from arena_robot.core.observation import Floats

CONTROL_RATE_HZ = 15.0    # DROID's, which its policies were trained at
MAX_STEPS = 400           # of a rollout: 27 s
MAX_RERUNS = 2            # of one slot


class Slot(str, Enum):
    """The only names a policy has at a station before the reveal."""

    A = 'A'
    B = 'B'


class EndReason(str, Enum):
    """How an episode ended."""

    DONE = 'done'
    STOPPED = 'stopped'
    TIMEOUT = 'timeout'
    POLICY_ERROR = 'policy_error'
    SAFETY_STOP = 'safety_stop'
    DRIVER_ERROR = 'driver_error'
    INTERRUPTED = 'interrupted'


class Preference(str, Enum):
    """The evaluator's verdict on a pair."""

    A = 'A'
    B = 'B'
    TIE = 'TIE'


@dataclass(frozen=True)
class Step:
    """
    One control tick.

    ``requested`` (size,) as requested by the policy, ``q_sent`` (n,) rad as the arm's driver
    accepted it, ``gripper_sent`` 0..1. ``image_stamps_ns`` are the stamps of the images this tick
    used, by view; ``chunk_index`` and ``chunk_step`` say which action of which inference it was.
    """

    index: int
    stamp_ns: int
    arm_stamp_ns: int
    gripper_stamp_ns: int
    image_stamps_ns: Mapping[str, int]
    requested: Floats
    q_sent: Floats
    gripper_sent: float
    chunk_index: int
    chunk_step: int
    clamps: tuple[Clamp, ...] = ()
    loop_s: float = 0.0
    late_s: float = 0.0
    inference_s: float = 0.0


@dataclass(frozen=True)
class Episode:
    """
    One policy's rollout in a slot, as it ended, after ``reruns`` that do not count.

    ``waited`` is the share of its time in which the arm waited for the policy's answers; None
    where nobody measured it.
    """

    session_id: str
    slot: Slot
    prompt: str
    steps: int
    end: EndReason
    started_ns: int
    ended_ns: int
    detail: str = ''
    reruns: int = 0
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    One verdict as input of the ranking: policies ``a`` and ``b``, ``preference`` between.

    ``origin`` tells whether a server saw it: 'relayed', 'imported', 'local' (a station without a
    server), 'before the log'; '' when that is not known. ``waited_a`` and ``waited_b`` are the
    shares of the time in which the arm waited for the policy's answer. ``chosen`` tells whether
    the pair was chosen by earlier verdicts; None: not known. ``robot`` is the
    kind of the station's, empty if not known.
    """

    session_id: str
    a: str
    b: str
    preference: Preference
    progress_a: float = float('nan')
    progress_b: float = float('nan')
    evaluator: str = ''
    institution: str = ''
    prompt: str = ''
    created: str = ''
    origin: str = ''
    waited_a: float | None = None
    waited_b: float | None = None
    chosen: bool | None = None
    robot: str = ''


@dataclass(frozen=True)
class ScoredRollout:
    """One policy's rollout in a session with its ``score`` 0..1, compared or not."""

    session_id: str
    policy: str
    score: float
