"""
What the local judge takes to answer: one query of eight frames of three views.

The limit is 60 ms of waiting on a quiet machine with two cores.
"""

import time

import numpy as np

from arena_robot.audit.local.judge import LocalJudge
from arena_robot.core.clip import Clip

LIMIT_MS = 60.0
VIEWS = ('left', 'right', 'wrist')


def main() -> None:
    """Ask twenty times and print the middle and the worst wait."""
    rng = np.random.default_rng(0)
    views = {view: [*rng.integers(0, 255, (8, 144, 256, 3), np.uint8)]
             for view in VIEWS}
    clip, judge = Clip('put the red cube in the bowl', np.arange(8.0), views), LocalJudge()
    judge.progress(clip)
    waits, spent = [], []
    for _ in range(20):
        began = time.perf_counter(), time.process_time()
        judge.progress(clip)
        waits.append(1e3 * (time.perf_counter() - began[0]))
        spent.append(1e3 * (time.process_time() - began[1]))
    told = 'met' if np.median(waits) <= LIMIT_MS else 'MISSED'
    print(f'local judge, 8 frames x 3 views: p50 {np.median(waits):.1f} ms, '
          f'max {max(waits):.1f} ms, processor {np.median(spent):.1f} ms; '
          f'limit {LIMIT_MS:g} ms: {told}')


if __name__ == '__main__':
    main()
