"""
A policy report: drafted, checked and counted; as Markdown and HTML; against an earlier one.

The page has no external files.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2

import arena_robot
from arena_robot.core.clock import Clock, to_iso
from arena_robot.core.errors import DataError
from arena_robot.reports.policy_report.behaviour import BehaviourSections
from arena_robot.reports.policy_report.checking import ReportChecker, added, checked_section
from arena_robot.reports.policy_report.material import ReportMaterial
from arena_robot.reports.policy_report.performance import PerformanceSections
from arena_robot.reports.policy_report.statements import (
    SECTIONS,
    STATISTICS,
    PolicyReport,
    ReportSection,
    Statement,
)


def draft_sections(checker: ReportChecker, material: ReportMaterial) -> list[ReportSection]:
    """Return the nine sections from statistics, not yet checked."""
    numbers, behaviour = PerformanceSections(checker, material), BehaviourSections(checker)
    sections = [numbers.overview(), numbers.comparative(), numbers.strengths(),
                numbers.weaknesses(), behaviour.instruction_following(), behaviour.reasoning(),
                behaviour.manipulation(), behaviour.robustness(), behaviour.failure_modes()]
    assert tuple(section.title for section in sections) == SECTIONS
    return sections


def report_of(policy: str, material: ReportMaterial, clock: Clock, since: str = '',
              ) -> PolicyReport:
    """
    Return the report on a policy from statistics alone.

    DataError when it has no session that counts, or none ``since`` that day.
    """
    checker = checker_of(policy, material, since)
    return finished_report(checker, draft_sections(checker, material), clock, since)


def checker_of(policy: str, material: ReportMaterial, since: str = '') -> ReportChecker:
    """Return the checker of a policy's report; DataError without sessions."""
    checker = ReportChecker(material, policy, since)
    if not checker.sessions:
        raise DataError(f'no session of {policy} counts since {since}; name an earlier day')
    return checker


def finished_report(checker: ReportChecker, sections: Iterable[ReportSection], clock: Clock,
                    since: str = '', method: str = STATISTICS) -> PolicyReport:
    """Return the report of drafted sections with everything dropped that does not hold."""
    checked = [checked_section(checker, section) for section in sections]
    return PolicyReport(
        checker.policy, to_iso(clock.now_ns()), len(checker.sessions),
        tuple(section for section, _, _ in checked), added(counts for _, _, counts in checked),
        tuple(drop for _, dropped, _ in checked for drop in dropped), method, since,
        max((s.created for s in checker.sessions), default=''))


TEMPLATES = Path(__file__).parents[1] / 'templates'
_SPECIAL = re.compile(r'([\\`*_\[\]<>#|~])')
HOW = ('A claim is supported where the 95 % interval of the share won, ties half, leaves one half '
       'out on its side; intervals are those of the ranking. Of 100 claims on equal policies '
       'about 5 pass. A policy is "equal" where the interval lies between 35 and 65 %. Quotes are '
       "pieces of the evaluators' words on the policy's letter, found by rules.")
_NUMBERS = re.compile(r'[:.]|\d')
_Key = tuple[tuple[str, ...], str]


def as_markdown(report: PolicyReport, site: str = '') -> str:
    """Return a report as Markdown; sessions link to ``site`` where it is given."""
    lines = [f'# {_plain(report.policy)}', '', _plain(head_words(report)), '',
             _plain(report.counts.words()), '',
             *(f'- **{title}**: {_plain(words)}' for title, words in report.summary()), '']
    for number, section in enumerate(report.sections, 1):
        lines += [f'## {number}. {section.title}', '']
        lines += [f'- {_statement(statement, site)}' for statement in section.statements] + ['']
    if report.dropped:
        lines += ['## Dropped', '', *(f'- {drop.section}: {_plain(drop.text)} ({_plain(drop.why)})'
                                      for drop in report.dropped), '']
    return '\n'.join([*lines, _plain(HOW), ''])


