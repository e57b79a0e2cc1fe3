"""
Measure the whole loop: solutions, exemplars, labels, verifier, on tasks that were held out.

  arena skill bench --quick                   on two cores, under ten minutes
  arena skill bench --full --folder full/     more solutions and completions
  arena skill bench --quick --seed 1 --json

Every task is held out once, by three splits: tasks, families, solutions. FOLDER keeps the
datasets, so that a call that was interrupted goes on; the same seed gives the same numbers.
"""

import argparse
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.skill.spec import (
    add_learner_argument,
    add_policy_arguments,
    add_task_argument,
    executor,
    policy,
    specs,
)
from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arena_robot.skills.bench import SkillBenchPlan
    from arena_robot.skills.verifier import PrefixScorer

CPU_S_PER_SOLUTION = 0.7    # of the grammar's solutions on the simulated station


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument('--quick', action='store_true',
                      help='8 solutions of every task, 4 with exemplars (the default)')
    size.add_argument('--full', action='store_true',
                      help='24 solutions of every task, 8 with exemplars, 3 completions')
    parser.add_argument('--folder', type=Path, metavar='FOLDER',
                        help='where datasets are kept (default: a temporary folder)')
    parser.add_argument('--out', type=Path, metavar='FILE', help='write the result as JSON too')
    parser.add_argument('--plot', type=Path, metavar='FILE',
                        help="draw the verifier's calibration (.svg or .png)")
    parser.add_argument('--strategy', choices=('last', 'mean', 'min', 'max', 'product'),
                        default='last', help='joins the scores of prefixes (default %(default)s)')
    parser.add_argument('--judge', action='store_true',
                        help='compare with a chat model that judges every subtask, too')
    add_task_argument(parser)
    add_policy_arguments(parser)
    add_learner_argument(parser)
    add_worker_arguments(parser, jobs=2)


def run_bench(args: argparse.Namespace) -> int:
    """Run all stages and print what they say."""
    from arena_robot.core.files import write_json
    from arena_robot.ranking.standings import plain
    from arena_robot.skills.bench import SkillBenchParts, most_solutions, run_stages
    from arena_robot.skills.bench_report import as_text, evaluate

    name, maker = policy(args)
    executor_name, executor_of = executor(args)
    plan, tasks = _plan(args), specs(args)
    _announce(most_solutions(plan, len(tasks)), len(tasks), args)
    with _folder(args.folder) as folder, ProgressBar() as bar:
        stages = run_stages(Path(folder), tasks,
                            SkillBenchParts(name, executor_name, maker, executor_of), plan,
                            workers(args), bar.show)
        result = evaluate(stages, plan, bar.show, _judges(args))
    if args.out:
        write_json(args.out, result)
    if args.plot:
        _plot(result, args.plot)
    print(json_text(plain(result)) if args.json else as_text(result))
    return 0


def _plot(result: 'Mapping[str, Any]', path: Path) -> None:
    from arena_robot.reports.skill_page import plot_calibration
    plot_calibration({split: values['calibration'] for split, values in result['splits'].items()},
                     path)


def _announce(solutions: int, tasks: int, args: argparse.Namespace) -> None:
    again = f'; the same call goes on in {args.folder} after an interruption' if args.folder else \
        '; with --folder, a call that was interrupted goes on'
    time = (f', about {max(1, round(solutions * CPU_S_PER_SOLUTION / 60))} minutes of processor '
            'time' if args.learner == 'search' else '')
    print(f'{tasks} tasks, at most {solutions} solutions{time}{again}', file=sys.stderr)


def _plan(args: argparse.Namespace) -> 'SkillBenchPlan':
    from arena_robot.skills.bench import SkillBenchPlan
    if args.full:
        return SkillBenchPlan(24, 8, 3, how=args.strategy, seed=args.seed, permutations=5)
    return SkillBenchPlan(8, 4, 1, how=args.strategy, seed=args.seed)


def _judges(args: argparse.Namespace) -> 'dict[str, PrefixScorer]':
    if not args.judge:
        return {}
    from arena_robot.models.chat import ChatClient, ChatSettings
    from arena_robot.skills.baselines import ModelJudge
    client = ChatClient(ChatSettings(cache=args.cache))
    return {f'judge:{client.model}': ModelJudge(client)}


def _folder(path: Path | None) -> AbstractContextManager[str | Path]:
    return nullcontext(path) if path else tempfile.TemporaryDirectory(prefix='arena-skills-')
