"""
Add an account and print its token, once.

    arena admin account ada --institution NYU --role evaluator
    arena admin account olga --institution NYU --role owner --role evaluator
"""

import argparse

from arena_robot.cli.server_call import add_server_arguments, calls

VERB = 'admin account'
HELP = 'add a person: evaluator, owner of policies, or maintainer'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--institution', required=True)
    parser.add_argument('--role', action='append', required=True, dest='roles',
                        choices=('evaluator', 'owner', 'maintainer'))
    parser.add_argument('--person', default='', metavar='NAME',
                        help='who holds it, the same in all accounts of one person')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Add the account."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    reply = calls(args)('AddAccount', pb.Account(
        name=args.name, institution=args.institution, roles=args.roles,
        person=args.person))
    print(reply.token)
    return 0
