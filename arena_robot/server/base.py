"""
Types of the server: roles, states of policies and sessions, and the records it hands out.

:class:`PolicyTarget` is where a policy is called, and what is shown to it.
:func:`conflict` says which evaluators may not judge which policies: conflict of interest.
"""

import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, ServerError
from arena_robot.core.verdict import Verdict
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.options import CallOptions
from arena_robot.records.roboarena import RoboArenaSession

STUDY_CHARS = 8    # of a study's hash, in the names of its policies


# What the owner of a policy may say of where it comes from.
PROVENANCE = {'paper': 'address of the paper', 'weights': 'address of the weights',
              'data': 'what it was trained on', 'recipe': 'how it was trained, or the address',
              'family': 'the kind of model, such as pi0', 'licence': 'licence of the weights'}


class UnknownSession(ServerError):
    """There is no session with that id."""

    code = 'unknown_session'


class NoPair(ServerError):
    """Fewer than two policies can be compared on this station now."""

    code = 'no_pair'


class TooManyCalls(ServerError):
    """The caller asks faster than the server's limits allow."""

    code = 'too_many_calls'


class Role(str, Enum):
    """What the holder of a token may do."""

    EVALUATOR = 'evaluator'
    OWNER = 'owner'
    MAINTAINER = 'maintainer'
    STATION = 'station'


class PolicyState(str, Enum):
    """States of a policy."""

    SUBMITTED = 'submitted'
    PROBATION = 'probation'
    POOL = 'pool'
    SUSPENDED = 'suspended'
    RETIRED = 'retired'
    STUDY = 'study'    # of a lab's own study; it is never drawn, ranked or listed


class SessionState(str, Enum):
    """States of a session at the server."""

    RUNNING = 'running'
    DONE = 'done'
    ABORTED = 'aborted'
    CANCELLED = 'cancelled'


@dataclass(frozen=True)
class Caller:
    """Who a valid token belongs to: an account with roles, or a station."""

    id: int
    name: str
    institution: str
    roles: frozenset[Role]

    @property
    def actor(self) -> str:
        """Return the name the audit log uses, such as ``station:berkeley-1``."""
        kind = 'station' if Role.STATION in self.roles else 'account'
        return f'{kind}:{self.name}'


@dataclass(frozen=True)
class Account:
    """
    A person or lab that evaluates, owns policies or maintains the server.

    ``person`` is the same in all accounts of one person.
    """

    id: int
    name: str
    institution: str
    roles: frozenset[Role]
    person: str = ''


@dataclass(frozen=True)
class Station:
    """
    A robot with its cameras; ``test_driver`` stations get policies on probation.

    With ``stereo`` each camera has both eyes, with ``depth`` each measures depth.
    """

    id: int
    name: str
    institution: str
    robot: str
    external_cameras: int = 2
    wrist_camera: bool = True
    stereo: bool = True
    test_driver: bool = False
    depth: bool = False


@dataclass(frozen=True)
class PolicyRecord:
    """
    A policy in the pool.

    ``robot`` is ``'any'`` (any of DROID's, or any arm where its spec says so) or the only one that
    it drives. The camera fields are what it needs.
    ``reason`` says why it is suspended or what its last check found; only its owner and the
    maintainers read it. With ``has_token`` the relay shows it a token of its own; with
    ``has_tls_ca`` its server has a certificate of a private authority. ``stated`` names the needs
    that the owner stated, with commas; ``spec`` is what its server says, JSON, once it was asked.
    ``approved``: a maintainer approved it for the pool; ``appeal`` is what its owner said last to
    reports that it was unsafe. ``provenance`` is JSON, by the names in ``PROVENANCE``.
    """

    id: int
    name: str
    owner_id: int
    address: str
    open_source: bool
    description: str
    robot: str
    action_space: str
    external_cameras: int
    wrist_camera: bool
    stereo: bool
    state: PolicyState
    reason: str
    failures: int
    requested: int
    healthy: bool
    checked_ns: int
    has_token: bool = False
    has_tls_ca: bool = False
    stated: str = ''
    spec: str = ''
    approved: bool = False
    appeal: str = ''
    provenance: str = ''


@dataclass(frozen=True)
class UnsafeReport:
    """
    One report; ``reached`` tells whether the relay saw the policy answer in that rollout.

    ``reason`` is what the evaluator wrote of the slot, or why the session ended as it did.
    """

    session_id: str
    slot: str
    policy_id: int
    station: str
    evaluator: str
    person: str
    test_driver: bool
    reached: bool
    reason: str
    created_ns: int
    cleared_by: str = ''
    cleared_why: str = ''

    @property
    def stands(self) -> bool:
        """Tell whether no maintainer cleared it."""
        return not self.cleared_by


@dataclass(frozen=True)
class PolicyFailure:
    """A rollout of a policy that ended badly; ``has_page``: the site shows its session."""

    session_id: str
    slot: str
    end: str
    detail: str
    created_ns: int
    has_page: bool


