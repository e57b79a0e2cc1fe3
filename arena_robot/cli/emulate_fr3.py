"""
Emulate a Franka FR3 or Panda: its control box with the FCI, over a simulated arm.

It speaks the protocol that libfranka, pylibfranka and franka-rs use: version 10 as an FR3 does, or
version 5 as a Panda does. One client can be connected. Ctrl-C ends it.

  arena emulate fr3
  arena driver check arm franka_rs --param robot_ip=127.0.0.1 --yes
  arena emulate fr3 --robot panda --reflex-after 20
"""

import argparse

VERB = 'emulate fr3'
HELP = "emulate a Franka's control box (FCI): a simulated arm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--host', default='127.0.0.1', metavar='ADDRESS',
                        help='address to listen on (default %(default)s: this machine only)')
    parser.add_argument('--port', type=int, default=1337, metavar='N',
                        help='port (default %(default)s, which libfranka cannot change)')
    parser.add_argument('--robot', default='fr3', choices=('fr3', 'panda'),
                        help='version 10 or 5 of the protocol (default %(default)s)')
    parser.add_argument('--task', default='do_not_move', metavar='TASK',
                        help='scene of the simulation (default %(default)s)')
    parser.add_argument('--strict', action='store_true',
                        help='drop commands that come later than a millisecond, as the real box '
                             'does, for real-time machines (default: wait for them)')
    parser.add_argument('--reflex-after', type=float, metavar='S',
                        help='have a reflex after so many seconds')


def run(args: argparse.Namespace) -> int:
    """Answer until interrupted."""
    from arena_robot.core.process import ended_by_signal
    from arena_robot.drivers.emulators.fr3 import Fr3Emulator

    over = ended_by_signal()
    with Fr3Emulator(args.host, args.port, robot=args.robot, task=args.task,
                     lock_step=not args.strict) as emulator:
        print(f'a simulated {args.robot} answers on {emulator.host}:{emulator.port}; Ctrl-C ends '
              'it', flush=True)
        if args.reflex_after is not None and not over.wait(args.reflex_after):
            print('a reflex: it lasts until error recovery', flush=True)
            emulator.reflex()
        over.wait()
    return 0
