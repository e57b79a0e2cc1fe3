"""
Show your credits; give them to an owner of your institution, or pay for comparisons.

    arena credits
    arena credits --give 5 --to olga
    arena credits --request 10 --policy pi0-droid

Each credit that is paid for comparisons of a policy is spent when a session with it counts;
until then the policy is drawn more often.
"""

import argparse
import uuid

from arena_robot.cli.arguments import add_server_arguments, calls
from arena_robot.cli.terminal import json_text
from arena_robot.core.clock import to_iso
from arena_robot.core.errors import ConfigError


def credits_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument('--give', type=int, metavar='N', help='give so many credits to --to')
    how.add_argument('--request', type=int, metavar='N',
                     help='pay for so many comparisons of --policy')
    parser.add_argument('--to', metavar='OWNER', help='an owner of your institution')
    parser.add_argument('--policy', help='a policy of yours or of your institution')
    add_server_arguments(parser)


def run_credits(args: argparse.Namespace) -> int:
    """Make the call and print what the account has."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    name = uuid.uuid4().hex
    if (args.give is None) != (args.to is None) or (args.request is None) != (args.policy is None):
        raise ConfigError('credits are given with --give N --to OWNER, and paid with --request N '
                          '--policy POLICY')
    server = calls(args)
    if args.give is not None:
        account = server('GiveCredits', pb.GiveRequest(to=args.to, amount=args.give, request=name))
    elif args.request is not None:
        account = server('RequestComparisons', pb.ComparisonsRequest(
            policy=args.policy, amount=args.request, request=name))
    else:
        account = server('Credits', pb.Empty())
    if args.json:
        print(json_text({'balance': account.balance, 'paid': dict(account.paid), 'lines': [
            {'created': to_iso(line.created_ns), 'amount': line.amount, 'reason': line.reason}
            for line in account.lines]}))
        return 0
    print(f'{account.balance} credits')
    for policy, amount in sorted(account.paid.items()):
        print(f'{policy}: {amount} comparisons are paid for')
    for line in account.lines:
        print(f'  {to_iso(line.created_ns)}  {line.amount:+5}  {line.reason}')
    return 0