@dataclass(frozen=True)
class PolicyActivity:
    """
    What the owner of a policy sees of its sessions, of those whose pair is public.

    ``last_ns`` is when the relay heard it last, ``latency_s`` the median of its newest answers,
    None without any. ``paid`` comparisons wait for a station. ``failures`` are the newest.
    """

    last_ns: int = 0
    latency_s: float | None = None
    paid: int = 0
    failures: tuple[PolicyFailure, ...] = ()


@dataclass(frozen=True)
class PolicyReview:
    """What a policy's owner and the maintainers see besides its record."""

    reports: tuple[UnsafeReport, ...] = ()
    waits_for_approval: bool = False
    activity: PolicyActivity = PolicyActivity()


@dataclass(frozen=True)
class LocalSession:
    """A session of a lab's own ``study``, named and hashed, with all that its verdict says."""

    session: RoboArenaSession
    verdict: Verdict
    study: str
    study_sha256: str

    def renamed(self) -> RoboArenaSession:
        """Return the session with policies that no arena has: their names end with the hash."""
        names = {name: f'{name} (study {self.study_sha256[:STUDY_CHARS]})'
                 for name in self.session.policies().values()}
        return replace(
            self.session, policy_a=names[self.session.policy_a],
            policy_b=names[self.session.policy_b], rollouts=tuple(
                replace(r, policy=names[r.policy]) for r in self.session.rollouts))


# By rule: what the evaluator and the owner of a policy have in common.
CONFLICT_RULES = {
    'owner': 'evaluator and owner are the same account',
    'person': 'evaluator and owner are accounts of the same person',
    'institution': 'evaluator and owner are of the same institution',
}


def check_rules(rules: Collection[str]) -> None:
    """Raise ConfigError when a rule is not one."""
    for rule in rules:
        if rule not in CONFLICT_RULES:
            raise ConfigError(f"conflicts: there is no rule '{rule}'."
                              f'{nearest(rule, CONFLICT_RULES)}')


def conflict(evaluator: Account, owner: Account, rules: Collection[str]) -> str:
    """Return the first rule that keeps ``evaluator`` from judging the owner's policies, or ''."""
    holds = {'owner': evaluator.id == owner.id,
             'person': _same(evaluator.person, owner.person),
             'institution': _same(evaluator.institution, owner.institution)}
    return next((rule for rule in CONFLICT_RULES if rule in rules and holds[rule]), '')


def same_institution(a: str, b: str) -> bool:
    """Tell whether two names are of the same institution."""
    return _same(a, b)


def _same(a: str, b: str) -> bool:
    return bool(a) and ' '.join(a.casefold().split()) == ' '.join(b.casefold().split())


# The flags of `arena policy submit` that state a need.
FLAGS = {'action_space': '--action-space', 'external_cameras': '--external-cameras',
         'wrist_camera': '--no-wrist-camera', 'stereo': '--stereo'}
NEEDS = tuple(FLAGS)
DEFAULTS = CallOptions()


def needs_of(spec: PolicySpec) -> dict[str, str | int | bool]:
    """Return what the pool keeps of a spec, by the names of its columns."""
    return {name: value.value if isinstance(value := getattr(spec, name), ActionSpace) else value
            for name in NEEDS}


def as_json(spec: PolicySpec) -> str:
    """Return a spec as it is kept."""
    return json.dumps({name: value.value if isinstance(value, ActionSpace) else value
                       for name, value in dataclasses.asdict(spec).items()})


def of_json(text: str) -> PolicySpec | None:
    """Return a spec that is kept; None when none is."""
    if not text:
        return None
    values = json.loads(text)
    size = values['image_size']
    return PolicySpec(**{**values, 'action_space': ActionSpace(values['action_space']),
                         'image_size': None if size is None else tuple(size)})


def contradictions(declared: dict[str, str | int | bool], spec: PolicySpec) -> str:
    """Return which needs the policy's server denies; '' for none."""
    said = needs_of(spec)
    wrong = [f'{name.replace("_", " ")} was submitted as {value} ({FLAGS[name]}), its server says '
             f'{said[name]}' for name, value in declared.items() if said[name] != value]
    return '; '.join([*wrong, 'correct the server, or submit it with --update and without the '
                              'flag: what is not stated is read from the server']) if wrong else ''


@dataclass(frozen=True)
class PolicyTarget:
    """
    A policy's address, with its IP address pinned, its token and its private authority.

    ``token`` is never printed; ``tls_ca`` is the authority's certificate in PEM. Both may be ''.
    """

    address: str
    token: str = field(default='', repr=False)
    tls_ca: str = field(default='', repr=False)

    def options(self, base: CallOptions = DEFAULTS, **changes: Any) -> CallOptions:
        """Return how it is called: as ``base`` with ``changes``, and what is shown to it."""
        return dataclasses.replace(base, token=self.token, tls_ca_pem=self.tls_ca, **changes)
