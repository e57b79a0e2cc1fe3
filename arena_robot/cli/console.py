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
from contextlib import ExitStack
from pathlib import Path

VERB = 'console'
HELP = "serve the evaluator's page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--host', default='127.0.0.1', help='address to listen on')
    parser.add_argument('--port', type=int, default=8600, help='0 uses a free one')
    parser.add_argument('--token', default='', help='token in the link (default: random)')
    parser.add_argument('--namespace', default='', help='namespace of the station')
    parser.add_argument('--wait', type=float, metavar='S',
                        help='seconds to wait for the session node (default 5, with --sim 60)')
    parser.add_argument('--sim', action='store_true',
                        help='start a simulated station with recorder and session node as well')
    parser.add_argument('--policies', type=Path, metavar='FILE',
                        help='with --sim: YAML file with the pool (default: example policies)')
    parser.add_argument('--data', type=Path, metavar='DIR',
                        help='with --sim: where sessions are kept (default: ~/arena)')
    parser.add_argument('--task', help='with --sim: task of the simulated scene')
    parser.add_argument('--seed', type=int, help='with --sim: variation of the scene')
    parser.add_argument('--max-steps', type=int, help='with --sim: length of a rollout')


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT, SIGTERM, or SIGHUP: the terminal was closed."""
    from arena_robot.core.process import end_signals
    from arena_robot.core.tuning import keep_what_exists
    from arena_robot.nodes.discovery import stay_local
    from arena_robot.nodes.remote.audits import RemoteAudits
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.simulation.simulated_station import SimulatedStation
    from arena_robot.web.console.serve import ConsoleServer
    over, serves = threading.Event(), threading.Event()

    def end(*_: object) -> None:
        over.set()
        if not serves.is_set():    # it still waits for the session node
            raise KeyboardInterrupt
    for number in end_signals():
        signal.signal(number, end)
    stay_local()
    with ExitStack() as stack:
        if args.sim:
            stack.enter_context(SimulatedStation(
                args.policies, args.data, task=args.task, seed=args.seed,
                max_steps=args.max_steps, namespace=args.namespace))
        wait_s = args.wait or (60.0 if args.sim else 5.0)
        desk = stack.enter_context(RemoteDesk(namespace=args.namespace, patience_s=wait_s))
        desk.watch_views()
        server = stack.enter_context(ConsoleServer(desk, args.host, args.port, args.token,
                                                   audits=RemoteAudits(desk)))
        serves.set()
        keep_what_exists()
        print(f"the evaluator's page: {server.url}", flush=True)
        over.wait()
    return 0
