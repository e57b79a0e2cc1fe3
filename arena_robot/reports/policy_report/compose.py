"""A whole report: the nine sections drafted, checked and counted."""

from collections.abc import Iterable

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
