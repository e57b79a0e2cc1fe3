"""
Decide about a policy: let it enter the pool, or clear the reports that it was unsafe.

    arena admin policy pi0-droid --approve
    arena admin policy pi0-droid --clear-unsafe 'watched three rollouts: the table was too high'

`arena policy mine` with a maintainer's token lists all policies, reports and appeals. Decisions
are in the audit log.
"""

import argparse

from arena_robot.cli.policy_mine import review_lines
from arena_robot.cli.server_call import add_server_arguments, calls

VERB = 'admin policy'
HELP = 'approve a policy, or clear reports that it was unsafe'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--approve', action='store_true', help='it may enter the pool')
    parser.add_argument('--clear-unsafe', metavar='WHY', default='',
                        help='its reports do not stand; it is checked and tested again')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the decision and print what the policy is now."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    policy = calls(args)('DecidePolicy', pb.DecideRequest(
        name=args.name, approve=args.approve, clear_why=args.clear_unsafe))
    print(f'{policy.name}: {policy.state}')
    for line in review_lines(policy):
        print(f'    {line}')
    return 0
