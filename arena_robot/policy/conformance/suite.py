"""Run every check against one address and report the results."""

import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from arena_robot.core.errors import PolicyError
from arena_robot.policy.conformance import answers, load, robustness, state
from arena_robot.policy.conformance.probe import (
    CheckFailed,
    CheckSkipped,
    Probe,
    ProbeLimits,
    advice,
    told,
)

PASS, FAIL, SKIP = 'pass', 'fail', 'skip'
WIDTH = 99

Check = Callable[[Probe], str]
FIRST: Check = answers.spec_is_sane
CHECKS: tuple[Check, ...] = (
    FIRST,
    answers.chunk_fits_the_spec,
    answers.values_are_in_range,
    answers.prompts_are_accepted,
    answers.black_images_are_answered,
    state.reset_is_harmless,
    state.repeats_after_reset,
    state.reset_begins_anew,
    state.episodes_are_isolated,
    state.reset_spares_the_others,
    robustness.odd_images_are_survived,
    robustness.missing_camera_is_survived,
    robustness.bad_state_is_survived,
    robustness.garbage_is_survived,
    robustness.broken_connections_are_survived,
    robustness.other_versions_are_refused,
    robustness.health_is_reported,
    load.latency_is_bearable,
    load.parallel_callers_are_served,
)


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


@dataclass(frozen=True)
class ConformanceReport:
    """All results for one address."""

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
        lines = [f'{self.address}', *(line for r in self.results for line in _lines(r))]
        counts = [sum(r.outcome == kind for r in self.results) for kind in (PASS, FAIL, SKIP)]
        return '\n'.join([*lines, f'{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped'])


def run_check(check: Check, probe: Probe) -> Result:
    """Run one check; raises only for an error of the suite itself."""
    started = time.perf_counter()
    outcome, found = FAIL, {}
    try:
        outcome, found = PASS, {'detail': check(probe)}
    except CheckSkipped as skipped:
        outcome, found = SKIP, {'detail': str(skipped)}
    except CheckFailed as failed:
        found = {'sent': failed.sent, 'received': failed.received, 'change': failed.change}
    except PolicyError as error:
        found = {'sent': 'a new connection', 'received': told(error), 'change': advice(error)}
    except OSError as error:
        found = {'sent': 'a new connection', 'received': str(error),
                 'change': 'keep the server process alive and listening'}
    asks = (check.__doc__ or '').strip()
    return Result(check.__name__, asks, outcome, time.perf_counter() - started, **found)


def run_suite(address: str, limits: ProbeLimits | None = None,
              checks: Iterable[Check] = CHECKS) -> ConformanceReport:
    """Return the report on ``address``; without a usable spec the other checks are skipped."""
    probe = Probe(address, limits or ProbeLimits())
    first = run_check(FIRST, probe)
    results = [first]
    for check in checks:
        if check is FIRST:
            continue
        if first.outcome == FAIL:
            results.append(Result(check.__name__, (check.__doc__ or '').strip(), SKIP, 0.0,
                                  'there is no usable spec'))
        else:
            results.append(run_check(check, probe))
    return ConformanceReport(address, tuple(results))


def _lines(result: Result) -> list[str]:
    name = result.check.replace('_', ' ')
    if result.outcome != FAIL:
        return [f'  {result.outcome}  {name}: {result.detail}']
    said = (('sent', result.sent), ('came back', result.received), ('change', result.change))
    return [f'  FAIL  {name}', *(
        textwrap.fill(text, WIDTH, initial_indent=f'        {heading:<10}',
                      subsequent_indent=' ' * 18) for heading, text in said)]
