"""
Make a maintainer's token on the server's own machine, when nobody has one any more.

It opens the database itself, so it needs no token and no running server:

    arena admin rescue maya --config /etc/arena/server.yaml
    arena admin rescue maya --data arena-data
"""

import argparse
from pathlib import Path

VERB = 'admin rescue'
HELP = "make a maintainer's token on the server's own machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='a maintainer; made when there is no account of that name')
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--config', type=Path, metavar='FILE', help="the server's configuration")
    where.add_argument('--data', type=Path, metavar='DIR', default=Path('arena-data'),
                       help="the server's data folder (default %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Print a new token."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.config import load
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.rescue import rescue_token
    from arena_robot.server.store.database import Database

    config = load(ServerConfig, args.config) if args.config else ServerConfig(data=args.data)
    with Database(config.database_url()) as database:
        print(rescue_token(database, SystemClock(), args.name))
    return 0
