"""
Run the arena server: the pool, blind assignment, the relay, uploads and the site.

Without a file it runs on this machine alone, with SQLite and a folder:

    arena server --data arena-data
    arena server --config /etc/arena/server.yaml
    arena server --data try --example-data           a full site of made-up sessions, to look at

On its first start it prints a maintainer's token, once; `arena admin` and `arena policy
submit` take it from ARENA_TOKEN or --token-file. See docs/server.md for PostgreSQL, S3 and
TLS.
"""

import argparse
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.server.app import ArenaServer


def server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--config', type=Path, metavar='FILE', help='YAML; see config/server.yaml')
    parser.add_argument('--data', type=Path, metavar='DIR', help='folder of all its data')
    parser.add_argument('--host', help='address to listen on (default 127.0.0.1)')
    parser.add_argument('--port', type=int, help='gRPC port, 0 uses a free one (default 50061)')
    parser.add_argument('--site-port', type=int, help='port of the site, 0 picks one, -1: no site')
    parser.add_argument('--insecure', action='store_true', default=None,
                        help='listen beyond this machine without encryption')
    parser.add_argument('--example-data', action='store_true',
                        help='fill a new server with made-up sessions; every page says so')
    parser.add_argument('--token-file', type=Path, metavar='FILE',
                        help="write the first maintainer's token here instead of printing it")


def _fill(server: 'ArenaServer', with_examples: bool) -> None:
    if not with_examples:
        return
    from arena_robot.core.clock import SystemClock
    from arena_robot.web.site.example_data import fill
    fill(server, SystemClock())


def run_server(args: argparse.Namespace) -> int:
    """Serve until interrupted, or until the terminal is closed."""
    import dataclasses

    from arena_robot.core import tuning
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.config import load
    from arena_robot.core.process import ended_by_signal
    tuning.poll_sockets_in_one_thread()
    tuning.multiply_in_one_thread()
    with tuning.loading():
        from arena_robot.server.app import ArenaServer
        from arena_robot.server.config import ServerConfig
        from arena_robot.server.pool.policy_pool import conformance, probe, spec
        from arena_robot.web.site.serve import SiteServer
        from arena_robot.web.site.server_jobs import SERVER_JOBS

    tuning.keep_freed_memory()
    tuning.switch_threads_soon()
    tuning.collect_seldom()
    logging.basicConfig(level=logging.INFO, format='%(asctime)s %(levelname)s %(message)s')
    logging.getLogger('alembic').setLevel(logging.WARNING)    # each start would have six lines
    config = load(ServerConfig, args.config) if args.config else ServerConfig()
    options = {name: getattr(args, name) for name in (
        'data', 'host', 'port', 'site_port', 'insecure')}
    config = dataclasses.replace(config, **{k: v for k, v in options.items() if v is not None})
    _more_files()
    stopping = ended_by_signal()
    with ArenaServer(config, SystemClock(), conformance, probe, spec,
                     SERVER_JOBS) as server:
        _fill(server, args.example_data)
        address = f'{config.host}:{server.port}'
        first = _tell_token(server.first_token(), args.token_file, address)
        with (SiteServer(server, config.host, config.site_port) if config.site_port >= 0
              else contextlib.nullcontext()) as site:
            print(f'arena server on {address}' + (f', site on {site.address}' if site else ''),
                  f'all its data is in {config.data}', *first, sep='\n', flush=True)
            while not stopping.wait(1.0):
                pass
    return 0


def _more_files() -> None:
    """Raise the soft limit of open files to the hard one, for many connections."""
    import resource
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tell_token(token: str | None, path: Path | None, server: str) -> list[str]:
    """Print or write the first token; return what a new maintainer does next."""
    if token is None:
        return []
    first = [f'keep it: arena login {server}', 'then: arena admin account NAME --institution '
             'PLACE --role evaluator; docs/server.md has the rest']
    if path is None:
        print(f"the first maintainer's token, shown this once: {token}", flush=True)
        return first
    from arena_robot.core.files import write_text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    write_text(path, token + '\n')
    print(f"the first maintainer's token is in {path}", flush=True)
    return first
