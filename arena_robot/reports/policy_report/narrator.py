"""
The sections of a report as a model chooses them; what does not hold is sent back once.

The model chooses claims, topics and quotes. The sentences are the program's own, so that a
statement says no more than what was checked.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ModelError
from arena_robot.models.chat import ChatClient
from arena_robot.reports.policy_report.checking import ReportChecker, added, checked_section
from arena_robot.reports.policy_report.compose import checker_of, draft_sections, finished_report
from arena_robot.reports.policy_report.material import ReportMaterial
from arena_robot.reports.policy_report.performance import claim_words
from arena_robot.reports.policy_report.prompts import (
    PROMPT_VERSION,
    about_messages,
    about_schema,
    section_messages,
    section_schema,
)
from arena_robot.reports.policy_report.statements import (
    CheckCounts,
    Citation,
    Claim,
    ClaimVerdict,
    Dropped,
    PolicyReport,
    Relation,
    ReportSection,
    Statement,
)
from arena_robot.reports.policy_report.topics import DOING_BADLY, DOING_WELL

_SAYS = {Relation.BETTER: DOING_WELL, Relation.WORSE: DOING_BADLY, Relation.EQUAL: ''}
log = logging.getLogger(__name__)


class ReportNarrator:
    """Writes reports with a chat model; a section that it cannot write is the statistics' own."""

    def __init__(self, chat: ChatClient) -> None:
        self._chat = chat

    @property
    def method(self) -> str:
        """Return who writes, for the report."""
        return f'{self._chat.model}, prompts {PROMPT_VERSION}'

    def report(self, policy: str, material: ReportMaterial, clock: Clock, since: str = '',
               ) -> PolicyReport:
        """Return the report; DataError without sessions."""
        checker = checker_of(policy, material, since)
        written = [self._section(checker, checked_section(checker, one)[0])
                   for one in draft_sections(checker, material)]
        found = finished_report(checker, [section for section, _, _ in written], clock, since,
                                self.method)
        dropped = tuple(one for _, gone, _ in written for one in gone)
        return dataclasses.replace(found, dropped=dropped + found.dropped, counts=added(
            counts for _, _, counts in written))

    def prompts(self, policy: str, material: ReportMaterial, since: str = '') -> list[str]:
        """Return what the first question of each section would send, with its greatest cost."""
        checker = checker_of(policy, material, since)
        return [self._chat.preview(section_messages(checker, checked_section(checker, one)[0]),
                                   section_schema(checker, one.title))
                for one in draft_sections(checker, material)]

    def _section(self, checker: ReportChecker, draft: ReportSection,
                 ) -> tuple[ReportSection, list[Dropped], CheckCounts]:
        try:
            first = self._asked(checker, draft)
            counts = checked_section(checker, first)[2]
            if problems := _problems(checker, first):
                first = self._asked(checker, draft, problems)
            kept, dropped = _held(checker, first)
            kept, more = self._about(checker, kept)
        except ModelError as error:
            log.warning('section %s is that of the statistics: %s', draft.title, error)
            return draft, [Dropped(draft.title, 'the section of the model', str(error))], \
                CheckCounts()
        if not kept.statements:
            return draft, dropped + more, counts
        return kept, dropped + more, counts

    def _asked(self, checker: ReportChecker, draft: ReportSection,
               again: Sequence[str] = ()) -> ReportSection:
        answer, _ = self._chat.ask_json(section_messages(checker, draft, again),
                                        section_schema(checker, draft.title))
        return ReportSection(draft.title, tuple(
            _statement(checker.policy, one) for one in answer['statements']))

    def _about(self, checker: ReportChecker, section: ReportSection,
               ) -> tuple[ReportSection, list[Dropped]]:
        """Drop the citations that the model itself finds not to be about their statement."""
        count = sum(len(one.citations) for one in section.statements)
        if not count:
            return section, []
        answer, _ = self._chat.ask_json(about_messages(checker, section.statements),
                                        about_schema(count))
        said = iter(answer['about'])
        dropped: list[Dropped] = []
        kept: list[Statement] = []
        for one in section.statements:
            good = tuple(c for c in one.citations if next(said))
            dropped += [Dropped(section.title, f'[{c.session_id}] {c.quote}',
                                'not about the statement, says the model')
                        for c in one.citations if c not in good]
            if good or one.claim:
                kept.append(dataclasses.replace(one, citations=good))
            else:
                dropped.append(Dropped(section.title, one.text, 'no citation of it holds'))
        return ReportSection(section.title, tuple(kept)), dropped


def _statement(policy: str, given: Mapping[str, Any]) -> Statement:
    """Return a chosen statement, with the sentence of its claim or topic."""
    cited = tuple(dict.fromkeys(Citation(c['session'], c['quote']) for c in given['citations']))
    topic = given['topic']
    for one in given['claims']:
        claim = Claim(policy, tuple(dict.fromkeys(one['opponents'])), one['category'],
                      Relation(one['relation']))
        return Statement(claim_words(claim), claim, cited, claim.category,
                         topic=_SAYS[claim.relation])
    return Statement(f'Evaluators speak of {topic}.', citations=cited, topic=topic)


def _empty(statement: Statement) -> str:
    """Return what a chosen statement lacks, '' for nothing."""
    if statement.claim is None and not statement.topic:
        return 'it has no claim and no topic'
    return '' if statement.claim or statement.citations else 'its topic has no citation'


def _problems(checker: ReportChecker, section: ReportSection) -> list[str]:
    """Return what to send back: each problem, with the numbers of a refuted claim."""
    found = []
    for number, given in enumerate(section.statements, 1):
        one, refused = checker.check(given)
        if why := _empty(given):
            found.append(f'statement {number}: {why}')
        if one.finding is not None and one.finding.verdict is ClaimVerdict.REFUTED:
            found.append(f'statement {number}: the sessions refute its claim: '
                         f'{one.finding.words()}')
        found += [f'statement {number}: a citation does not hold: {why}' for _, why in refused]
    return found


def _held(checker: ReportChecker, section: ReportSection,
          ) -> tuple[ReportSection, list[Dropped]]:
    """Return the statements that stand, with the citations that hold; and what does not."""
    allowed: list[Statement] = []
    dropped: list[Dropped] = []
    for one in section.statements:
        again = any(one.text == other.text for other in allowed)
        if why := _empty(one) or ('it repeats a statement' if again else ''):
            dropped.append(Dropped(section.title, 'a statement of the model', why))
        else:
            allowed.append(one)
    kept, more, _ = checked_section(checker, ReportSection(section.title, tuple(allowed)))
    return kept, dropped + more
