"""
How many sessions each goal of the assignment needs, on simulated pools whose truth is known.

Prints the table of docs/how_many_sessions.md: abilities normal with a standard deviation of 1
log-odds, 16 % ties, one look at the posterior for two sessions. Fails where a limit is missed by
more than chance. Takes 5 minutes; --scale 0.2 is quicker and coarser. --policies 15 --goal top1
prints that row alone.
"""

import argparse
import os
import sys

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')

import numpy as np  # noqa: E402

from arena_robot.server.config import AssignmentGoal  # noqa: E402
from arena_robot.server.sessions.assignment import Aim  # noqa: E402
from arena_robot.server.sessions.simulate import play, synthetic  # noqa: E402

WAYS = {'uniform': ('uniform', AssignmentGoal.ORDER),
        **{goal.value: ('informative', goal) for goal in AssignmentGoal}}
# Share of pools whose first is right after so many sessions with the goal top1.
LIMITS = {(15, 200): 0.80, (7, 260): 0.90}
POOLS = {7: 1000, 15: 600}
UPTO = {7: (1000, 500), 15: (2000, 700)}


def main(scale, sizes, ways):
    """Print the table of some sizes and ways; return 1 where a limit is missed."""
    print('| policies | goal | first right in 80 % | in 90 % | first 3 right in 80 % '
          '| correlation 0.9 |')
    print('|---|---|---|---|---|---|')
    missed = []
    for policies, pools in ((n, POOLS[n]) for n in sizes):
        rng = np.random.default_rng(policies)
        truths = [synthetic(policies, rng) for _ in range(max(20, round(pools * scale)))]
        for name, (way, goal) in ((one, WAYS[one]) for one in ways):
            if goal is AssignmentGoal.NEWCOMER:
                continue
            upto = UPTO[policies][name not in ('uniform', 'order')]
            found = play(truths, way, upto, 1, aim=Aim(goal))
            cells = [found.needed(level, what) or f'> {upto}' for what, level in
                     (('first', 0.8), ('first', 0.9), ('top', 0.8), ('correlation', 0.9))]
            print(f'| {policies} | {name} | ' + ' | '.join(map(str, cells)) + ' |', flush=True)
            if goal is AssignmentGoal.TOP1:
                missed += [text for (n, at), least in LIMITS.items() if n == policies
                           for text in short(found, at, least, len(truths))]
    if len(ways) > 1:
        newcomer(scale)
    print('missed: ' + '; '.join(missed) if missed else 'every limit kept')
    return 1 if missed else 0


def short(found, at, least, pools):
    """Return what is missed, two standard errors allowed."""
    here = np.abs(found.comparisons - at) <= 20
    share = found.first[here].mean()
    print(f'first right after {at} sessions with top1: {share:.3f} (wanted {least})')
    return [] if share >= least - 2 * np.sqrt(least * (1 - least) / pools) else [
        f'{share:.3f} instead of {least} after {at} sessions']


def newcomer(scale):
    """Print how soon a policy that enters a known pool of 15 is placed within one rank."""
    rng = np.random.default_rng(4)
    truths = [synthetic(15, rng) for _ in range(max(20, round(600 * scale)))]
    print('\n| goal | newcomer within one rank in 60 % | in 70 % |\n|---|---|---|')
    for name in ('uniform', 'order', 'newcomer'):
        way, goal = WAYS[name]
        found = play(truths, way, 300, 2, aim=Aim(goal), before=400)
        cells = [str(found.needed(level, 'placed') or '> 300') for level in (0.6, 0.7)]
        print(f'| {name} | ' + ' | '.join(cells) + ' |', flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--scale', type=float, default=1.0, help='pools, as a multiple')
    parser.add_argument('--policies', type=int, choices=POOLS, help='pools of this size alone')
    parser.add_argument('--goal', choices=WAYS, help='this goal alone')
    given = parser.parse_args()
    sys.exit(main(given.scale, [given.policies] if given.policies else list(POOLS),
                  [given.goal] if given.goal else list(WAYS)))
