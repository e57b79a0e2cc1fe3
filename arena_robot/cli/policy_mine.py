"""List your policies on an arena server: state, health, how often requested, and why."""

import argparse
import json

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
                           'reason': p.reason} for p in policies]))
        return 0
    print(f'{"policy":30} {"state":10} {"healthy":7} {"asked":>5}  reason')
    for p in policies:
        print(f'{p.name:30} {p.state:10} {"yes" if p.healthy else "no":7} {p.requested:5}  '
              f'{p.reason}')
    return 0
