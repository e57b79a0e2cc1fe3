"""What conformance suites share: a check and its outcome, and the report on all of them."""

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

PASS, FAIL, SKIP = 'pass', 'fail', 'skip'
WIDTH = 99

Tested = TypeVar('Tested')
Check = Callable[[Tested], str]


class CheckFailed(Exception):
    """A failed check: what was sent, what was received, what to change."""

    def __init__(self, sent: str, received: str, change: str) -> None:
        super().__init__(f'{sent}: {received}')
        self.sent, self.received, self.change = sent, received, change


class CheckSkipped(Exception):
    """A check that does not apply here, and why."""


@dataclass(frozen=True)
class Result:
    """Result of one check: outcome, a detail, and for a failure sent, received and change."""

    check: str
    asks: str
    outcome: str
    seconds: float
    detail: str = ''
    sent: str = ''
    received: str = ''
    change: str = ''

    def text(self) -> str:
        """Return the result for a person, in one line or, when it failed, in several."""
        name = self.check.replace('_', ' ')
        if self.outcome != FAIL:
            return f'  {self.outcome}  {name}: {self.detail}'
        said = (('sent', self.sent), ('came back', self.received), ('change', self.change))
        return '\n'.join([f'  FAIL  {name}', *(
            textwrap.fill(text, WIDTH, initial_indent=f'        {heading:<10}',
                          subsequent_indent=' ' * 18) for heading, text in said)])


@dataclass(frozen=True)
class ConformanceReport:
    """All results for what stands at ``address``."""

    address: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.outcome != FAIL for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {'address': self.address, 'passed': self.passed,
                'results': [asdict(result) for result in self.results]}

    def text(self) -> str:
        """Return the report for a person."""
        return '\n'.join([self.address, *(r.text() for r in self.results), self.counts()])

    def counts(self) -> str:
        """Return how many checks passed, failed and were skipped."""
        counts = [sum(r.outcome == kind for r in self.results) for kind in (PASS, FAIL, SKIP)]
        return f'{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped'


def run_check(check: Check[Tested], tested: Tested,
              explain: Callable[[Exception], CheckFailed | None]) -> Result:
    """
    Run one check and return its result.

    ``explain`` turns an error that the check did not expect into its verdict; an error for which
    it returns None is raised.
    """
    started = time.perf_counter()
    outcome, found = FAIL, {}
    try:
        outcome, found = PASS, {'detail': check(tested)}
    except CheckSkipped as skipped:
        outcome, found = SKIP, {'detail': str(skipped)}
    except Exception as error:
        failed = error if isinstance(error, CheckFailed) else explain(error)
        if failed is None:
            raise
        found = {'sent': failed.sent, 'received': failed.received, 'change': failed.change}
    return Result(check.__name__, asked(check), outcome, time.perf_counter() - started, **found)


def skipped(checks: Sequence[Check[Tested]], why: str) -> list[Result]:
    """Return results of checks that were not run."""
    return [Result(check.__name__, asked(check), SKIP, 0.0, why) for check in checks]


def asked(check: Check[Tested]) -> str:
    """Return what a check asks for, its docstring."""
    return (check.__doc__ or '').strip()
