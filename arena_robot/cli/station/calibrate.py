"""
Find where a camera is, from pictures of a ChArUco board, and write it into the station file.

A wrist camera looks at a board that lies still; any other camera looks at a board on the
gripper. The arm is moved by hand, and Enter takes each picture; or to the joints of --poses,
after the word MOVE is typed. With --episode the pictures are those of a recording in which the
arm stood still. The camera must look from at least 6 poses, tilted about two axes. The old
file is kept.

    arena calibrate camera --board-picture board.png           to print, at exactly its size
    arena calibrate camera --config my_lab.yaml --camera wrist_camera
    arena calibrate camera --config my_lab.yaml --camera left_camera --poses poses.yaml
    arena calibrate camera --config my_lab.yaml --camera wrist_camera --episode …/A --dry-run
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from arena_robot.cli.driver import WORD
from arena_robot.cli.terminal import json_text
from arena_robot.core.errors import ConfigError, DriverError

if TYPE_CHECKING:
    from arena_robot.core.observation import Floats, Pixels
    from arena_robot.drivers.calibration import BoardView, CharucoBoard, Extrinsics
    from arena_robot.nodes.remote.calibration import StationCamera

WORST = 3.0     # times the median error, above which a picture is named


def camera_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--config', type=Path, metavar='FILE', help='the station file')
    parser.add_argument('--camera', metavar='NODE', help='its camera node, such as wrist_camera')
    parser.add_argument('--namespace', default='', help='namespace of the station')
    parser.add_argument('--episode', type=Path, nargs='+', metavar='DIR',
                        help='recordings to take the pictures from')
    parser.add_argument('--poses', type=Path, metavar='FILE',
                        help='YAML list of seven joint angles (rad) each, to move to')
    parser.add_argument('--yes', action='store_true', help=f'move without the word {WORD}')
    parser.add_argument('--columns', type=int, default=7, help='squares of the board')
    parser.add_argument('--rows', type=int, default=5, help='squares of the board')
    parser.add_argument('--square-mm', type=float, default=40.0, help='side of a square')
    parser.add_argument('--marker-mm', type=float, default=30.0, help='side of a marker')
    parser.add_argument('--dictionary', default='DICT_5X5_100',
                        help="OpenCV's name of its markers")
    parser.add_argument('--board-picture', type=Path, metavar='FILE',
                        help='write the board as a picture to print, and end')
    parser.add_argument('--dry-run', action='store_true', help='write nothing')


def run_camera(args: argparse.Namespace) -> int:
    """Collect pictures, compute, print, and write."""
    from arena_robot.drivers.calibration import CharucoBoard, calibrate
    board = CharucoBoard(args.columns, args.rows, args.square_mm * 1e-3, args.marker_mm * 1e-3,
                         args.dictionary)
    if args.board_picture:
        return draw(board, args.board_picture)
    which, parent, on_flange = station_camera(args)
    say = print_nothing if args.json else print
    shots, k = recorded(args, which) if args.episode else live(args, which, say)
    views = board_views(board, shots, say)
    result = calibrate(views, k, on_flange)
    values = {'extrinsics': [round(v, 6) for v in result.pose], 'extrinsics_frame': parent}
    old_file = ''
    if not args.dry_run:
        from arena_robot.nodes.station.files import save_parameters
        old_file = str(save_parameters(args.config, args.camera, values))
    report(args, result, values, old_file)
    return 0


def station_camera(args: argparse.Namespace) -> 'tuple[StationCamera, str, bool]':
    """Return which camera, the frame that it is fixed to, and whether that is the flange."""
    from arena_robot.nodes.remote.calibration import StationCamera
    from arena_robot.nodes.station.files import with_parameters
    from arena_robot.nodes.station.processes import section
    from arena_robot.robots.cameras import STYLES
    from arena_robot.safety.limits import robot_of
    if not args.config or not args.camera:
        raise ConfigError('--config and --camera are needed: the station file, and the name of '
                          'one of its camera nodes')
    camera, arm = section([args.config], args.camera), section([args.config], 'arm_node')
    # Before anything is moved: what is found can be written.
    with_parameters(args.config.read_text(encoding='utf-8') if args.config.is_file() else '',
                    args.camera, {'extrinsics': [0.0]})
    style = str(camera.get('topic_style', 'zed5'))
    if style not in STYLES:
        raise ConfigError(f"topic_style of {args.camera} is '{style}', known are "
                          f"{', '.join(STYLES)}")
    on_flange = str(camera.get('role', args.camera.removesuffix('_camera'))) == 'wrist'
    robot, prefix = robot_of(str(arm.get('robot_type', 'panda'))), str(arm.get('arm_prefix', ''))
    parent = robot.flange_frame(prefix) if on_flange else robot.base_frame(prefix)
    return StationCamera(args.namespace, args.camera, style), parent, on_flange


def recorded(args: argparse.Namespace, which: 'StationCamera'
             ) -> 'tuple[list[tuple[Floats, Pixels]], Floats]':
    """Return the pictures of recordings with their flange poses, and the intrinsics."""
    from arena_robot.recording.bag.reader import BagReader
    from arena_robot.recording.episode.clip import intrinsics, still_views
    from arena_robot.robots.cameras import topics_of
    image, info = (text.removeprefix('~/') for text in topics_of(which.style, 'left')[:2])
    space = f"/{which.namespace.strip('/')}" if which.namespace.strip('/') else ''
    shots, k = [], np.eye(3)
    for folder in args.episode:
        with BagReader(folder) as bag:
            k, _frame = intrinsics(bag, f'{space}/{which.camera}/{info}')
            shots += [(view.flange, view.picture)
                      for view in still_views(bag, f'{space}/{which.camera}/{image}')]
    return shots, k


def live(args: argparse.Namespace, which: 'StationCamera', say: Any
         ) -> 'tuple[list[tuple[Floats, Pixels]], Floats]':
    """Return pictures of the running station, each at another pose, and the intrinsics."""
    from arena_robot.nodes.remote.calibration import CalibrationStation
    goals = poses_in(args.poses) if args.poses else []
    if goals and not args.yes and not agreed(len(goals)):
        raise ConfigError(f'nothing was moved: type {WORD}, or give --yes')
    if not goals and not sys.stdin.isatty():
        raise ConfigError('without a terminal give --poses, or --episode')
    with CalibrationStation(which) as station:
        k = station.intrinsics()
        if goals:
            return [station_shot(station, goal, number, len(goals), say)
                    for number, goal in enumerate(goals, 1)], k
        return list(by_hand(station, say)), k


def station_shot(station: Any, goal: 'Floats', number: int, count: int, say: Any) -> Any:
    """Move to a listed pose and take a picture."""
    say(f'pose {number} of {count}', flush=True)
    station.go(goal)
    return station.take()


def by_hand(station: Any, say: Any) -> Iterator[Any]:
    """Yield a picture for each Enter, until the word done."""
    say('Move the arm by hand so that the camera sees the board; Enter takes a picture, '
        '"done" ends.', flush=True)
    count = 0
    while input(f'{count} pictures ').strip() != 'done':
        try:
            yield station.take()
            count += 1
        except DriverError as error:
            say(f'not taken: {error}')


def agreed(count: int) -> bool:
    """Ask before the arm moves; False without a terminal."""
    if not sys.stdin.isatty():
        return False
    return input(f'The arm will move to {count} poses. Keep the hardware stop in reach. Type '
                 f'{WORD} to begin: ').strip() == WORD


def poses_in(path: Path) -> 'list[Floats]':
    """Return the joints of a YAML list. Raises ConfigError."""
    try:
        values = yaml.safe_load(path.read_text(encoding='utf-8'))
        out = [np.asarray(joints, np.float64) for joints in values]
    except (OSError, yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigError(f'{path} must be a list of seven joint angles each: {error}') from error
    if not out or any(joints.shape != (7,) or not np.all(np.isfinite(joints)) for joints in out):
        raise ConfigError(f'{path} must be a list of seven finite joint angles (rad) each')
    return out


def board_views(board: 'CharucoBoard', shots: 'Sequence[tuple[Floats, Pixels]]', say: Any
                ) -> 'list[BoardView]':
    """Return the views in which the board was found."""
    from arena_robot.drivers.calibration import BoardView
    from arena_robot.safety.urdf import matrix_of
    out = []
    for flange, picture in shots:
        seen = board.find(picture)
        if seen is not None:
            out.append(BoardView(matrix_of(flange.tolist()), *seen))
    say(f'the board was found in {len(out)} of {len(shots)} pictures')
    return out


def report(args: argparse.Namespace, result: 'Extrinsics', values: dict[str, Any],
           old_file: str) -> None:
    """Print the result, and which pictures fit badly."""
    median = float(np.median(result.errors_px))
    bad = [n for n, px in enumerate(result.errors_px, 1) if px > max(WORST * median, 1.0)]
    if args.json:
        print(json_text({'camera': args.camera, **values, 'error_px': result.error_px,
                          'errors_px': result.errors_px, 'place_mm': result.place_mm,
                          'turn_deg': result.turn_deg, 'bad_pictures': bad,
                          'written': '' if args.dry_run else str(args.config),
                          'old_file': old_file}))
        return
    x, y, z, *turn = result.pose
    print(f"{args.camera} in {values['extrinsics_frame']}: x {x:.4f} y {y:.4f} z {z:.4f} m, roll "
          f'{turn[0]:.4f} pitch {turn[1]:.4f} yaw {turn[2]:.4f} rad')
    print(f'corners are {result.error_px:.2f} px off ({len(result.errors_px)} pictures); standard '
          f'deviation {result.place_mm:.1f} mm, {result.turn_deg:.2f} degrees')
    if bad:
        print(f"pictures {', '.join(map(str, bad))} fit badly: leave them out, or let the arm "
              'come to rest before each')
    print(f'nothing written; {values}' if args.dry_run else
          f'written to {args.config}; the old file is {old_file}. Start the camera node again.')


def draw(board: 'CharucoBoard', path: Path) -> int:
    """Write the board as a picture."""
    board.save(path)
    print(f'{path}: print it {board.columns * board.square_m * 1e3:g} mm wide and '
          f'{board.rows * board.square_m * 1e3:g} mm high, and glue it to something flat')
    return 0


def print_nothing(*words: object, **options: object) -> None:
    """Print nothing, so that JSON is all there is."""
