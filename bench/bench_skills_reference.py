"""
How often the reference solutions of the skill tasks succeed, and what they cost.

    python bench/bench_skills_reference.py [SEEDS [JOBS]]

``success`` counts solutions whose subtasks all succeed by their own indicators and whose oracle
agrees, of SEEDS scenes (20), with Wilson's 95 % interval. ``CPU s`` is the mean of one solution.
The aim is that every task succeeds on at least 95 % of 20 seeds.
"""

import sys
from collections import defaultdict

from arena_robot.core.parallel import Workers
from arena_robot.core.wilson import wilson
from arena_robot.skills.base import Execution
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS, find_task, slug
from arena_robot.trials.skills.executor import StationExecutor

AIM = 0.95


def execute(task_seed: tuple[str, int]) -> Execution:
    task = find_task(task_seed[0])
    executor = StationExecutor(task)
    try:
        return executor.execute(task.spec, reference_solution(task), task_seed[1])
    finally:
        executor.close()


def row(name: str, found: list[Execution]) -> str:
    good = sum(one.success for one in found)
    low, high = wilson(good, len(found))
    cpu_s = sum(result.cpu_s for one in found for result in one.results) / len(found)
    wrong = sum(one.claimed and not one.oracle for one in found)
    return (f'{slug(name):36} {good:3}/{len(found):<3} [{low:.2f}, {high:.2f}] {cpu_s:6.2f}'
            + (f'   claimed against the oracle: {wrong}' if wrong else ''))


def main(seeds: int = 20, jobs: int = 1) -> None:
    items = [(name, seed) for name in SKILL_TASKS for seed in range(seeds)]
    found = defaultdict(list)
    for (name, _), one in zip(items, Workers(jobs).map(execute, items), strict=True):
        found[name].append(one)
    print(f"{'task':36} success  95 %          CPU s")
    for name, executions in found.items():
        print(row(name, executions))
    good = sum(one.success for some in found.values() for one in some)
    under = [slug(name) for name, some in found.items()
             if sum(one.success for one in some) < AIM * len(some)]
    print(f'{good} of {len(items)} solutions succeed; tasks under {AIM:.0%}: '
          f"{', '.join(under) or 'none'}")


if __name__ == '__main__':
    main(*map(int, sys.argv[1:]))
