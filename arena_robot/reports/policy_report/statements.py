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
SUMMARISED = 3    # statements of a section in the summary, which is read in one go
# How many of how many citations, kept out of the making of the rules and read by a person, the
# rules for topics judge as that person does; test/reports/test_policy_report.py measures it.
RULES_RIGHT = 95, 100


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
    of the claim found. ``topic`` is what every quote has to say of the policy, '' for no rule.
    ``short`` is the statement in a few words, for the summary; a claim has its own.
    """

    text: str
    claim: Claim | None = None
    citations: tuple[Citation, ...] = ()
    category: str = ''
    finding: ClaimFinding | None = None
    topic: str = ''
    short: str = ''

    def in_short(self) -> str:
        """Return the statement in a few words, '' where the summary leaves it out."""
        claim, finding = self.claim, self.finding
        if claim is None or finding is None or finding.share is None:
            return self.short
        against = claim.opponents[0] if len(claim.opponents) == 1 else 'the others'
        where = f' in {claim.category}' if claim.category else ''
        return (f'{claim.relation.value} against {against}{where} ({finding.verdict.value}, '
                f'won {100 * finding.share:.0f} %)')


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
                f'Of {self.citations + self.refused_citations} citations {self.citations} passed '
                f'the rules, {self.refused_citations} were refused; the rules were right on '
                f'{RULES_RIGHT[0]} of {RULES_RIGHT[1]} hand-labelled ones that they were not made '
                'with.')


@dataclass(frozen=True)
class PolicyReport:
    """
    A report on one policy; ``counts`` are those of the draft, before anything was dropped.

    ``method`` is ``statistics``, or the model that chose the statements with its prompts' version.
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

    def summary(self) -> tuple[tuple[str, str], ...]:
        """Return each section's title with its first statements in a few words, each once."""
        return tuple((section.title, '; '.join(list(dict.fromkeys(
            words for s in section.statements if (words := s.in_short())))[:SUMMARISED])
            or 'too few sessions to tell') for section in self.sections)


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
