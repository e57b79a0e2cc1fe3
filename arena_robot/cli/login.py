"""
Keep which arena server you use and your token there, for every verb that asks a server.

    arena login arena.example.org:50061 --tls          asks for the token
    arena login arena.example.org:50061 --token-file olga.token
    arena login                                        says who you are
    arena login --forget

The server is asked who you are before anything is kept. The token is kept in the keyring of your
desktop where Python's package `keyring` finds one, otherwise in ~/.config/arena/login.json, which
only you can read. --server, --token-file and ARENA_TOKEN go before what is kept, and the kept
token goes to no other server.
"""

import argparse
import getpass
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.errors import ConfigError

SERVICE = 'arena_robot'    # the name of the tokens in a keyring


@dataclass(frozen=True)
class Login:
    """A server and how its line is encrypted; ``token`` is empty where a keyring has it."""

    server: str
    tls: bool = False
    tls_ca: str = ''
    token: str = ''


def place() -> Path:
    """Return the file of the login: ``~/.config/arena/login.json``, or in $XDG_CONFIG_HOME."""
    folder = os.environ.get('XDG_CONFIG_HOME') or Path.home() / '.config'
    return Path(folder) / 'arena' / 'login.json'


def kept_login() -> Login | None:
    """Return the login that is kept, with its token; ConfigError for a file that is none."""
    path = place()
    try:
        login = Login(**json.loads(path.read_text(encoding='utf-8')))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f'{path} is no login: {error}; delete it and run `arena login SERVER`'
                          ) from error
    keyring = None if login.token else _keyring()
    if keyring is None:
        return login
    token = keyring.get_password(SERVICE, login.server)
    return Login(**{**asdict(login), 'token': token or ''})


def keep(login: Login) -> str:
    """Keep a login; return where its token is, in words."""
    from arena_robot.core.files import write_json
    path, keyring, kept = place(), _keyring(), asdict(login)
    if keyring is not None:
        keyring.set_password(SERVICE, login.server, login.token)
        kept['token'] = ''
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.chmod(0o600)
    write_json(path, kept)
    return str(path) if keyring is None else 'the keyring'


def forget() -> None:
    """Forget the login that is kept, if any."""
    login, keyring = kept_login(), _keyring()
    if login is not None and keyring is not None \
            and keyring.get_password(SERVICE, login.server) is not None:
        keyring.delete_password(SERVICE, login.server)
    place().unlink(missing_ok=True)


def _keyring() -> Any:
    """Return Python's package of keyrings where it is installed and finds one, else None."""
    try:
        import keyring  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return keyring if keyring.get_keyring().priority > 0 else None    # 0: a stand-in that fails


def token_in(path: Path) -> str:
    """Return the token that a file holds; ConfigError when it cannot be read."""
    try:
        return path.read_text(encoding='utf-8').strip()
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror}') from error


def login_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('server', nargs='?', metavar='SERVER', help='HOST:PORT of an arena server')
    parser.add_argument('--token-file', type=Path, metavar='FILE',
                        help='file that holds your token (default: ask for it)')
    parser.add_argument('--tls', action='store_true', help='use TLS')
    parser.add_argument('--tls-ca', type=Path, metavar='FILE', help='certificate to trust, PEM')
    parser.add_argument('--forget', action='store_true', help='forget server and token')


def run_login(args: argparse.Namespace) -> int:
    """Keep, show or forget the login."""
    if args.forget:
        forget()
        print('server and token are forgotten')
        return 0
    login = _asked(args) if args.server else kept_login()
    if login is None:
        raise ConfigError('you are not logged in; `arena login HOST:PORT` does it')
    who = _who(login)
    if args.server:
        print(f'your token is in {keep(login)}', file=sys.stderr)
    print(f"{who.name} of {who.institution or 'no institution'} at {login.server}: "
          f"{', '.join(who.roles)}")
    return 0


def _asked(args: argparse.Namespace) -> Login:
    """Return what was typed, with the token of a file or of the keyboard."""
    if ':' not in args.server or '://' in args.server:
        raise ConfigError(f"'{args.server}' is no server; write HOST:PORT, such as "
                          'arena.example.org:50061')
    text = token_in(args.token_file) if args.token_file else getpass.getpass('token: ')
    if not text.strip():
        raise ConfigError('the token is empty; nothing is kept')
    ca = str(args.tls_ca.absolute()) if args.tls_ca else ''
    return Login(args.server, args.tls or bool(ca), ca, text.strip())


def _who(login: Login) -> Any:
    """Return who the server says that the token belongs to."""
    from arena_robot.server.client import Calls, ServerAddress
    from arena_robot.server.proto import arena_server_pb2 as pb
    return Calls(ServerAddress(login.server, login.token, login.tls,
                               Path(login.tls_ca) if login.tls_ca else None))('WhoAmI', pb.Empty())
