"""
Emulate the NUC of a DROID station: its server on port 4242, over a simulated arm and gripper.

It speaks zerorpc as DROID's server does, with its methods and units; other zerorpc clients can
connect too. Give the address to arm_node as robot_ip, or to a driver check. Ctrl-C ends it.

  arena emulate droid-nuc
  arena driver check arm droid_nuc --param robot_ip=127.0.0.1 --yes
  arena driver check gripper droid_nuc --param robot_ip=127.0.0.1 --yes
"""

import argparse

VERB = 'emulate droid-nuc'
HELP = "emulate DROID's server on the NUC: a simulated arm and gripper"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--host', default='127.0.0.1', metavar='ADDRESS',
                        help='address to listen on (default %(default)s: this machine only)')
    parser.add_argument('--port', type=int, default=4242, metavar='N',
                        help='port (default %(default)s)')
    parser.add_argument('--robot', default='panda', metavar='NAME',
                        help='panda or fr3 (default %(default)s)')
    parser.add_argument('--task', default='do_not_move', metavar='TASK',
                        help='scene of the simulation (default %(default)s)')
    parser.add_argument('--gripper-read', type=float, default=0.032, metavar='S',
                        help='seconds that a read of the gripper takes (default %(default)s)')
    parser.add_argument('--not-launched', action='store_true',
                        help='begin without a controller, as after the NUC has started')
    parser.add_argument('--reflex-after', type=float, metavar='S',
                        help='have a reflex after so many seconds; it ends after 2 s more')


def run(args: argparse.Namespace) -> int:
    """Answer until interrupted."""
    from arena_robot.core.process import ended_by_signal
    from arena_robot.drivers.emulators.droid_nuc import DroidNucEmulator

    over = ended_by_signal()
    with DroidNucEmulator(args.host, args.port, robot=args.robot, task=args.task,
                          launched=not args.not_launched,
                          gripper_read_s=args.gripper_read) as emulator:
        print(f"DROID's server answers on {args.host}:{emulator.server.port} with a simulated "
              f'{args.robot}; Ctrl-C ends it', flush=True)
        if args.reflex_after is not None and not over.wait(args.reflex_after):
            print('a reflex: the stamp stands still for 2 s', flush=True)
            emulator.stall(2.0)
        over.wait()
    return 0
