"""Checks of a policy before it enters the pool, and while it is there."""

import math

from arena_robot.core.conformance import FAIL
from arena_robot.core.errors import ArenaError
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.conformance.probe import ProbeLimits
from arena_robot.policy.conformance.suite import run_suite
from arena_robot.policy.connect import connect
from arena_robot.policy.options import CallOptions
from arena_robot.server.policy_target import PolicyTarget

BUDGET_S = 300.0    # a policy that compiles at its first query takes minutes
PROBE = CallOptions(connect_timeout_s=3.0, infer_timeout_s=5.0)


def probe(target: PolicyTarget) -> str:
    """Return '' when a policy answers with a spec, else what is wrong."""
    try:
        with connect(target.address, target.options(PROBE)) as policy:
            rate = policy.spec.control_rate_hz
    except ArenaError as error:
        return f'{error.code}: {error}'
    return '' if math.isfinite(rate) else 'the spec has no control rate'


def spec(target: PolicyTarget) -> PolicySpec:
    """Return what a policy's server says of it; raises PolicyError, ConfigError."""
    with connect(target.address, target.options(PROBE)) as policy:
        return policy.spec


def conformance(target: PolicyTarget) -> str:
    """Return '' when the policy passes the suite, else what it must change."""
    report = run_suite(target.address, ProbeLimits(
        calls=20, budget_s=BUDGET_S, options=target.options()))
    failed = [r for r in report.results if r.outcome == FAIL]
    return '; '.join(f"{r.check.replace('_', ' ')}: {r.received} ({r.change})" for r in failed)
