"""
How often what is stated at 95 % holds, on simulated data sets whose truth is known.

Prints a row of docs/ranking.md's table per kind of data, number of policies and of sessions: the
coverage of the score's interval, the share of policies with an interval, the coverage of all rank
ranges at once, and how often p_better of 0.90 to 0.95 was right. Takes minutes; --repeats 20 is
quicker and coarser.
"""

import argparse
import os
import sys
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')
sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / 'ranking'))

from ranking_worlds import scored_tally, tally  # noqa: E402

KINDS = (('bt', 'bt', 1), ('davidson', 'davidson', 1), ('tasks', 'davidson', 1),
         ('evaluators', 'davidson', 20))


def main(repeats):
    """Print the table."""
    print('| data | policies | sessions | interval | stated | all ranks | p .90-.95 right |')
    print('|---|---|---|---|---|---|---|')
    for kind, method, people in KINDS:
        for policies in (3, 7, 20):
            for sessions in (20, 50, 200, 600):
                tell(kind, policies, sessions,
                     tally(kind, policies, sessions, repeats, method, evaluators=people))
    for method in ('bt', 'task_partial'):
        for policies in (3, 7):
            for sessions in (20, 50, 150):
                tell(f'scores, `{method}`', policies, sessions,
                     scored_tally(policies, sessions, repeats, method))


def tell(kind, policies, sessions, found):
    """Print a row."""
    cells = [share(found.held, found.stated), share(found.stated, found.policies),
             share(found.joint_held, found.sets), share(found.confident_right, found.confident)]
    print(f'| {kind} | {policies} | {sessions} | ' + ' | '.join(cells) + ' |', flush=True)


def share(part, whole):
    """Return a share as text; nothing where fewer than 20 cases are known."""
    return f'{part / whole:.2f}' if whole >= 20 else '-'


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--repeats', type=int, default=40, help='data sets per row (default 40)')
    main(parser.parse_args().repeats)
