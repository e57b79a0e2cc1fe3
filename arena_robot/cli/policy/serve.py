"""Verbs on policies of this machine: serve, list."""

import argparse
import contextlib
import ipaddress
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from arena_robot.cli.terminal import json_text
from arena_robot.core.errors import ConfigError

if TYPE_CHECKING:
    from arena_robot.policy.base import Policy
    from arena_robot.policy.options import ServeOptions
    from arena_robot.server.joining import Joining


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('policy', metavar='POLICY',
                        help='module:Class, an example, skill:FILE, or a checkpoint')
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
    parser.add_argument('--log', metavar='FILE', type=Path,
                        help='append a line of JSON for every query: when, how long, errors')
    parser.add_argument('--metrics-port', type=int, metavar='PORT', default=-1,
                        help='serve /metrics for Prometheus to this machine')
    parser.add_argument('--join', metavar='SERVER', nargs='?', const='', default=None,
                        help='dial out to the arena server HOST:PORT, or that of `arena login`, '
                             'which then reaches the policy without a way in to this machine')
    parser.add_argument('--name', default='policy',
                        help='with --join: the server knows the policy as NAME.joined '
                             '(default %(default)s)')
    parser.add_argument('--parallel', action='store_true',
                        help='call the policy from several threads at once (default: in turn)')


def run_serve(args: argparse.Namespace) -> int:
    """
    Serve a policy on a port, over gRPC or the openpi websocket protocol.

    POLICY is module:Class, also searched for in the working directory, an example by name, a file
    of `arena skill export`, or a checkpoint of openpi or LeRobot where that package is installed:

        arena policy serve my_policy:MyPolicy --port 8000 --kwargs checkpoint=/data/step_9000
        arena policy serve echo --port 8000 --protocol openpi
        arena policy serve openpi:pi05_droid@gs://openpi-assets/checkpoints/pi05_droid
        arena policy serve lerobot:/data/act --kwargs action_space=joint_position
        arena policy serve skill:box.json --port 8000

    A machine behind a firewall that lets nobody in joins an arena server with its owner's token:

        arena login arena.example.org:50061 --tls
        arena policy serve my_policy:MyPolicy --join --name pi0-droid
    """
    from arena_robot.core.tuning import keep_freed_memory
    from arena_robot.policy.connect import load_policy, parse_kwargs
    from arena_robot.policy.options import ServeOptions
    from arena_robot.policy.recording import Recording

    keep_freed_memory()
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
    _serve(args, policy, options)
    print('stopped', flush=True)
    return 0


def _serve(args: argparse.Namespace, policy: 'Policy', options: 'ServeOptions') -> None:
    from arena_robot.core.process import ended_by_signal
    from arena_robot.policy.connect import SERVERS
    from arena_robot.policy.metered import MeteredPolicy, MetricsServer
    over = ended_by_signal()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(_appended(args.log)) if args.log is not None else None
        metered = MeteredPolicy(policy, log)
        server = SERVERS[args.protocol](metered, options).open()
        stack.callback(server.close)
        print(f'serving {args.policy} at {server.address}; check it with: '
              f'arena policy check {server.address}', flush=True)
        if args.join is not None:
            stack.callback(_joining(args, server.port).close)
        if args.metrics_port >= 0:
            page = stack.enter_context(MetricsServer(metered.use, args.metrics_port))
            print(f'metrics at http://127.0.0.1:{page.port}/metrics', flush=True)
        while not over.wait(1.0):
            if sys.stdout.isatty():
                print(f'\r{metered.use().line()}\x1b[K', end='', flush=True)


def _joining(args: argparse.Namespace, port: int) -> 'Joining':
    from arena_robot.cli.arguments import server_address
    from arena_robot.policy.options import CallOptions
    from arena_robot.server.joining import Joining
    place = server_address(args.join or None)
    return Joining(place.target, place.tls or place.ca is not None,
                   CallOptions(token=place.token, tls_ca=place.ca), args.name, port,
                   lambda words: print(words, flush=True)).open()


def _appended(path: Path) -> TextIO:
    try:
        return path.open('a', encoding='utf-8')
    except OSError as error:
        raise ConfigError(f'cannot write {path}: {error.strerror or error}') from error


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
    if args.token_file is None:
        return [str(args.token)]
    try:
        tokens: list[str] = args.token_file.read_text(encoding='utf-8').split()
    except OSError as error:
        raise ConfigError(f'cannot read {args.token_file}: {error.strerror or error}') from error
    if not tokens:
        raise ConfigError(f'{args.token_file} has no token; write one, such as the output of '
                          'openssl rand -hex 32')
    return tokens


def list_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments: there are none."""


def run_list(args: argparse.Namespace) -> int:
    """
    List the example policies and those that installed packages add.

    `arena policy serve NAME` serves one, `arena policy check NAME` checks one.
    """
    from arena_robot.policy.examples import EXAMPLES

    rows = {name: ((made_by.__doc__ or '').strip().splitlines() or [''])[0]
            for name, made_by in sorted(EXAMPLES.rows().items())}
    print(json_text(rows) if args.json else
          '\n'.join(f'{name:<16}{about}' for name, about in rows.items()))
    return 0
