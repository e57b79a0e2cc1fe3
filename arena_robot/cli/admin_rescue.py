"""
Make a maintainer's token on the server's own machine, when nobody has one any more.

It opens the database itself, so it needs no token and no running server:

    arena admin rescue maya --config /etc/arena/server.yaml
    arena admin rescue maya --data arena-data
"""

import argparse

from arena_robot.cli.server_place import add_place, config_at

VERB = 'admin rescue'
HELP = "make a maintainer's token on the server's own machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='a maintainer; made when there is no account of that name')
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Print a new token."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.rescue import rescue_token
    from arena_robot.server.store.database import Database

    config = config_at(args)
    with Database(config.database_url()) as database:
        print(rescue_token(database, SystemClock(), args.name))
    return 0
