"""
Checks of claims and citations against the sessions.

A claim is measured on the sessions of its policy against its opponents in its category: the share
won, ties half, with the interval of the ranking's Bradley–Terry (:func:`.choice.difference`)
on these sessions, where the opponents count as one. *better* is supported where the whole interval
is above one half and refuted where it is below; *worse* the other way round; *equal* is supported
where the interval lies within ``EQUAL_WITHIN`` of one half and refuted where it leaves one half
out. Everything else cannot be tested: too few sessions, or an interval that tells nothing. A claim
about another policy, an unknown opponent or an unknown category is refuted.

Intervals are at 95 %, each by itself: of 100 claims on equal policies about 5 are supported.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from arena_robot.core.task_categories import CATEGORIES
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import LEAST_COMPARISONS
from arena_robot.ranking.intervals.choice import difference
from arena_robot.reports.policy_report.material import ReportMaterial, ReportSession
from arena_robot.reports.policy_report.statements import (
    CheckCounts,
    Citation,
    Claim,
    ClaimFinding,
    ClaimVerdict,
    Dropped,
    Relation,
    ReportSection,
    Statement,
)
from arena_robot.reports.policy_report.topics import (
    DOING_BADLY,
    DOING_WELL,
    TOPICS,
    quote_problem,
    speaks_to_a_reader,
)

OUTCOME = {DOING_WELL: 1.0, DOING_BADLY: 0.0}
EQUAL_WITHIN = 0.15    # of a share won: 35 to 65 % is called equal, as render.HOW says
LONGEST_QUOTE = 400    # characters: a paragraph of an evaluator, not a whole form
_OPPONENTS = 'the opponents'


class ReportChecker:
    """Checks what is said about one policy, ``since`` a day; measurements are kept."""

    def __init__(self, material: ReportMaterial, policy: str, since: str = '') -> None:
        self.policy = policy
        self.sessions = material.of(policy, since)
        self._mine = {s.session_id: s for s in self.sessions}
        self._all = material.by_id()
        self._met = {s.opponent(policy) for s in self.sessions}
        self._measured: dict[tuple[tuple[str, ...], str], ClaimFinding] = {}

    def finding(self, claim: Claim) -> ClaimFinding:
        """Return the verdict on a claim with its numbers."""
        if wrong := self._no_claim(claim):
            return ClaimFinding(ClaimVerdict.REFUTED, why=wrong)
        finding = self.measured(claim.opponents, claim.category)
        return dataclasses.replace(finding, verdict=_verdict(claim.relation, finding))

    def measured(self, opponents: Iterable[str], category: str = '') -> ClaimFinding:
        """Return wins, share and interval against opponents in a category, as untestable."""
        key = tuple(sorted(set(opponents))), category
        if key not in self._measured:
            self._measured[key] = _measure(self.policy, [
                s for s in self.sessions if s.opponent(self.policy) in key[0]
                and category in ('', s.category)])
        return self._measured[key]

    def problem(self, citation: Citation, statement: Statement) -> str:
        """Return why a citation does not hold for its statement, '' when it does."""
        session = self._mine.get(citation.session_id)
        if session is None:
            elsewhere = self._all.get(citation.session_id)
            return ('there is no such session' if elsewhere is None else
                    f'the session is not one of {self.policy} in this report')
        if statement.topic and statement.topic not in (*TOPICS, *OUTCOME):
            return f"there is no topic '{statement.topic:.60}'"
        wanted = {statement.category, statement.claim.category if statement.claim else ''} - {''}
        if wanted - {session.category}:
            return (f'the session is of the category {session.category or "(none)"}, not '
                    f"{', '.join(sorted(wanted))}")
        if statement.claim and session.opponent(self.policy) not in statement.claim.opponents:
            return f'the opponent was {session.opponent(self.policy)}'
        if len(citation.quote) > LONGEST_QUOTE:
            return f'the quote is longer than {LONGEST_QUOTE} characters'
        if citation.quote and not session.says(citation.quote):
            return "the quote does not stand in the evaluator's words"
        if speaks_to_a_reader(citation.quote):
            return 'the quote gives orders'
        return self._support(session, citation, statement.topic)

    def _support(self, session: ReportSession, citation: Citation, topic: str) -> str:
        """Return why session and quote do not support a topic, '' when they do or none is set."""
        if topic in OUTCOME and session.won(self.policy) != OUTCOME[topic]:
            return f'the outcome of the session does not say "{topic}"'
        if citation.quote:
            return quote_problem(session, session.slot(self.policy), citation.quote, topic)
        return '' if not topic or topic in OUTCOME else f'no words are quoted for "{topic}"'

    def check(self, statement: Statement) -> tuple[Statement, list[tuple[Citation, str]]]:
        """Return a statement with its finding and the citations that hold; and the others."""
        refused = [(citation, why) for citation in statement.citations
                   if (why := self.problem(citation, statement))]
        bad = {c for c, _ in refused}
        return dataclasses.replace(
            statement, finding=self.finding(statement.claim) if statement.claim else None,
            citations=tuple(self._timed(c) for c in statement.citations if c not in bad)), refused

    def _timed(self, citation: Citation) -> Citation:
        session = self._mine[citation.session_id]
        return dataclasses.replace(citation, at_s=session.moments.get(session.slot(self.policy)))

    def _no_claim(self, claim: Claim) -> str:
        if claim.policy != self.policy:
            return f"the claim is about '{claim.policy:.60}', the report about {self.policy}"
        if not claim.opponents:
            return 'the claim names no opponent'
        strange = sorted(set(claim.opponents) - self._met)
        if strange:
            return f"never compared with {', '.join(name[:60] for name in strange)}"
        if claim.category and claim.category not in CATEGORIES:
            return f"there is no category '{claim.category:.60}'"
        return ''


def checked_section(checker: ReportChecker, section: ReportSection,
                    ) -> tuple[ReportSection, list[Dropped], CheckCounts]:
    """
    Return a section without refuted claims and refused citations; what was dropped; the counts.

    A statement whose citations were all refused is dropped as well.
    """
    kept: list[Statement] = []
    dropped: list[Dropped] = []
    verdicts: list[ClaimVerdict] = []
    good = bad = 0
    for drafted in section.statements:
        statement, refused = checker.check(drafted)
        good, bad = good + len(statement.citations), bad + len(refused)
        dropped += [Dropped(section.title, f'[{citation.session_id:.40}] {citation.quote:.200}',
                            why) for citation, why in refused]
        if statement.finding is not None:
            verdicts.append(statement.finding.verdict)
        if statement.finding is not None and statement.finding.verdict is ClaimVerdict.REFUTED:
            dropped.append(Dropped(section.title, statement.text, statement.finding.words()))
        elif refused and not statement.citations and statement.finding is None:
            dropped.append(Dropped(section.title, statement.text, 'no citation of it holds'))
        else:
            kept.append(statement)
    counted = CheckCounts(
        verdicts.count(ClaimVerdict.SUPPORTED), verdicts.count(ClaimVerdict.REFUTED),
        verdicts.count(ClaimVerdict.UNTESTABLE), good, bad)
    return ReportSection(section.title, tuple(kept)), dropped, counted


def added(counts: Iterable[CheckCounts]) -> CheckCounts:
    """Return the sum of counts."""
    rows = [dataclasses.astuple(row) for row in counts]
    return CheckCounts(*(sum(column) for column in zip(*rows, strict=True))) if rows \
        else CheckCounts()


def relation_of(finding: ClaimFinding) -> Relation | None:
    """Return the relation that a measurement supports, None where it supports none."""
    return next((relation for relation in Relation
                 if _verdict(relation, finding) is ClaimVerdict.SUPPORTED), None)


def _verdict(relation: Relation, finding: ClaimFinding) -> ClaimVerdict:
    if finding.low is None or finding.high is None:
        return ClaimVerdict.UNTESTABLE
    above, below = finding.low > 0.5, finding.high < 0.5
    if relation is Relation.EQUAL:
        if above or below:
            return ClaimVerdict.REFUTED
        close = finding.low >= 0.5 - EQUAL_WITHIN and finding.high <= 0.5 + EQUAL_WITHIN
        return ClaimVerdict.SUPPORTED if close else ClaimVerdict.UNTESTABLE
    right, wrong = (above, below) if relation is Relation.BETTER else (below, above)
    return ClaimVerdict.SUPPORTED if right else (
        ClaimVerdict.REFUTED if wrong else ClaimVerdict.UNTESTABLE)


def _measure(policy: str, sessions: list[ReportSession]) -> ClaimFinding:
    outcome = [s.won(policy) for s in sessions]
    wins, ties, losses = (outcome.count(x) for x in (1.0, 0.5, 0.0))
    if not outcome:
        return ClaimFinding(ClaimVerdict.UNTESTABLE, why='they never met in these sessions')
    share = (wins + ties / 2) / len(outcome)
    if len(outcome) < LEAST_COMPARISONS:
        return ClaimFinding(ClaimVerdict.UNTESTABLE, wins, ties, losses, share)
    zeros = np.zeros(len(outcome), dtype=int)
    gap = difference(Comparisons.build(
        zeros, zeros + 1, outcome, items=(policy, _OPPONENTS),
        evaluator=[s.evaluator for s in sessions],
        institution=[s.institution for s in sessions]), policy, _OPPONENTS)
    low, high = (None, None) if gap is None else (_share(gap[1]), _share(gap[2]))
    return ClaimFinding(ClaimVerdict.UNTESTABLE, wins, ties, losses, share, low, high)


def _share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -700.0), 700.0)))
