"""Run every check against one address and report the results."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterable

from arena_robot.core import conformance
from arena_robot.core.conformance import FAIL, SKIP, CheckFailed, ConformanceReport, Result
from arena_robot.core.errors import PolicyError
from arena_robot.policy.conformance import answers, robustness, suspicious
from arena_robot.policy.conformance.probe import (
    NORMAL_QUERY,
    Probe,
    ProbeLimits,
    advice,
    told,
)

Check = Callable[[Probe], str]
FIRST: Check = answers.spec_is_sane
CHECKS: tuple[Check, ...] = (
    FIRST,
    answers.chunk_fits_the_spec,
    answers.values_are_in_range,
    answers.prompts_are_accepted,
    answers.black_images_are_answered,
    answers.reset_is_harmless,
    answers.repeats_after_reset,
    answers.seed_repeats,
    answers.samples_are_alike,
    answers.reset_begins_anew,
    answers.episodes_are_isolated,
    answers.reset_spares_the_others,
    robustness.odd_images_are_survived,
    robustness.missing_camera_is_survived,
    robustness.bad_state_is_survived,
    robustness.garbage_is_survived,
    robustness.broken_connections_are_survived,
    robustness.other_versions_are_refused,
    robustness.health_is_reported,
    robustness.latency_is_bearable,
    robustness.parallel_callers_are_served,
    suspicious.first_answer_is_quick,
    suspicious.no_answer_is_a_spike,
    suspicious.memory_stays,
    suspicious.output_varies,
    suspicious.prompt_is_used,
    suspicious.prompt_is_followed,
    suspicious.pictures_are_used,
    suspicious.first_action_is_near,
    suspicious.velocities_are_fractions,
)


def run_check(check: Check, probe: Probe) -> Result:
    """Run one check; raises only for an error of the suite itself."""
    return conformance.run_check(check, probe, _explained)


def run_suite(address: str, limits: ProbeLimits | None = None,
              checks: Iterable[Check] = CHECKS) -> ConformanceReport:
    """Return the report on ``address``; without a usable spec the other checks are skipped."""
    probe = Probe(address, limits or ProbeLimits())
    first = run_check(FIRST, probe)
    rest = [check for check in checks if check is not FIRST]
    results = conformance.skipped(rest, 'there is no usable spec') \
        if first.outcome == FAIL else _run(rest, probe)
    return ConformanceReport(address, (first, *results))


def _run(checks: list[Check], probe: Probe) -> list[Result]:
    """Return the results; a cause is reported once, and nothing begins after the budget."""
    results: list[Result] = []
    causes: dict[str, str] = {}
    end_s = time.monotonic() + probe.limits.budget_s
    for number, check in enumerate(checks):
        if time.monotonic() > end_s:
            return [*results, _too_slow(check, probe),
                    *conformance.skipped(checks[number + 1:], 'there was no time left')]
        result = _once(run_check(check, probe), causes)
        results.append(result)
        if result.outcome == FAIL and result.sent.startswith(NORMAL_QUERY) \
                and check is answers.chunk_fits_the_spec:
            return [*results, *conformance.skipped(
                checks[number + 1:], f"the normal query failed, see '{_spoken(result.check)}'")]
    return results


def _once(result: Result, causes: dict[str, str]) -> Result:
    """Return a result; an error that an earlier check met is not a failure again."""
    cause = re.sub(r'^caller-\d+: |reference \w+', '', result.received)
    if result.outcome != FAIL or not cause.endswith(']'):
        return result
    first = causes.setdefault(cause, result.check)
    if first == result.check:
        return result
    return dataclasses.replace(result, outcome=SKIP, sent='', received='', change='',
                               detail=f"the same error as in '{_spoken(first)}'")


def _too_slow(check: Check, probe: Probe) -> Result:
    limit_s = probe.limits.budget_s
    return Result(check.__name__, conformance.asked(check), FAIL, 0.0, '', 'the checks before',
                  f'they took longer than {limit_s:g} s in all', 'answer faster: the whole suite '
                  f'has {limit_s:g} s')


def _spoken(check: str) -> str:
    return check.replace('_', ' ')


def _explained(error: Exception) -> CheckFailed | None:
    if isinstance(error, PolicyError):
        return CheckFailed('a new connection', told(error), advice(error))
    if isinstance(error, OSError):
        return CheckFailed('a new connection', str(error),
                           'keep the server process alive and listening')
    return None
