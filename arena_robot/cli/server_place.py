"""Arguments that name a server on its own machine, for verbs that open its files themselves."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.server.config import ServerConfig


def add_place(parser: argparse.ArgumentParser) -> None:
    """Declare ``--config`` and ``--data``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--config', type=Path, metavar='FILE', help="the server's configuration")
    where.add_argument('--data', type=Path, metavar='DIR', default=Path('arena-data'),
                       help="the server's data folder (default %(default)s)")


def config_at(args: argparse.Namespace) -> 'ServerConfig':
    """Return the configuration of the server that they name."""
    from arena_robot.core.config import load
    from arena_robot.server.config import ServerConfig
    return load(ServerConfig, args.config) if args.config else ServerConfig(data=args.data)