def as_html(report: PolicyReport, site: str = '') -> str:
    """Return a report as a page; sessions link to ``site`` where it is given."""
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
                              undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    return made.get_template('policy_report.html').render(
        report=report, site=site.rstrip('/'), head=head_words(report), how=HOW,
        version=arena_robot.__version__)


def head_words(report: PolicyReport) -> str:
    """Return when, of what and how a report was made."""
    since = f' since {report.since}' if report.since else ''
    newest = f', the newest of {report.newest[:10]}' if report.newest else ''
    return (f'Made {report.made[:16].replace("T", " ")} UTC by {report.method} from '
            f'{report.sessions} sessions{since}{newest}.')


def _statement(statement: Statement, site: str) -> str:
    text = _plain(statement.text)
    if statement.finding is not None:
        text += f' **{statement.finding.verdict.value}**: {_plain(statement.finding.words())}.'
    for cited in statement.citations:
        where = f'[{cited.session_id[:8]}]({site.rstrip("/")}/evaluations/{cited.place})' \
            if site else f'`{cited.session_id}`'
        text += f'\n  - {where}' + (f': “{_plain(cited.quote)}”' if cited.quote else '')
    return text


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _SPECIAL.sub(r'\\\1', ' '.join(text.split()))


@dataclass(frozen=True)
class ReportChange:
    """One claim that is new, gone or other; ``before`` or ``after`` is '' where there is none."""

    about: str
    before: str
    after: str


@dataclass(frozen=True)
class ReportDifference:
    """Two reports of a policy: sessions, claims that changed, statements that are new or gone."""

    policy: str
    sessions: tuple[int, int]
    claims: tuple[ReportChange, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def words(self) -> str:
        """Return the difference as text."""
        lines = [f'{self.policy}: {self.sessions[0]} sessions, then {self.sessions[1]}.']
        lines += [f'{claim.about}: {claim.before or "no claim"} → {claim.after or "no claim"}'
                  for claim in self.claims] or ['No claim changed.']
        lines += [f'+ {text}' for text in self.new] + [f'− {text}' for text in self.gone]
        return '\n'.join(lines)


def difference_of(before: PolicyReport, after: PolicyReport) -> ReportDifference:
    """Return what changed; DataError for reports on two policies."""
    if before.policy != after.policy:
        raise DataError(f'one report is on {before.policy}, the other on {after.policy}; name '
                        'two reports on one policy')
    old, new = _claims(before), _claims(after)
    changes = [ReportChange(_about(key), _claim_words(old.get(key)), _claim_words(new.get(key)))
               for key in sorted({*old, *new})
               if _relation(old.get(key)) != _relation(new.get(key))]
    old_texts, new_texts = _texts(before), _texts(after)
    return ReportDifference(
        before.policy, (before.sessions, after.sessions), tuple(changes),
        tuple(x for x in new_texts if x not in old_texts),
        tuple(x for x in old_texts if x not in new_texts))


def _claims(report: PolicyReport) -> dict[_Key, Statement]:
    return {(tuple(sorted(statement.claim.opponents)), statement.claim.category): statement
            for section in report.sections for statement in section.statements if statement.claim}


def _texts(report: PolicyReport) -> dict[str, None]:
    # Numbers change with every session: a statement is the same where its words before them are.
    return {f'{section.title}: {_NUMBERS.split(statement.text)[0].strip(" :")}': None
            for section in report.sections for statement in section.statements
            if not statement.claim}


def _relation(statement: Statement | None) -> object:
    return (statement.claim.relation, statement.finding and statement.finding.verdict) \
        if statement is not None and statement.claim else None


def _claim_words(statement: Statement | None) -> str:
    if statement is None or statement.claim is None:
        return ''
    finding = statement.finding
    return statement.claim.relation.value + (f' ({finding.verdict.value}; {finding.words()})'
                                             if finding else '')


def _about(key: _Key) -> str:
    opponents, category = key
    whom = opponents[0] if len(opponents) == 1 else f'{len(opponents)} others'
    return f'{category or "all categories"}, against {whom}'
