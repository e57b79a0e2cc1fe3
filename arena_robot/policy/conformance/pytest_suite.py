"""
The suite as a pytest class, for the tests of a policy.

In your test file::

    from arena_robot.policy.conformance.pytest_suite import PolicyConformance

    class TestMyPolicy(PolicyConformance):
        @classmethod
        def make_policy(cls):
            return MyPolicy()

Every check is one test; a failure says what was sent, what was received and what to change.
"""

from collections.abc import Iterator

import pytest

from arena_robot.core.conformance import FAIL, SKIP
from arena_robot.policy.base import Policy
from arena_robot.policy.conformance.probe import Probe, ProbeLimits
from arena_robot.policy.conformance.suite import CHECKS, Check, run_check
from arena_robot.policy.connect import SERVERS


class PolicyConformance:
    """Serves ``make_policy()`` on a free local port and runs every check against it."""

    protocol = 'grpc'
    limits = ProbeLimits()

    @classmethod
    def make_policy(cls) -> Policy:
        """Return the policy under test; override."""
        raise NotImplementedError('override make_policy to return your policy')

    @pytest.fixture(scope='class')
    @classmethod
    def probe(cls) -> Iterator[Probe]:
        """Serve the policy for the tests of this class."""
        with SERVERS[cls.protocol](cls.make_policy()) as server:
            yield Probe(server.address, cls.limits)

    @pytest.mark.parametrize('check', CHECKS, ids=lambda check: check.__name__)
    def test_conformance(self, check: Check, probe: Probe) -> None:
        """One check."""
        result = run_check(check, probe)
        if result.outcome == SKIP:
            pytest.skip(result.detail)
        if result.outcome == FAIL:
            pytest.fail(f'sent {result.sent}; came back {result.received}; change: '
                        f'{result.change}', pytrace=False)
