"""Arguments that several verbs have, and what is made of them: workers, server, model."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.core.errors import ConfigError

if TYPE_CHECKING:
    from arena_robot.core.parallel import Workers
    from arena_robot.models.chat import ChatClient
    from arena_robot.server.client import Calls, ServerAddress
    from arena_robot.server.config import ServerConfig

DEFAULT = '127.0.0.1:50061'
TOKEN_VARIABLE = 'ARENA_TOKEN'


def add_worker_arguments(parser: argparse.ArgumentParser, jobs: int = 1) -> None:
    """Declare the arguments; the results are the same for all of their values."""
    parser.add_argument('--jobs', type=int, default=jobs, metavar='N',
                        help='processes at once (default %(default)s)')
    parser.add_argument('--cluster', default='', metavar='URL',
                        help='work on an existing cluster instead: dask://host:port or '
                             'ray://host:port')


def workers(args: argparse.Namespace) -> 'Workers':
    """Return the workers; ConfigError when the arguments are invalid."""
    from arena_robot.core.parallel import Workers
    return Workers(args.jobs, args.cluster)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the common arguments of these verbs."""
    parser.add_argument('--server', metavar='HOST:PORT',
                        help=f'the arena server (default: that of `arena login`, or {DEFAULT})')
    parser.add_argument('--token-file', type=Path, metavar='FILE',
                        help=f'file that holds your token (default: ${TOKEN_VARIABLE}, or that of '
                             '`arena login`)')
    parser.add_argument('--tls', action='store_true', help='use TLS')
    parser.add_argument('--tls-ca', type=Path, metavar='FILE', help='certificate to trust, PEM')


def calls(args: argparse.Namespace) -> 'Calls':
    """Return the client for the arguments; ConfigError where nobody gave a token."""
    from arena_robot.server.client import Calls
    return Calls(server_address(args.server, args.token_file, args.tls, args.tls_ca))


def server_address(server: str | None, token_file: Path | None = None, tls: bool = False,
                   tls_ca: Path | None = None) -> 'ServerAddress':
    """
    Return the server that was named, or that of the kept login, and who calls.

    ConfigError where nobody gave a token; the token of the login goes to its server alone.
    """
    from arena_robot.cli.login import Login, kept_login, token_in
    from arena_robot.server.client import ServerAddress
    kept = kept_login()
    if kept is None or server not in (None, kept.server):
        kept = Login(server or DEFAULT)
    token = token_in(token_file) if token_file \
        else os.environ.get(TOKEN_VARIABLE, '').strip() or kept.token
    if not token:
        raise ConfigError(f'no token for {kept.server}: `arena login {kept.server}` keeps it, or '
                          f'set {TOKEN_VARIABLE}, or give --token-file')
    ca = tls_ca or (Path(kept.tls_ca) if kept.tls_ca else None)
    return ServerAddress(kept.server, token, tls or kept.tls, ca)


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


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--model', action='store_true',
                        help='ask the chat model that ARENA_MODEL_URL and ARENA_MODEL name, with '
                             'the key in ARENA_MODEL_KEY')
    parser.add_argument('--dry-run', action='store_true',
                        help='with --model: print what would be sent and what it costs at most')
    parser.add_argument('--prices', default='', metavar='IN,OUT',
                        help='per million tokens, for cost and budget')
    parser.add_argument('--budget', type=float, metavar='B',
                        help='stop before more than this is spent; needs --prices')
    parser.add_argument('--transcript', type=Path, metavar='FILE',
                        help='append every question and answer to this file')


def chat_client(args: argparse.Namespace, transcript: Path | None = None) -> 'ChatClient':
    """Return the client; ConfigError without an endpoint or for wrong prices."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.models.chat import ANSWER_TOKENS, CACHE, ChatClient, ChatSettings
    try:
        price_in, price_out = map(float, args.prices.split(',')) if args.prices else (0.0, 0.0)
    except ValueError as error:
        raise ConfigError(f"--prices '{args.prices}' is not two numbers with a comma between, "
                          'such as 2.5,10') from error
    path = args.transcript or transcript
    return ChatClient(ChatSettings(
        price_in=price_in, price_out=price_out, budget=args.budget, cache=CACHE,
        transcript=str(path) if path else '', dry_run=args.dry_run, max_tokens=ANSWER_TOKENS))
