"""
Serve a policy on a port, over gRPC or the openpi websocket protocol.

POLICY is module:Class, also searched for in the working directory, or an example by name:

    arena policy serve my_policy:MyPolicy --port 8000 --kwargs checkpoint=/data/step_9000
    arena policy serve echo --port 8000 --protocol openpi
"""

import argparse
import ipaddress
import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

VERB = 'policy serve'
HELP = 'serve a policy on a port'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('policy', metavar='POLICY', help='module:Class, or an example')
    parser.add_argument('--kwargs', metavar='KEY=VALUE', nargs='+', default=[], action='extend',
                        help='arguments of the class, read as YAML')
    parser.add_argument('--protocol', choices=('grpc', 'openpi'), default='grpc')
    parser.add_argument('--host', default='127.0.0.1',
                        help='address to listen on; 0.0.0.0 for every one (default %(default)s)')
    parser.add_argument('--port', type=int, default=8000, help='0 uses a free one (default 8000)')
    parser.add_argument('--token', default='', help='bearer token that callers must send')
    parser.add_argument('--token-file', type=Path,
                        help='file that holds the token; further lines: older ones, still taken')
    parser.add_argument('--tls-cert', type=Path, help='certificate chain, PEM')
    parser.add_argument('--tls-key', type=Path, help='private key, PEM')
    parser.add_argument('--record', metavar='FOLDER', type=Path,
                        help='write every query and its answer to this new folder')
    parser.add_argument('--parallel', action='store_true',
                        help='call the policy from several threads at once (default: in turn)')


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from arena_robot.policy.connect import SERVERS
    from arena_robot.policy.loading import load_policy, parse_kwargs
    from arena_robot.policy.options import ServeOptions
    from arena_robot.policy.recording import Recording

    logging.basicConfig(level=logging.INFO, format='%(asctime)s %(levelname)s %(message)s')
    token, *older = _tokens(args)
    options = ServeOptions(
        host=args.host, port=args.port, token=token, old_tokens=tuple(older),
        tls_cert=args.tls_cert, tls_key=args.tls_key, parallel=args.parallel)
    if warning := open_to_all(args.host, token):
        print(warning, file=sys.stderr, flush=True)
    policy = load_policy(args.policy, parse_kwargs(args.kwargs))
    if args.record is not None:
        policy = Recording(policy, args.record)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with SERVERS[args.protocol](policy, options) as server:
        print(f'serving {args.policy} at {server.address}; check it with: '
              f'arena policy check {server.address}', flush=True)
        while not stopping.wait(1.0):
            pass
    print('stopped', flush=True)
    return 0


def open_to_all(host: str, token: str) -> str:
    """Return a warning when everybody who reaches this machine may call, else ''."""
    if token or host == 'localhost':
        return ''
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False    # a name of this machine
    return '' if local else (f'warning: {host} is reached from other machines and no token is '
                             'asked for, so anybody there can query this policy; add '
                             '--token-file FILE')


def _tokens(args: argparse.Namespace) -> list[str]:
    from arena_robot.core.errors import ConfigError

    if args.token_file is None:
        return [str(args.token)]
    try:
        found: list[str] = args.token_file.read_text(encoding='utf-8').split()
    except OSError as error:
        raise ConfigError(f'cannot read {args.token_file}: {error.strerror or error}') from error
    if not found:
        raise ConfigError(f'{args.token_file} has no token; write one, such as the output of '
                          'openssl rand -hex 32')
    return found
