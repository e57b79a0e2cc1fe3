"""
What finds the motions of reward subtasks: the search, and reinforcement learning beside it.

    python bench/bench_skills_learning.py [SEEDS [TASK ...]]

Executes the reference solutions of some tasks in SEEDS scenes (3) with each learner and prints,
for their reward subtasks: how many succeed, and the mean of simulated control steps and of CPU
seconds, failures included. ``sac`` needs `pip install 'droid-arena[rl]'`.
"""

import sys
import time

from arena_robot.skills.base import SubtaskKind, SubtaskResult
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import EXECUTORS, station_executor

TASKS = ('open_drawer', 'press_start_button', 'lift_cube')


def rewarded(task_name: str, learner: str, seed: int) -> list[SubtaskResult]:
    task = find_task(task_name)
    solution = reference_solution(task)
    executor = station_executor(task.spec, learner)
    try:
        results = executor.execute(task.spec, solution, seed).results
    finally:
        executor.close()
    return [result for step, result in zip(solution.subtasks, results, strict=False)
            if step.kind is SubtaskKind.REWARD]


def main(seeds: int = 3, *tasks: str) -> None:
    print(f"{'task':28} {'learner':8} success   steps    CPU s   each: steps and CPU s")
    for task in tasks or TASKS:
        for learner in EXECUTORS:
            found = [one for seed in range(seeds) for one in rewarded(task, learner, seed)]
            steps = sum(one.sim_steps for one in found) / len(found)
            cpu_s = sum(one.cpu_s for one in found) / len(found)
            each = ', '.join(f"{'' if one.success else 'not '}{one.sim_steps} {one.cpu_s:.1f}"
                             for one in found)
            print(f'{task:28} {learner:8} {sum(one.success for one in found):3}/{len(found):<3} '
                  f'{steps:7.0f} {cpu_s:8.2f}   {each}', flush=True)


if __name__ == '__main__':
    begun = time.monotonic()
    main(*(int(one) for one in sys.argv[1:2]), *sys.argv[2:])
    print(f'{time.monotonic() - begun:.0f} s')
