"""What a policy report consists of: sections of statements, with claims, citations, findings."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError

VERSION = 1
SECTIONS = ('Policy Overview', 'Comparative Performance', 'Strengths', 'Weaknesses',
            'Instruction Following', 'Reasoning', 'Manipulation Skills',
            'Robustness to Scene Variations', 'Common Failure Modes')
STATISTICS = 'statistics'


class Relation(str, Enum):
    """What a claim says of a policy against others."""

    BETTER = 'better'
    EQUAL = 'equal'
    WORSE = 'worse'


class ClaimVerdict(str, Enum):
    """What the sessions say of a claim."""

    SUPPORTED = 'supported'
    REFUTED = 'refuted'
    UNTESTABLE = 'untestable'


@dataclass(frozen=True)
class Claim:
    """``policy`` against all ``opponents`` together in a category; '' is every category."""

    policy: str
    opponents: tuple[str, ...]
    category: str
    relation: Relation


@dataclass(frozen=True)
class Citation:
    """
    A session as evidence; ``quote`` are words of its evaluator, '' for the session alone.

    ``at_s`` is the moment to look at in the videos, where an audit knows one.
    """

    session_id: str
    quote: str = ''
    at_s: float | None = None

    @property
    def place(self) -> str:
        """Return the end of an address that leads to the session and its moment."""
        return self.session_id + ('' if self.at_s is None else f'#t={self.at_s:.1f}')


@dataclass(frozen=True)
class ClaimFinding:
    """
    A claim's verdict with its numbers: wins, ties, losses of the policy, share won (ties half).

    ``low`` and ``high`` bound the share at 95 %; None with too few sessions. ``why`` says how the
    verdict came about.
    """

    verdict: ClaimVerdict
    wins: int = 0
    ties: int = 0
    losses: int = 0
    share: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ''

    @property
    def count(self) -> int:
        """Return the number of comparisons."""
        return self.wins + self.ties + self.losses

    def words(self) -> str:
        """Return share, interval and number of comparisons in words."""
        if self.share is None:
            return self.why
        counted = f'{self.wins} won, {self.ties} tied, {self.losses} lost'
        if self.low is None or self.high is None:
            return f'too few to tell: {counted}'
        return (f'won {100 * self.share:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} %),'
                f' n = {self.count}: {counted}')


@dataclass(frozen=True)
class Statement:
    """
    One sentence or more, with a comparative claim or without.

    Every cited session belongs to ``category`` where one is named. ``finding`` is what the check
    of the claim found.
    """

    text: str
    claim: Claim | None = None
    citations: tuple[Citation, ...] = ()
    category: str = ''
    finding: ClaimFinding | None = None


@dataclass(frozen=True)
class ReportSection:
    """One of the nine sections."""

    title: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Dropped:
    """A statement or a citation that is not in the report, and why."""

    section: str
    text: str
    why: str


@dataclass(frozen=True)
class CheckCounts:
    """How many claims the sessions support, refute and cannot test; citations that hold or not."""

    supported: int = 0
    refuted: int = 0
    untestable: int = 0
    citations: int = 0
    refused_citations: int = 0

    @property
    def claims(self) -> int:
        """Return the number of claims."""
        return self.supported + self.refuted + self.untestable

    def words(self) -> str:
        """Return the counts as a sentence."""
        def share(count: int) -> str:
            return f'{count} ({100 * count / self.claims:.0f} %)' if self.claims else '0'
        return (f'Of {self.claims} comparative claims {share(self.supported)} are supported, '
                f'{share(self.refuted)} refuted, {share(self.untestable)} cannot be tested. '
                f'Of {self.citations + self.refused_citations} citations {self.citations} hold, '
                f'{self.refused_citations} were refused.')


@dataclass(frozen=True)
class PolicyReport:
    """
    A report on one policy; ``counts`` are those of the draft, before anything was dropped.

    ``method`` is ``statistics``, or the model that wrote the prose with its prompts' version.
    ``made`` and ``since`` are ISO 8601; ``sessions`` is the number of sessions it is about.
    """

    policy: str
    made: str
    sessions: int
    sections: tuple[ReportSection, ...]
    counts: CheckCounts
    dropped: tuple[Dropped, ...] = ()
    method: str = STATISTICS
    since: str = ''
    newest: str = ''


def report_to_json(report: PolicyReport) -> dict[str, Any]:
    """Return a report for JSON."""
    return {'version': VERSION, **dataclasses.asdict(report)}


def report_from_json(data: Any, where: str = 'report') -> PolicyReport:
    """Return a report from JSON; DataError when it is none."""
    if not isinstance(data, dict) or data.get('version') != VERSION:
        raise DataError(f'{where} is no policy report of version {VERSION}')
    try:
        return build(PolicyReport, {k: v for k, v in data.items() if k != 'version'}, where)
    except ConfigError as error:
        raise DataError(f'{where} is no policy report: {error}') from error
