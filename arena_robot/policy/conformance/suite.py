"""Run every check against one address and report the results."""

from collections.abc import Callable, Iterable

from arena_robot.core import conformance
from arena_robot.core.conformance import FAIL, CheckFailed, ConformanceReport, Result
from arena_robot.core.errors import PolicyError
from arena_robot.policy.conformance import answers, load, robustness, state
from arena_robot.policy.conformance.probe import Probe, ProbeLimits, advice, told

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


def run_check(check: Check, probe: Probe) -> Result:
    """Run one check; raises only for an error of the suite itself."""
    return conformance.run_check(check, probe, _explained)


def run_suite(address: str, limits: ProbeLimits | None = None,
              checks: Iterable[Check] = CHECKS) -> ConformanceReport:
    """Return the report on ``address``; without a usable spec the other checks are skipped."""
    probe = Probe(address, limits or ProbeLimits())
    first = run_check(FIRST, probe)
    others = [check for check in checks if check is not FIRST]
    results = conformance.skipped(others, 'there is no usable spec') \
        if first.outcome == FAIL else [run_check(check, probe) for check in others]
    return ConformanceReport(address, (first, *results))


def _explained(error: Exception) -> CheckFailed | None:
    if isinstance(error, PolicyError):
        return CheckFailed('a new connection', told(error), advice(error))
    if isinstance(error, OSError):
        return CheckFailed('a new connection', str(error),
                           'keep the server process alive and listening')
    return None
