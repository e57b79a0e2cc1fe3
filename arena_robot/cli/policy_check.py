"""
Check that a policy server can be used with a robot; exit code 0 when it can, else 1.

ADDRESS is grpc://, grpcs://, openpi:// or openpis://host:port; or module:Class, or the name of an
example, which is then served on this machine for the check.
"""

import argparse
import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

VERB = 'policy check'
HELP = 'run the conformance suite against a policy server'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('address', metavar='ADDRESS')
    parser.add_argument('--json', action='store_true', help='print the report as JSON')
    parser.add_argument('--kwargs', metavar='KEY=VALUE', nargs='+', default=[], action='extend',
                        help='arguments of module:Class, read as YAML')
    parser.add_argument('--protocol', choices=('grpc', 'openpi'), default='grpc',
                        help='how module:Class is served for the check')
    parser.add_argument('--calls', type=int, default=100, help='queries timed (default 100)')
    parser.add_argument('--clients', type=int, default=4, help='callers at once (default 4)')
    parser.add_argument('--latency-limit', type=float, default=0.0, metavar='SECONDS',
                        help='limit of p99 (default: 1 s, or the duration of a chunk)')
    parser.add_argument('--timeout', type=float, default=10.0, metavar='SECONDS',
                        help='deadline of each query (default 10)')
    parser.add_argument('--stochastic', action='store_true',
                        help='the policy samples: do not require the same answer twice')
    parser.add_argument('--token', default='', help='bearer token to send')
    parser.add_argument('--tls-ca', type=Path, help='certificate authority to trust, PEM')


def run(args: argparse.Namespace) -> int:
    """Check, print the report, return 0 or 1."""
    from arena_robot.policy.conformance.probe import ProbeLimits
    from arena_robot.policy.conformance.suite import run_suite
    from arena_robot.policy.connect import SERVERS
    from arena_robot.policy.loading import load_policy, parse_kwargs
    from arena_robot.policy.options import CallOptions

    limits = ProbeLimits(latency_s=args.latency_limit, calls=args.calls, clients=args.clients,
                    stochastic=args.stochastic, options=CallOptions(
                        token=args.token, tls_ca=args.tls_ca, infer_timeout_s=args.timeout))
    if '://' in args.address:
        report = run_suite(args.address, limits)
    else:
        policy = load_policy(args.address, parse_kwargs(args.kwargs))
        with _quiet('arena_robot.policy.serving'), SERVERS[args.protocol](policy) as server:
            report = run_suite(server.address, limits)
    print(json.dumps(report.as_dict(), indent=2) if args.json else report.text())
    return 0 if report.passed else 1


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a logger: expected errors are in the report."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
