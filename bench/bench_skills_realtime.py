"""
What verification in real time saves: solutions verified while they are written and while they run.

    arena skill bench --quick --seed 1 --folder s1       labelled solutions of all tasks, 6 minutes
    python bench/bench_skills_realtime.py s1 [SEED ...]

For every task a verifier is trained on the other families' solutions in the folder. The task is
then solved with each seed (0 unless given) in four ways, at most four runs each:

    in order      eight whole solutions, executed as they were written
    best first    the same eight, executed by the verifier's score: best-of-N that goes on
    real time     arena_robot.skills.solving.solve
    growing pool  the same, with exemplars of the tasks that were solved before in this way

Printed for one to four runs: the share of tasks solved, and per task the mean of simulated
control steps, of subtasks written and of processor seconds (verification and execution). The last
lines say how many simulated steps real time saves at the share that the others reach.
"""

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from arena_robot.cli.terminal import ProgressBar
from arena_robot.skills.base import TaskSpec
from arena_robot.skills.bench import FAMILY, SkillBenchPlan, groups
from arena_robot.skills.dataset import read_dataset
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.pool import ExemplarPool
from arena_robot.skills.solving import Solved, SolveSettings, best_first, solve
from arena_robot.skills.verifier import PrefixScorer, score, train_verifier
from arena_robot.trials.skills.executor import station_executor

DRAFTS = 8      # of which best-of-N chooses, as `arena skill bench --quick`
DRAWS = 2000    # of the bootstrap over tasks
IN_ORDER, BEST_FIRST, REAL_TIME, GROWING = 'in order', 'best first', 'real time', 'growing pool'


def verifiers(folder: Path, plan: SkillBenchPlan) -> dict[str, PrefixScorer]:
    """Return by task a verifier that saw no task of its fold's families."""
    tasks = read_dataset(folder / 'base.jsonl').tasks
    found: dict[str, PrefixScorer] = {}
    for names in groups([task.spec for task in tasks], FAMILY, plan.folds, plan.seed):
        model = train_verifier([task for task in tasks if task.spec.name not in names])
        found |= dict.fromkeys(names, model)
    return found


def ways(spec: TaskSpec, scorer: PrefixScorer, settings: SolveSettings, pool: ExemplarPool
         ) -> dict[str, Callable[[], Solved]]:
    policy = StructuredGenerator()
    drafts = [policy.generate(spec, (), settings.seed * 1000 + k) for k in range(DRAFTS)]

    def executed() -> 'object':
        return station_executor(spec)

    return {
        IN_ORDER: lambda: best_first(spec, drafts, executed(), lambda _: 0.0, settings),
        BEST_FIRST: lambda: best_first(spec, drafts, executed(),
                                       lambda draft: score(scorer, spec, draft), settings),
        REAL_TIME: lambda: solve(spec, policy, executed(), scorer, (), settings),
        GROWING: lambda: solve(spec, policy, executed(), scorer, pool.pairs(spec, 2), settings)}


def measured(specs: Sequence[TaskSpec], scorers: dict[str, PrefixScorer], seeds: Sequence[int]
             ) -> dict[str, list[tuple[Solved, float]]]:
    """Return by way what came of each task and seed, with its processor seconds."""
    found: dict[str, list[tuple[Solved, float]]] = {}
    with ProgressBar() as bar:
        for count, seed in enumerate(seeds):
            pool = ExemplarPool()
            for number, spec in enumerate(specs):
                bar.show(count * len(specs) + number, len(seeds) * len(specs), spec.name)
                for way, solving in ways(spec, scorers[spec.name], SolveSettings(seed=seed),
                                         pool).items():
                    begun = time.process_time()
                    solved = solving()
                    found.setdefault(way, []).append((solved, time.process_time() - begun))
                    if way == GROWING and solved.solution is not None:
                        pool = pool.grown(spec, solved.solution)
    return found


def curves(rows: Sequence[tuple[Solved, float]], runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, runs) whether a task is solved after each run, and its simulated steps."""
    solved, steps = np.zeros((len(rows), runs)), np.zeros((len(rows), runs))
    for row, (result, _) in enumerate(rows):
        for run in range(runs):
            done = result.attempts[:run + 1]
            solved[row, run] = any(attempt.success for attempt in done)
            steps[row, run] = done[-1].sim_steps if done else 0
    return solved, steps


def steps_for(share: float, solved: np.ndarray, steps: np.ndarray) -> float:
    """Return the mean steps at which that share of tasks is solved, between runs linearly."""
    reached = np.concatenate([[0.0], solved.mean(axis=0)])
    spent = np.concatenate([[0.0], steps.mean(axis=0)])
    if reached[-1] < share:
        return float('nan')
    last = int(np.argmax(reached >= share))
    part = (share - reached[last - 1]) / (reached[last] - reached[last - 1])
    return float(spent[last - 1] + part * (spent[last] - spent[last - 1]))


def saving(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray],
           run: int) -> float:
    """Return the share of steps that ``second`` saves where ``first`` is after a run."""
    share = float(first[0].mean(axis=0)[run])
    return 1.0 - steps_for(share, *second) / float(first[1].mean(axis=0)[run])


def main(folder: str, *seeds: str) -> None:
    plan, settings = SkillBenchPlan(), SolveSettings()
    scorers = verifiers(Path(folder), plan)
    specs = [task.spec for task in read_dataset(Path(folder) / 'base.jsonl').tasks]
    found = measured(specs, scorers, [int(seed) for seed in seeds] or [0])
    tables = {way: curves(rows, settings.runs) for way, rows in found.items()}
    print(f'{len(specs)} tasks, seeds {", ".join(seeds) or "0"}; share of tasks solved, simulated '
          'steps per task after each run')
    for way, (solved, steps) in tables.items():
        costs = [result.cost for result, _ in found[way]]
        print(f'{way:<14}' + '  '.join(
            f'{share:.2f} {spent:5.0f}' for share, spent in zip(
                solved.mean(axis=0), steps.mean(axis=0), strict=True))
            + f'   written {np.mean([cost.written for cost in costs]):.1f} subtasks in '
            f'{np.mean([cost.drafts for cost in costs]):.1f} replies, '
            f'{np.mean([cpu_s for _, cpu_s in found[way]]):.2f} s')
    draw = np.random.default_rng(0)
    for other, way in itertools.product((IN_ORDER, BEST_FIRST), (REAL_TIME, GROWING)):
        values = []
        for _ in range(DRAWS):
            k = draw.integers(len(found[way]), size=len(found[way]))
            values.append(saving((tables[other][0][k], tables[other][1][k]),
                                 (tables[way][0][k], tables[way][1][k]), settings.runs - 1))
        told = [value for value in values if np.isfinite(value)]
        low, high = np.percentile(told, [2.5, 97.5]) if told else (np.nan, np.nan)
        print(f'{way} beside {other}, at the share that {other} has solved in the end: simulated '
              f'steps saved {saving(tables[other], tables[way], settings.runs - 1):.2f} '
              f'[{low:.2f}, {high:.2f}] ({len(told)} of {DRAWS} draws reach it)')


if __name__ == '__main__':
    main(*sys.argv[1:])
