"""
What the local judge takes to answer, and what the OPD metrics take.

One query of eight frames of three views (at most 60 ms of waiting), one value of a followed
rollout (at least two a second), and the metrics of 10 000 episodes of 300 steps (at most 0.5 s).
The limits are those of a quiet machine with two cores.
"""

import time

import numpy as np

from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.opd import measure
from arena_robot.audit.run import ProgressFollower
from arena_robot.records.clip import Clip

QUERY_MS, LIVE_MS, OPD_MS = 60.0, 500.0, 500.0
VIEWS = ('left', 'right', 'wrist')
TASK = 'put the red cube in the bowl'


def told(name, calls, limit_ms):
    """Time each call, and print the middle and the worst wait."""
    waits, spent = [], []
    for call in calls:
        began = time.perf_counter(), time.process_time()
        call()
        waits.append(1e3 * (time.perf_counter() - began[0]))
        spent.append(1e3 * (time.process_time() - began[1]))
    verdict = 'met' if np.median(waits) <= limit_ms else 'MISSED'
    print(f'{name}: p50 {np.median(waits):.1f} ms, max {max(waits):.1f} ms, processor '
          f'{np.median(spent):.1f} ms; limit {limit_ms:g} ms: {verdict}')


def main():
    """Measure the three."""
    rng = np.random.default_rng(0)
    views = {view: [*rng.integers(0, 255, (8, 144, 256, 3), np.uint8)] for view in VIEWS}
    clip, judge = Clip(TASK, np.arange(8.0), views), LocalJudge()
    judge.progress(clip)
    told('local judge, 8 frames x 3 views', [lambda: judge.progress(clip)] * 20, QUERY_MS)
    follower = ProgressFollower(judge, TASK)

    def follow(k):
        return lambda: follower.add(0.4 * k, {view: views[view][k % 8] for view in VIEWS})
    told('local judge, one value of a followed rollout', [follow(k) for k in range(20)], LIVE_MS)
    traces = list(rng.random((10_000, 301)))
    told('OPD metrics of 10 000 episodes of 300 steps', [lambda: measure(traces)] * 5, OPD_MS)


if __name__ == '__main__':
    main()
