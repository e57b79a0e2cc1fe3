"""
Append a correction to a session that counts, or withdraw it.

    arena correct SESSION 'the cup was blue'
    arena correct SESSION 'the wrong robot was on' --withdraw

For the session's evaluator and for maintainers. The verdict itself stays as it is; the correction
is an entry of the server's log.
"""

import argparse

from arena_robot.cli.server_call import add_server_arguments, calls

VERB = 'correct'
HELP = 'append a correction to a session, or withdraw it'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session')
    parser.add_argument('text', help='what is corrected, and why')
    parser.add_argument('--withdraw', action='store_true', help='the session counts no longer')
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the correction."""
    from arena_robot.server.proto import arena_server_pb2 as pb
    calls(args)('Correct', pb.CorrectionRequest(
        session_id=args.session, text=args.text, withdraw=args.withdraw))
    print('withdrawn' if args.withdraw else 'the correction is in the log')
    return 0
