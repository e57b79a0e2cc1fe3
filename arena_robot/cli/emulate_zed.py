"""
Make a folder that stands in for the ZED SDK, with emulated cameras.

Programs that have the folder on PYTHONPATH import it as pyzed. Their cameras show the simulated
station, which stands still, at full size and rate. DIR/cameras.json may be changed while they run:
a camera taken out of it is unplugged, and "fault": "LOW_USB_BANDWIDTH" makes the SDK report that
error. Nothing runs in the background; delete the folder when it is not needed any more.

  arena emulate zed /tmp/zed --camera 20000001:left --camera 10000003:wrist
  PYTHONPATH=/tmp/zed arena driver check camera zed --param serial_number=20000001
  PYTHONPATH=/tmp/zed arena station --config my_lab.yaml
"""

import argparse
from pathlib import Path

VERB = 'emulate zed'
HELP = 'emulate ZED cameras: a folder that stands in for their SDK'
CAMERAS = ('20000001:left', '20000002:right', '10000003:wrist')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder to make')
    parser.add_argument('--camera', action='append', metavar='SERIAL:ROLE',
                        help=f'a camera that is plugged in (default {" ".join(CAMERAS)})')
    parser.add_argument('--scene', default='cube_in_bowl', metavar='TASK',
                        help="what they see; '' is a test pattern (default %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Make the folder."""
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
