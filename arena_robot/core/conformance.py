"""What conformance suites share: a check and its outcome, and the report on all of them."""

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, TypeVar

PASS, WARN, FAIL, SKIP = 'pass', 'warn', 'fail', 'skip'
WIDTH = 99    # of a line, as in the sources
MANY = 3      # checks skipped for one reason; more of them are one line

Tested = TypeVar('Tested')
Check = Callable[[Tested], str]


class CheckFailed(Exception):
    """A failed check: what was sent, what was received, what to change."""

    outcome = FAIL

    def __init__(self, sent: str, received: str, change: str) -> None:
        super().__init__(f'{sent}: {received}')
        self.sent, self.received, self.change = sent, received, change


class CheckWarned(CheckFailed):
    """What is allowed and suspicious; ``change`` says where to look."""

    outcome = WARN


class CheckSkipped(Exception):
    """A check that does not apply here, and why."""


@dataclass(frozen=True)
class Result:
    """
    Result of one check: outcome and a detail.

    ``sent``, ``received`` and ``change`` are there after a failure or a warning.
    """

    check: str
    asks: str
    outcome: str
    seconds: float
    detail: str = ''
    sent: str = ''
    received: str = ''
    change: str = ''

    def text(self) -> str:
        """Return the result for a person: one line, several after a failure or a warning."""
        name = self.check.replace('_', ' ')
        if self.outcome not in (FAIL, WARN):
            return f'  {self.outcome}  {name}: {self.detail}'
        advice = 'change' if self.outcome == FAIL else 'look at'
        parts = (('sent', self.sent), ('came back', self.received), (advice, self.change))
        return '\n'.join([f'  {self.outcome.upper()}  {name}', *(
            textwrap.fill(text, WIDTH, initial_indent=f'        {heading:<10}',
                          subsequent_indent=' ' * 18) for heading, text in parts)])


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
        groups = groupby(self.results, lambda r: r.detail if r.outcome == SKIP else id(r))
        return '\n'.join([self.address, *(_together(list(group)) for _, group in groups),
                          self.counts()])

    def counts(self) -> str:
        """Return how many checks passed, failed and were skipped."""
        passed, failed, skips, warned = (sum(r.outcome == kind for r in self.results)
                                         for kind in (PASS, FAIL, SKIP, WARN))
        warnings = f', {warned} with a warning' if warned else ''
        return f'{passed} passed{warnings}, {failed} failed, {skips} skipped'


def _together(results: Sequence[Result]) -> str:
    """Return results for a person; many that were skipped for the same reason are one line."""
    if len(results) > MANY:
        return f'  {SKIP}  {len(results)} checks: {results[0].detail}'
    return '\n'.join(result.text() for result in results)


def run_check(check: Check[Tested], tested: Tested,
              explain: Callable[[Exception], CheckFailed | None]) -> Result:
    """
    Run one check and return its result.

    ``explain`` turns an error that the check did not expect into its verdict; an error for which
    it returns None is raised.
    """
    started = time.perf_counter()
    outcome, result = FAIL, {}
    try:
        outcome, result = PASS, {'detail': check(tested)}
    except CheckSkipped as skipped:
        outcome, result = SKIP, {'detail': str(skipped)}
    except Exception as error:
        failed = error if isinstance(error, CheckFailed) else explain(error)
        if failed is None:
            raise
        outcome = failed.outcome
        result = {'sent': failed.sent, 'received': failed.received, 'change': failed.change}
    return Result(check.__name__, asked(check), outcome, time.perf_counter() - started, **result)


def skipped(checks: Sequence[Check[Tested]], why: str) -> list[Result]:
    """Return results of checks that were not run."""
    return [Result(check.__name__, asked(check), SKIP, 0.0, why) for check in checks]


def asked(check: Check[Tested]) -> str:
    """Return what a check asks for, its docstring."""
    return (check.__doc__ or '').strip()
