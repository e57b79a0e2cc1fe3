"""
Replace or revoke the tokens of an account or station.

    arena admin token ada                  revokes all tokens, prints a new one
    arena admin token nyu-1 --station --days 90
    arena admin token ada --revoke
"""

import argparse

from arena_robot.cli.server_call import add_server_arguments, calls

VERB = 'admin token'
HELP = 'rotate or revoke tokens'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='an account, or with --station a station')
    parser.add_argument('--station', action='store_true')
    parser.add_argument('--revoke', action='store_true', help='make no new token')
    parser.add_argument('--days', type=float, default=0.0,
                        help='validity of the new token (default: 365)')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Rotate or revoke."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    request = pb.HolderRequest(name=args.name, station=args.station,
                               lifetime_s=args.days * 86400.0)
    if args.revoke:
        calls(args)('RevokeTokens', request)
        print(f'every token of {args.name} is revoked')
    else:
        print(calls(args)('RotateToken', request).token)
    return 0
