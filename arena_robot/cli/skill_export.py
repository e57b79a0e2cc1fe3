"""
Make a policy of a solution: its motions in scenes of the simulated station, each verified.

  arena skill export close_box_lid --out box.json                  the reference solution
  arena skill export close_box_lid --solution mine.json --scenes 20 --out box.json
  arena policy serve skill:box.json

The solution is executed in the scenes that the station has with seeds 0, 1, …, with a gripper that
opens and closes fully. A motion is kept when it succeeds again as a policy, by the oracle. The
policy plays the motion whose start picture is most like the one that is seen, open loop. Exit code
1, and no file, when no motion is kept.
"""

import argparse
import json
import sys
from pathlib import Path

from arena_robot.cli.progress_bar import ProgressBar
from arena_robot.cli.skill_arguments import add_learner_argument
from arena_robot.cli.worker_arguments import add_worker_arguments, workers

VERB = 'skill export'
HELP = 'make a policy of a verified solution'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name; `arena skill spec` lists them')
    parser.add_argument('--solution', type=Path, metavar='FILE',
                        help="JSON file or RoboGen's task folder (the reference solution)")
    parser.add_argument('--out', type=Path, metavar='FILE', required=True,
                        help='write the motions there (JSON)')
    parser.add_argument('--scenes', type=int, default=1, metavar='N',
                        help='how many scenes are tried (default %(default)s)')
    parser.add_argument('--first-scene', type=int, default=0, metavar='N',
                        help="the station's seed of the first one (default %(default)s)")
    parser.add_argument('--json', action='store_true', help='print what became of every scene')
    add_learner_argument(parser)
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Execute in every scene, write what is kept, and say how much that is."""
    from functools import partial

    from arena_robot.core.errors import ConfigError
    from arena_robot.policy.recorded_skill import write_recording
    from arena_robot.skills.specs.table import find_task, slug
    from arena_robot.trials.skills.export import export_scene, recording_of
    from arena_robot.trials.skills.making import motion_finder, solution_of
    from arena_robot.trials.skills.station_tasks import address

    if args.scenes < 1 or args.first_scene < 0:
        raise ConfigError('--scenes must be at least 1 and --first-scene at least 0')
    task = find_task(args.task)
    solution = solution_of(task, args.solution)
    scenes = range(args.first_scene, args.first_scene + args.scenes)
    with ProgressBar() as bar:
        work = partial(export_scene, task, solution, finder=motion_finder(args.learner))
        found = workers(args).map(work, list(scenes), lambda done, one: bar.show(
            done, len(scenes), f'scene {one.scene}'))
    kept = [one.scene for one in found if one.motion is not None]
    if kept:
        write_recording(args.out, recording_of(task, solution, found))
    if args.json:
        print(json.dumps({'task': task.spec.name, 'station_task': address(slug(task.spec.name)),
                          'file': str(args.out) if kept else None, 'kept': kept,
                          'executed': [one.scene for one in found if one.executed],
                          'scenes': list(scenes)}, indent=2))
    else:
        print(f'{len(scenes)} scenes: {sum(one.executed for one in found)} succeed with a gripper '
              f'that opens fully, {len(kept)} again as a policy')
    if not kept:
        print('no motion is kept, so there is no policy', file=sys.stderr)
        return 1
    if not args.json:
        print(f'serve it: arena policy serve skill:{args.out}\nits scenes at the simulated '
              f'station: --task {address(slug(task.spec.name))} --seed {kept[0]}')
    return 0
