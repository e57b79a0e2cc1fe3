"""
List your policies on an arena server: state, health, how often requested, and why.

Below a policy: the reports that it was unsafe, what became of them, and whether it waits for a
maintainer. Maintainers see all policies, and who reported them.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from arena_robot.cli.server_call import add_server_arguments, calls

VERB = 'policy mine'
HELP = 'list your policies on an arena server'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--json', action='store_true', help='for programs')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    policies = calls(args)('ListPolicies', pb.Empty()).policies
    if args.json:
        print(json.dumps([{'name': p.name, 'owner': p.owner, 'address': p.address,
                           'state': p.state, 'healthy': p.healthy, 'requested': p.requested,
                           'reason': p.reason, 'appeal': p.appeal,
                           'waits_for_approval': p.waits_for_approval,
                           'unsafe_reports': [_plain(one) for one in p.unsafe_reports]}
                          for p in policies]))
        return 0
    print(f'{"policy":30} {"state":10} {"healthy":7} {"asked":>5}  reason')
    for p in policies:
        print(f'{p.name:30} {p.state:10} {"yes" if p.healthy else "no":7} {p.requested:5}  '
              f'{p.reason}')
        for line in review_lines(p):
            print(f'    {line}')
    return 0


def review_lines(policy: Any) -> Iterator[str]:
    """Yield what people said and have to say about a policy."""
    if policy.waits_for_approval:
        yield ('a maintainer has to approve it before the pool: '
               f'arena admin policy {policy.name} --approve')
    reports = policy.unsafe_reports
    standing = sum(not one.cleared_by for one in reports)
    if reports:
        yield f'{len(reports)} reports that it was unsafe, {standing} of them stand'
    for one in reports:
        who = f' by {one.evaluator} at {one.station}' if one.station else ''
        end = f'; cleared by {one.cleared_by}: {one.cleared_why}' if one.cleared_by else ''
        yield f'unsafe{who}: {one.reason}{end}'
    if policy.appeal:
        yield f'appeal: {policy.appeal}'


def _plain(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in (
        'session_id', 'slot', 'reason', 'created_ns', 'cleared_by', 'cleared_why', 'station',
        'evaluator')}
