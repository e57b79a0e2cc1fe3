"""
Execute a solution of a skill task on the simulated station.

  arena skill run open_drawer                                  the reference solution
  arena skill run open_drawer --solution drawer.json --seed 3
  arena skill run open_drawer --solution FOLDER                a task folder of RoboGen
  arena skill run open_drawer --video drawer.mp4               of the motions that were found

A subtask succeeds by its own indicator, a solution when all do and the task's oracle agrees. Exit
code 1 when the solution does not succeed.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_robot.skills.base import Execution, Solution

VERB = 'skill run'
HELP = 'execute a solution of a skill task on the simulated station'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name; `arena skill spec` lists them')
    parser.add_argument('--solution', type=Path, metavar='FILE',
                        help="JSON file or RoboGen's task folder (the reference solution)")
    parser.add_argument('--seed', type=int, default=0, help='of the scene (default %(default)s)')
    parser.add_argument('--video', type=Path, metavar='FILE', help='write an MP4')
    parser.add_argument('--json', action='store_true', help='print the outcome as JSON')


def run(args: argparse.Namespace) -> int:
    """Execute, print a line per subtask, and write the video."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.robogen import read_task_folder
    from arena_robot.skills.specs.files import read_solution
    from arena_robot.skills.specs.reference import reference_solution
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.making import station_executor

    task = find_task(args.task)
    if args.solution is None:
        solution = reference_solution(task)
    else:
        read = read_task_folder if args.solution.is_dir() else read_solution
        solution = read(args.solution)
    if solution.task != task.spec.name:
        raise ConfigError(f"{args.solution} solves '{solution.task}', not '{task.spec.name}'")
    executor = station_executor(task.spec)
    try:
        found = executor.execute(task.spec, solution, args.seed)
        if args.video and found.results:
            _film(args, solution, executor.outcomes(task.spec, solution, args.seed))
    finally:
        executor.close()
    print(json.dumps(_as_json(solution, found), indent=2) if args.json
          else _text(solution, found))
    return 0 if found.success else 1


def _film(args: argparse.Namespace, solution: 'Solution', outcomes: list[Any]) -> None:
    from arena_robot.recording.episode.frames import rgb_frame, write_video
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.replay import SkillFilm

    film = SkillFilm(find_task(args.task), solution, args.seed)
    film.make(solution.subtasks, outcomes)
    write_video(args.video, ((stamp, rgb_frame(pixels)) for stamp, pixels in film.frames))


def _as_json(solution: 'Solution', found: 'Execution') -> dict[str, Any]:
    from arena_robot.skills.as_json import to_json

    return {'task': solution.task, 'policy': solution.policy, **to_json(found),
            'success': found.success}


def _text(solution: 'Solution', found: 'Execution') -> str:
    lines = []
    for step, result in zip(solution.subtasks, found.results, strict=False):
        word = 'done  ' if result.success else 'failed'
        lines.append(f'{word} {step.name} ({step.kind.value}; {result.sim_steps} steps, '
                     f'{result.cpu_s:.2f} s)' + (f': {result.error}' if result.error else ''))
    left = len(solution.subtasks) - len(found.results)
    lines += [f'{left} subtasks were not run'] * bool(left)
    lines.append(f"claimed: {'yes' if found.claimed else 'no'}; oracle: "
                 f"{'yes' if found.oracle else 'no'}; success: "
                 f"{'yes' if found.success else 'no'}")
    return '\n'.join(lines)
