"""
Add a station and print its token, once.

    arena admin station nyu-1 --institution NYU --robot fr3
"""

import argparse

from arena_robot.cli.server_call import add_server_arguments, calls
from arena_robot.robots.arms import ROBOTS

VERB = 'admin station'
HELP = 'add a robot station'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--institution', required=True, help='its evaluators belong to it too')
    parser.add_argument('--robot', choices=tuple(ROBOTS), default='fr3')
    parser.add_argument('--external-cameras', type=int, choices=(0, 1, 2), default=2)
    parser.add_argument('--no-wrist-camera', action='store_true')
    parser.add_argument('--no-stereo', action='store_true')
    parser.add_argument('--test-driver', action='store_true',
                        help='also assign policies on probation to this station')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Add the station."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    reply = calls(args)('AddStation', pb.Station(
        name=args.name, institution=args.institution, robot=args.robot,
        external_cameras=args.external_cameras, wrist_camera=not args.no_wrist_camera,
        stereo=not args.no_stereo, test_driver=args.test_driver))
    print(reply.token)
    return 0
