"""
Serve a judge under RoboMeter's HTTP protocol, for other programs.

  arena judge serve --judge my_lab.judge:Brightness --port 8000
"""

import argparse
import threading

VERB = 'judge serve'
HELP = "serve a judge under RoboMeter's HTTP protocol"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--judge', required=True, metavar='NAME',
                        help='a name of `arena judge list`, or module:Class; '
                             'one that needs a single view')
    parser.add_argument('--param', action='append', default=[], metavar='KEY=VALUE',
                        help='a setting of the judge; can be given again')
    parser.add_argument('--host', default='127.0.0.1', help='address (default %(default)s)')
    parser.add_argument('--port', type=int, default=8000, help='port (default %(default)s)')


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from arena_robot.audit.judges import settings_of
    from arena_robot.audit.wire.robometer import RobometerServer
    from arena_robot.core.errors import ConfigError
    from arena_robot.reports.episode_audit import AuditJob, made

    job = AuditJob(args.judge, settings_of(args.param))
    judge = made(job)
    try:
        with RobometerServer(judge, args.host, args.port, job.identity) as server:
            print(f'{judge.name} at {server.url}; Ctrl-C ends it', flush=True)
            threading.Event().wait()
    except OSError as error:
        raise ConfigError(f'cannot listen at {args.host}:{args.port}: {error}') from error
    return 0
