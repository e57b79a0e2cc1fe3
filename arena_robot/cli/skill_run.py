"""
Execute a solution of a skill task on the simulated station.

  arena skill run open_drawer                                  the reference solution
  arena skill run open_drawer --solution drawer.json --seed 3
  arena skill run open_drawer --solution FOLDER                a task folder of RoboGen
  arena skill run open_drawer --video drawer.mp4               of the motions that were found
  arena skill run open_drawer --learner sac                    by reinforcement learning

A subtask succeeds by its own indicator, a solution when all do and the task's oracle agrees. Exit
code 1 when the solution does not succeed.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.skill_arguments import add_learner_argument

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
    add_learner_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Execute, print a line per subtask, and write the video."""
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.films import write_film
    from arena_robot.trials.skills.making import solution_of, station_executor

    task = find_task(args.task)
    solution = solution_of(task, args.solution)
    executor = station_executor(task.spec, args.learner)
    try:
        found = executor.execute(task.spec, solution, args.seed)
        if args.video and found.results:
            write_film(args.video, task, solution, args.seed,
                       executor.outcomes(task.spec, solution, args.seed))
    finally:
        executor.close()
    print(json.dumps(_as_json(solution, found), indent=2) if args.json
          else _text(solution, found))
    return 0 if found.success else 1


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
