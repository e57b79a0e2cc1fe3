"""Verbs that emulate devices: the NUC of a DROID station, FR3 and Panda, Robotiq, ZED."""

import argparse
from pathlib import Path

CAMERAS = ('20000001:left', '20000002:right', '10000003:wrist')


def droid_nuc_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument('--arm-read', type=float, default=0.002, metavar='S',
                        help='seconds that a read of the arm takes (default %(default)s)')
    parser.add_argument('--not-launched', action='store_true',
                        help='begin without a controller, as after the NUC has started')
    parser.add_argument('--reflex-after', type=float, metavar='S',
                        help='have a reflex after so many seconds; it ends after 2 s more')


def run_droid_nuc(args: argparse.Namespace) -> int:
    """
    Emulate the NUC of a DROID station: its server on port 4242, over a simulated arm and gripper.

    It speaks zerorpc as DROID's server does, with its methods and units; other zerorpc clients can
    connect too. Give the address to arm_node as robot_ip, or to a driver check. Ctrl-C ends it.

      arena emulate droid-nuc
      arena driver check arm droid_nuc --param robot_ip=127.0.0.1 --yes
      arena driver check gripper droid_nuc --param robot_ip=127.0.0.1 --yes
    """
    from arena_robot.core.process import ended_by_signal
    from arena_robot.drivers.emulators.droid_nuc import DroidNucEmulator

    over = ended_by_signal()
    with DroidNucEmulator(args.host, args.port, robot=args.robot, task=args.task,
                          launched=not args.not_launched,
                          gripper_read_s=args.gripper_read,
                          arm_read_s=args.arm_read) as emulator:
        print(f"DROID's server answers on {args.host}:{emulator.server.port} with a simulated "
              f'{args.robot}; Ctrl-C ends it', flush=True)
        if args.reflex_after is not None and not over.wait(args.reflex_after):
            print('a reflex: the stamp stands still for 2 s', flush=True)
            emulator.stall(2.0)
        over.wait()
    return 0


def fr3_arguments(parser: argparse.ArgumentParser) -> None:
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


def run_fr3(args: argparse.Namespace) -> int:
    """
    Emulate a Franka FR3 or Panda: its control box with the FCI, over a simulated arm.

    It speaks the protocol that libfranka, pylibfranka and franka-rs use: version 10 as an FR3
    does, or version 5 as a Panda does. One client can be connected. Ctrl-C ends it.

      arena emulate fr3
      arena driver check arm franka_rs --param robot_ip=127.0.0.1 --yes
      arena emulate fr3 --robot panda --reflex-after 20
    """
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


def robotiq_arguments(parser: argparse.ArgumentParser) -> None:
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


def run_robotiq(args: argparse.Namespace) -> int:
    """
    Emulate a Robotiq 2F-85 gripper on a serial port of this machine.

    The port is a pseudo terminal that speaks Modbus RTU as the real gripper does, with its
    registers, travel times and faults. Give the printed path to gripper_node as com_port, or to a
    driver check. As the real one after power-up, it must be activated first. Ctrl-C ends it.

      arena emulate robotiq --link /tmp/robotiq --activated
      arena driver check gripper robotiq --param com_port=/tmp/robotiq --yes
    """
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


def zed_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder to make')
    parser.add_argument('--camera', action='append', metavar='SERIAL:ROLE',
                        help=f'a camera that is plugged in (default {" ".join(CAMERAS)})')
    parser.add_argument('--scene', default='cube_in_bowl', metavar='TASK',
                        help="what they see; '' is a test pattern (default %(default)s)")


def run_zed(args: argparse.Namespace) -> int:
    """
    Make a folder that stands in for the ZED SDK, with emulated cameras.

    Programs that have the folder on PYTHONPATH import it as pyzed. Their cameras show the
    simulated station, which stands still, at full size and rate. DIR/cameras.json may be changed
    while they run: a camera taken out of it is unplugged, and "fault": "LOW_USB_BANDWIDTH" makes
    the SDK report that error. Nothing runs in the background; delete the folder when it is not
    needed any more.

      arena emulate zed /tmp/zed --camera 20000001:left --camera 10000003:wrist
      PYTHONPATH=/tmp/zed arena driver check camera zed --param serial_number=20000001
      PYTHONPATH=/tmp/zed arena station --config my_lab.yaml
    """
    from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder

    cameras = {}
    for text in args.camera or CAMERAS:
        serial, _, role = text.partition(':')
        cameras[serial] = EmulatedZed(role or 'left', args.scene)
    make_folder(args.folder.resolve(), cameras)
    print(f'{len(cameras)} emulated ZED cameras: {", ".join(cameras)}\n'
          f'use them with  PYTHONPATH={args.folder.resolve()} arena …\n'
          f'unplug or break them in  {args.folder.resolve() / "cameras.json"}')
    return 0
