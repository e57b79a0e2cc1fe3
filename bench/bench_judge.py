"""
What the local judge takes to answer, and what the OPD metrics take; preference against progress.

  python bench/bench_judge.py
  python bench/bench_judge.py --preferences FOLDER

One query of eight frames of three views (at most 60 ms of waiting), one value of a followed
rollout (at least two a second), and the metrics of 10 000 episodes of 300 steps (at most 0.5 s).
The limits are those of a quiet machine with two cores.

With --preferences, sessions.csv and episodes.csv of RoboArena in FOLDER. Printed by category of
tasks: in how many sessions without a tie the evaluator preferred the rollout with the higher
progress score of the evaluator's own, and the shorter one, as a clock would say; 95 % intervals.
Such tables have no pictures, so no judge can be measured on them; the first column is what a judge
could reach that scores as people do.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.opd import measure
from arena_robot.audit.run import ProgressFollower
from arena_robot.core.task_categories import categorise
from arena_robot.core.wilson import wilson
from arena_robot.records.clip import Clip
from arena_robot.records.roboarena import RankedBy
from arena_robot.records.roboarena_files import read_folder
from arena_robot.reports.audit_agreement import Agreement, by_category

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


def preferences(folder):
    """Print how far preferences and two measures of progress agree, by category."""
    rows = {'score': [], 'shorter': []}
    for session in read_folder(folder).sessions:
        slots = session.slots()
        if not session.counts or set(slots) != {'A', 'B'}:
            continue
        scored, (a, b) = session.better(RankedBy.PROGRESS), (slots[s].steps for s in 'AB')
        for name, said in (('score', scored.value if scored else ''),
                           ('shorter', 'AB'[a > b] if a != b else 'TIE')):
            if said:
                rows[name].append(Agreement(session.session_id, '', '', session.preference.value,
                                            said, 0.0, categorise(session.prompt)))
    counts = {name: by_category(found) for name, found in rows.items()}
    print(f'{"category":26}' + ''.join(f'{f"{name} agrees":32}' for name in rows).rstrip())
    for category in [*sorted(set().union(*counts.values())), 'all']:
        cells = []
        for found in counts.values():
            agree, of = np.sum(list(found.values()), axis=0) if category == 'all' \
                else found.get(category, (0, 0))
            low, high = wilson(agree, of)
            cells.append(f'{agree / of:.2f} [{low:.2f}, {high:.2f}] of {of}' if of else '-')
        print(f'{category:26}' + ''.join(f'{cell:32}' for cell in cells).rstrip())
    for name, found in rows.items():
        chosen = [row for row in found if row.preference != 'TIE']
        print(f'{name}: equal in {sum(row.audit == "TIE" for row in chosen)} of the {len(chosen)} '
              f'sessions with a preference; in {len(found) - len(chosen)} the evaluator had none')


def main():
    """Measure the three, or print preferences against progress."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--preferences', type=Path, metavar='FOLDER', help='tables of RoboArena')
    args = parser.parse_args()
    if args.preferences:
        preferences(args.preferences)
        return
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
