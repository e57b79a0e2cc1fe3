"""
Serve the evaluator's page for a running station.

By default the page is served for this machine only. With --host it requires a token, which is in
the printed link.

    arena console                        http://localhost:8600/
    arena console --host 0.0.0.0         for a tablet in the lab, with a token
    arena console --sim                  with a simulated station
"""

import argparse
import signal
import threading

from arena_robot.cli.desk_arguments import add_desk_arguments, desk_of

VERB = 'console'
HELP = "serve the evaluator's page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--host', default='127.0.0.1', help='address to listen on')
    parser.add_argument('--port', type=int, default=8600, help='0 uses a free one')
    parser.add_argument('--token', default='', help='token in the link (default: random)')
    add_desk_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT, SIGTERM, or SIGHUP: the terminal was closed."""
    from arena_robot.core.process import end_signals
    from arena_robot.core.tuning import keep_what_exists
    from arena_robot.nodes.remote.audits import RemoteAudits
    from arena_robot.web.console.serve import ConsoleServer
    over, serves = threading.Event(), threading.Event()

    def end(*_: object) -> None:
        over.set()
        if not serves.is_set():    # it still waits for the session node
            raise KeyboardInterrupt
    for number in end_signals():
        signal.signal(number, end)
    with desk_of(args) as desk:
        desk.watch_views()
        with ConsoleServer(desk, args.host, args.port, args.token,
                           audits=RemoteAudits(desk)) as server:
            serves.set()
            keep_what_exists()
            print(f"the evaluator's page: {server.url}", flush=True)
            over.wait()
    return 0
