"""
Score solutions with a verifier, by prefix and as a whole.

  arena skill verify verifier.json drawer/*.json
  arena skill verify rule drawer/*.json
  arena skill verify judge drawer/*.json          a chat model judges every subtask

VERIFIER is a file of `arena skill train`, or rule, or judge (the endpoint of ARENA_MODEL_URL and
ARENA_MODEL). The solution with the highest score of each task is marked with `best`. Exit code 1
when no solution reaches the threshold.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from arena_robot.skills.verifier import PrefixScorer

VERB = 'skill verify'
HELP = 'score solutions before they are executed'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('verifier', metavar='VERIFIER', help='a file, or rule, or judge')
    parser.add_argument('solutions', nargs='+', type=Path, metavar='SOLUTION',
                        help='files of `arena skill generate`')
    parser.add_argument('--strategy', choices=('last', 'mean', 'min', 'max', 'product'),
                        default='last', help='joins the scores of prefixes (default %(default)s)')
    parser.add_argument('--threshold', type=float, default=0.5,
                        help='accept from here on (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Score and print."""
    from arena_robot.skills.specs.files import read_solution
    from arena_robot.skills.specs.table import find_task
    from arena_robot.skills.verifier import strategy

    scorer = _scorer(args.verifier)
    rows: list[dict[str, Any]] = []
    with ProgressBar() as bar:
        for number, path in enumerate(args.solutions, 1):
            solution = read_solution(path)
            found = scorer.prefixes(find_task(solution.task).spec, solution)
            value = strategy(args.strategy)(found) if len(found) else 0.0
            rows.append({'file': str(path), 'task': solution.task, 'score': round(value, 4),
                         'accepted': value >= args.threshold,
                         'prefixes': [round(float(one), 4) for one in found]})
            bar.show(number, len(args.solutions), path.name)
    for row in rows:
        row['best'] = row['score'] == max(r['score'] for r in rows if r['task'] == row['task'])
    if args.json:
        print(json.dumps({'verifier': args.verifier, 'strategy': args.strategy,
                          'solutions': rows}, indent=2))
    else:
        for row in rows:
            parts = ' '.join(f'{one:.2f}' for one in row['prefixes'])
            print(f'{row["score"]:.3f}  {"accepted" if row["accepted"] else "rejected"}  '
                  f'{"best" if row["best"] else "    "}  {row["file"]}  [{parts}]')
    return 0 if any(row['accepted'] for row in rows) else 1


def _scorer(name: str) -> 'PrefixScorer':
    from arena_robot.models.chat import ChatClient
    from arena_robot.skills.baselines import ModelJudge, RuleScorer
    from arena_robot.skills.verifier import read_verifier
    if name == 'rule':
        return RuleScorer()
    return ModelJudge(ChatClient()) if name == 'judge' else read_verifier(Path(name))
