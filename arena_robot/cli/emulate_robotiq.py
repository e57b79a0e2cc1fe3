"""
Emulate a Robotiq 2F-85 gripper on a serial port of this machine.

The port is a pseudo terminal that speaks Modbus RTU as the real gripper does, with its registers,
travel times and faults. Give the printed path to gripper_node as com_port, or to a driver check.
As the real one after power-up, it must be activated first. Ctrl-C ends it.

  arena emulate robotiq --link /tmp/robotiq --activated
  arena driver check gripper robotiq --param com_port=/tmp/robotiq --yes
"""

import argparse
from pathlib import Path

VERB = 'emulate robotiq'
HELP = 'emulate a 2F-85 gripper on a serial port'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--link', type=Path, metavar='PATH',
                        help='symbolic link to make to the port, a name that stays')
    parser.add_argument('--slave-address', type=int, default=9, metavar='N',
                        help='Modbus address (default %(default)s)')
    parser.add_argument('--activated', action='store_true', help='begin activated')
    parser.add_argument('--object', type=float, metavar='M',
                        help='width of an object between the fingers in metres, up to 0.085')
    parser.add_argument('--latency', type=float, default=0.0, metavar='S',
                        help='added to each reply; the default timer of a USB adapter adds 0.016')


def run(args: argparse.Namespace) -> int:
    """Answer until interrupted."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.core.process import ended_by_signal
    from arena_robot.drivers.emulators.robotiq import RobotiqEmulator
    from arena_robot.robots.grippers import ROBOTIQ_2F85

    stroke_m = ROBOTIQ_2F85.stroke_m
    if args.object is not None and not 0.0 <= args.object <= stroke_m:
        raise ConfigError(f'--object {args.object:g}: the fingers open 0 to {stroke_m} m')
    if not 1 <= args.slave_address <= 247:
        raise ConfigError(f'--slave-address {args.slave_address}: Modbus has 1 to 247')
    if args.link is not None and args.link.exists() and not args.link.is_symlink():
        raise ConfigError(f'--link {args.link} is there already and is no link; choose another')
    over = ended_by_signal()
    with RobotiqEmulator(args.slave_address, activated=args.activated, object_m=args.object,
                         link=args.link, latency_s=args.latency) as emulator:
        print(f'a 2F-85 answers on {args.link or emulator.path}, slave address '
              f'{args.slave_address}; Ctrl-C ends it', flush=True)
        over.wait()
    return 0
