"""Verbs of embodiments: files that say what a robot is."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.robots.arms import Robot
    from arena_robot.safety.embodiments import Embodiment

TRIES = 50      # poses that the inverse kinematics is asked for; a second or two


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('file', metavar='FILE', help='a YAML file, or the name of an embodiment')


def run_check(args: argparse.Namespace) -> int:
    """
    Explain every mistake in the file of an embodiment; exit code 1 where there is one.

    Without a mistake it says what the file describes: each arm with its joints, where its flange
    is at the reset pose, how many of 50 reachable poses its inverse kinematics finds, and which
    links are not kept apart, numbered from 0, the base; each layout of actions, and as what it is
    driven, or why it is not.

      arena embodiment check config/embodiments/droid.yaml
      arena embodiment check my_ur5e.yaml --json
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.safety.embodiments import checked, path_of

    try:
        made, arms, wrong = checked(path_of(args.file))
    except ConfigError as error:
        made, arms, wrong = None, {}, [str(error)]
    told = [] if wrong or made is None else _described(made, arms)
    if args.json:
        print(json_text({'file': args.file, 'mistakes': wrong, 'description': told}))
    else:
        for line in wrong or told:
            print(line, file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


def _described(made: 'Embodiment', arms: 'dict[str, Robot]') -> list[str]:
    out = [f'{made.name}: {made.title}']
    for part, robot in arms.items():
        place = ' '.join(f'{number:.3f}' for number in _flange(robot))
        out.append(f'arm {part}: {robot.joints} joints from {robot.base_frame()} to '
                   f'{robot.flange_frame()}; at reset its flange is at {place} m; inverse '
                   f'kinematics finds {_found(robot)} of {TRIES} poses')
        out += [f'arm {part}: {_apart(robot)}'] if robot.own_joints else []
    moved = {joint: part for part, arm in made.arms.items() for joint in arm.joints}
    out += [f'gripper {name}: {gripper.type or f"{gripper.stroke_m:g} m"}, closed is '
            f'{gripper.closed:g}' + ''.join(
                f'; moved with {moved[joint]}' for joint in gripper.joints[:1] if joint in moved)
            for name, gripper in made.grippers.items()]
    out += [f'camera {name}: {camera.kind.value}' for name, camera in made.cameras.items()]
    for name, layout in made.layouts.items():
        size = sum(part.size for part in layout.slices)
        out.append(f'layout {name}: {size} numbers at {layout.rate:g} Hz, '
                   + _driven(made, arms, name))
    return out


def _driven(made: 'Embodiment', arms: 'dict[str, Robot]', layout: str) -> str:
    """Return which arm is driven in a layout, and as what, or why none is."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.safety.embodiments import drive_of

    why = ''
    for part, robot in arms.items():
        try:
            drive = drive_of(made, part, robot, layout)
        except ConfigError as error:
            why = why or str(error)
            continue
        as_what = f"as DROID's {drive.space.value}" if drive.plain \
            else f'by turning it into {drive.space.value}'
        return f"driven {as_what}; a policy's spec says layout='{robot.name}/{layout}'"
    return f'not driven: {why}'


def _flange(robot: 'Robot') -> Any:
    import numpy as np

    from arena_robot.safety.kinematics import flange_pose
    return flange_pose(np.array(robot.reset_joints), robot.limits.chain)[:3]


def _apart(robot: 'Robot') -> str:
    """Return which links are kept apart, numbered from 0, the base."""
    body = robot.limits.chain.body()
    shaped = {shape.link for shape in body.shapes}
    if not shaped:
        return 'no link has a shape, so that links are not kept apart'
    bare = [str(link) for link in range(robot.joints + 1) if link not in shaped]
    out = f'links are kept {robot.limits.self_distance:g} m apart'
    if bare:
        out += f"; not links {', '.join(bare)}, which have no shape"
    if body.touching:
        out += '; not those that touch at reset: ' + ', '.join(
            f'{a} and {b}' for a, b in body.touching)
    return out


def _found(robot: 'Robot') -> int:
    """Return of how many poses, each of random joints, the inverse kinematics finds joints."""
    import numpy as np

    from arena_robot.core.errors import NotConverged
    from arena_robot.safety.kinematics import END, frames, solve

    limits, rng, found = robot.limits, np.random.default_rng(0), 0
    for _ in range(TRIES):
        goal = frames(rng.uniform(limits.q_min, limits.q_max), limits.chain)[END]
        try:
            solve(goal, np.array(robot.reset_joints), limits)
            found += 1
        except NotConverged:
            continue
    return found


def list_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run_list(args: argparse.Namespace) -> int:
    """
    List the embodiments that robot_type can name, with their titles and files.

    They are those of this package, and those that installed packages name in the entry point
    group `arena_robot.embodiments`. A path of a YAML file can stand wherever a name can.

      arena embodiment list
    """
    from arena_robot.core.config import read_yaml
    from arena_robot.safety.embodiments import EMBODIMENTS

    rows: dict[str, Path] = EMBODIMENTS.rows()
    titles = {name: str(read_yaml(path).get('title', '')) for name, path in rows.items()}
    if args.json:
        print(json_text([{'name': name, 'title': titles[name], 'file': path}
                         for name, path in rows.items()]))
    else:
        for name, path in rows.items():
            print(f'{name:16} {titles[name]}: {path}')
    return 0


def propose_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('model', type=Path, metavar='MODEL', help='an MJCF or URDF file')
    parser.add_argument('--base', default='', metavar='BODY',
                        help='where the arm begins (default: the first body)')
    parser.add_argument('--tool', default='', metavar='BODY',
                        help='body or site where the gripper is mounted, along its z axis '
                             '(default: the last body behind most joints)')


def run_propose(args: argparse.Namespace) -> int:
    """
    Print the file of an embodiment for the arm in a model: its joints from base to tool.

    What the model does not say is assumed and has to be looked up: accelerations, speeds unless
    it is a URDF, torques where the joints have none. The reset pose has the tool 0.4 m above the
    table and down, where the arm reaches that; else each joint is in the middle of its range.

      arena embodiment propose ur5e.xml --tool attachment_site > ur5e.yaml
      arena embodiment check ur5e.yaml
    """
    import yaml

    from arena_robot.safety.embodiments import PROPOSED
    from arena_robot.safety.models import model_path, proposed_arm

    path = model_path(str(args.model), Path())
    content = {'name': path.stem, 'title': path.stem,
               'arms': {'arm': proposed_arm(path, args.base, args.tool)}, **PROPOSED}
    print(json_text(content) if args.json else
          yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=98).rstrip())
    return 0
