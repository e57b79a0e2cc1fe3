"""Arguments of the verbs that call an arena server: address, token, TLS."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.core.errors import ConfigError

if TYPE_CHECKING:
    from arena_robot.server.client import Calls

DEFAULT = '127.0.0.1:50061'
TOKEN_VARIABLE = 'ARENA_TOKEN'


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the common arguments of these verbs."""
    parser.add_argument('--server', default=DEFAULT, metavar='HOST:PORT',
                        help='the arena server (default %(default)s)')
    parser.add_argument('--token-file', type=Path, metavar='FILE',
                        help=f'file that holds your token (default: ${TOKEN_VARIABLE})')
    parser.add_argument('--tls', action='store_true', help='use TLS')
    parser.add_argument('--tls-ca', type=Path, metavar='FILE', help='certificate to trust, PEM')


def token(args: argparse.Namespace) -> str:
    """Return the caller's token; ConfigError when there is none."""
    try:
        text = args.token_file.read_text(encoding='utf-8') if args.token_file \
            else os.environ.get(TOKEN_VARIABLE, '')
    except OSError as error:
        raise ConfigError(f'cannot read {args.token_file}: {error.strerror}') from error
    if not text.strip():
        raise ConfigError(f'no token: set {TOKEN_VARIABLE} or give --token-file')
    return str(text.strip())


def calls(args: argparse.Namespace) -> 'Calls':
    """Return the client for the arguments."""
    from arena_robot.server.client import Calls, ServerAddress
    return Calls(ServerAddress(args.server, token(args), args.tls, args.tls_ca))
