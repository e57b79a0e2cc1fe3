"""
Check that a policy server can be used with a robot; exit code 0 when it can, else 1.

A warning is about what is allowed and suspicious; it does not change the exit code.

ADDRESS is grpc://, grpcs://, openpi:// or openpis://host:port; or module:Class, or the name of
an example, which is then served on this machine for the check.
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.policy.options import CallOptions

EVERY_S = 10.0    # a line, where the output is not a terminal: a log stays short in minutes


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('address', metavar='ADDRESS')
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
    parser.add_argument('--wait', type=float, default=0.0, metavar='S',
                        help='wait until the server answers, at most this long')
    parser.add_argument('--stochastic', action='store_true',
                        help='the policy samples, whatever its spec says of samples')
    parser.add_argument('--token', default='', help='bearer token to send')
    parser.add_argument('--tls-ca', type=Path, help='certificate authority to trust, PEM')


def run_check(args: argparse.Namespace) -> int:
    """Check, print the report, return 0 or 1."""
    import dataclasses

    from arena_robot.policy.conformance.probe import ProbeLimits
    from arena_robot.policy.conformance.suite import run_suite
    from arena_robot.policy.connect import SERVERS, load_policy, parse_kwargs
    from arena_robot.policy.metered import resident_bytes
    from arena_robot.policy.options import CallOptions

    limits = ProbeLimits(latency_s=args.latency_limit, calls=args.calls, clients=args.clients,
                    stochastic=args.stochastic, options=CallOptions(
                        token=args.token, tls_ca=args.tls_ca, infer_timeout_s=args.timeout))
    tracebacks: list[str] = []
    if '://' in args.address:
        if args.wait:
            await_server(args.address, limits.options, args.wait)
        report = run_suite(args.address, limits)
    else:
        policy = load_policy(args.address, parse_kwargs(args.kwargs))
        limits = dataclasses.replace(
            limits, resident_bytes=resident_bytes if resident_bytes() else None)
        with _tracebacks_of('arena_robot.policy.serving') as kept, \
                SERVERS[args.protocol](policy) as server:
            report = run_suite(server.address, limits)
        tracebacks = [text for reference, text in kept.items() if reference in report.text()]
    if args.json:
        print(json_text(report.as_dict() | {'tracebacks': tracebacks}))
    else:
        print('\n'.join([report.text(), *tracebacks]))
    return 0 if report.passed else 1


class _Tracebacks(logging.Handler):
    """Keeps the tracebacks of a log by the references that its messages end with."""

    def __init__(self) -> None:
        super().__init__()
        self.by_reference: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the traceback of a message that has one."""
        if record.exc_info:
            text = logging.Formatter('\n%(message)s').format(record)
            self.by_reference[record.getMessage().rpartition(' ')[2]] = text


@contextlib.contextmanager
def _tracebacks_of(name: str) -> Iterator[dict[str, str]]:
    """Keep the tracebacks of a logger by their references, and print nothing of it."""
    logger, handler = logging.getLogger(name), _Tracebacks()
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield handler.by_reference
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def await_server(address: str, options: 'CallOptions', wait_s: float) -> None:
    """Return when the server at an address answers; PolicyError after ``wait_s``."""
    from arena_robot.policy.connect import connect
    told_s = -EVERY_S

    def tell(waited_s: float, error: str) -> None:
        nonlocal told_s
        terminal = sys.stderr.isatty()
        if not terminal and waited_s < told_s + EVERY_S:
            return
        told_s = waited_s
        begin, end = ('\r', '\x1b[K') if terminal else ('', '\n')
        print(f'{begin}waiting for {address}: {waited_s:.0f} of {wait_s:g} s{end}', end='',
              file=sys.stderr, flush=True)

    try:
        connect(address, options, wait_s, tell).close()
    finally:
        if told_s >= 0.0 and sys.stderr.isatty():
            print(file=sys.stderr)
    if told_s >= 0.0:
        print(f'{address} answers', file=sys.stderr)
