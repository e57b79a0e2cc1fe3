"""
What the vision policy takes to answer: every query of whole episodes on the simulated station.

A query brings one 320x180 picture and is answered with eight joint targets. Most queries only
continue a motion; those after a look find things in the picture.
"""

import argparse
import time

import numpy as np

from arena_robot.policy.examples.vision import Vision
from arena_robot.trials.trial import Course, Trial

TARGET_MS = 30.0
TASKS = ('lift_cube', 'cube_in_bowl', 'cup_on_plate', 'stack_blocks', 'sort_cubes', 'find_cube')
SPENT_S: list[float] = []


class Timed(Vision):
    """The vision policy with a stopwatch (processor time of its thread)."""

    def infer(self, observation, episode=''):
        """Answer and note the time."""
        began = time.thread_time()
        chunk = super().infer(observation, episode)
        SPENT_S.append(time.thread_time() - began)
        return chunk


def main():
    """Print the latencies per task and whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seeds', type=int, default=3)
    seeds = parser.parse_args().seeds
    course, worst = Course(), 0.0
    print(f'{"task":14} {"queries":>8} {"p50":>8} {"p99":>8} {"max":>8}   ms of one core')
    for task in TASKS:
        SPENT_S.clear()
        for seed in range(seeds):
            course.run(Trial('__main__:Timed', task, seed))
        p50, p99, most = np.percentile(np.array(SPENT_S) * 1e3, [50, 99, 100])
        worst = max(worst, p99)
        print(f'{task:14} {len(SPENT_S):>8} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}')
    print(f'target: p99 <= {TARGET_MS:g} ms: {"met" if worst <= TARGET_MS else "MISSED"}')


if __name__ == '__main__':
    main()
