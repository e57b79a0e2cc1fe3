"""Verbs on single solutions: generate, verify, run, solve, export."""

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.skill.spec import add_learner_argument, add_policy_arguments, policy
from arena_robot.cli.terminal import ProgressBar, json_text, sentences

if TYPE_CHECKING:
    from arena_robot.skills.base import Execution, Solution
    from arena_robot.skills.solving import Solved
    from arena_robot.skills.specs.tasks import SkillTask
    from arena_robot.skills.verifier import PrefixScorer
    from arena_robot.trials.skills.export import SceneExport


def generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name, or a file of `arena skill propose`')
    parser.add_argument('--count', type=int, default=1, metavar='N',
                        help='solutions (default %(default)s)')
    parser.add_argument('--pool', type=Path, metavar='FILE', help='take exemplars from there')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='how many (default %(default)s)')
    parser.add_argument('--out', type=Path, metavar='FOLDER', help='write a file per solution')
    add_policy_arguments(parser)


def run_generate(args: argparse.Namespace) -> int:
    """
    Have a policy model write solutions of a task.

      arena skill generate open_drawer --count 3
      arena skill generate open_drawer --pool pool.json --out drawer/

    With a pool, exemplars of similar tasks are given. Files in FOLDER are for `arena skill run`.
    """
    from arena_robot.core.errors import ModelBadReply
    from arena_robot.skills.base import to_json
    from arena_robot.skills.pool import read_pool
    from arena_robot.skills.prompts import subtasks_text
    from arena_robot.skills.specs.table import find_task, slug, write_solution

    task = find_task(args.task)
    spec = task.spec
    exemplars = read_pool(args.pool).pairs(spec, args.exemplars) if args.pool else []
    writer, solutions, malformed = policy(args, task)[1](), [], 0
    with ProgressBar() as bar:
        for number in range(args.count):
            try:
                solutions.append(writer.generate(spec, exemplars, args.seed * 1000 + number))
            except ModelBadReply:
                malformed += 1
            bar.show(number + 1, args.count, spec.name)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        for number, solution in enumerate(solutions):
            write_solution(args.out / f'{slug(spec.name)}-{args.seed}-{number}.json', solution)
    if args.json:
        print(json_text({'policy': writer.name, 'malformed': malformed,
                          'exemplars': [example.name for example, _ in exemplars],
                          'solutions': [to_json(solution) for solution in solutions]}))
    else:
        for number, solution in enumerate(solutions, 1):
            print(f'# solution {number} of {spec.name}, by {solution.policy}\n'
                  f'{subtasks_text(solution)}\n')
        print(f'{len(solutions)} solutions, {malformed} malformed replies')
    return 0 if solutions else 1


def verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('verifier', metavar='VERIFIER', help='a file, or rule, strong_rule, judge')
    parser.add_argument('solutions', nargs='+', type=Path, metavar='SOLUTION',
                        help='files of `arena skill generate`')
    parser.add_argument('--strategy', choices=('last', 'mean', 'min', 'max', 'product'),
                        default='last', help='joins the scores of prefixes (default %(default)s)')
    parser.add_argument('--threshold', type=float, default=0.5,
                        help='accept from here on (default %(default)s)')


def run_verify(args: argparse.Namespace) -> int:
    """
    Score solutions with a verifier, by prefix and as a whole.

      arena skill verify verifier.json drawer/*.json
      arena skill verify rule drawer/*.json
      arena skill verify judge drawer/*.json          a chat model judges every subtask

    VERIFIER is a file of `arena skill train`, or rule, strong_rule (rules that also compare the
    code with the scene), or judge (the endpoint of ARENA_MODEL_URL and ARENA_MODEL). The solution
    with the highest score of each task is marked with `best`. Exit code 1 when no solution reaches
    the threshold.
    """
    from arena_robot.skills.specs.table import find_task, read_solution
    from arena_robot.skills.verifier import strategy

    scorer = _scorer(args.verifier)
    rows: list[dict[str, Any]] = []
    with ProgressBar() as bar:
        for number, path in enumerate(args.solutions, 1):
            solution = read_solution(path)
            scores = scorer.prefixes(find_task(solution.task).spec, solution)
            value = strategy(args.strategy)(scores) if len(scores) else 0.0
            rows.append({'file': str(path), 'task': solution.task, 'score': round(value, 4),
                         'accepted': value >= args.threshold,
                         'prefixes': [round(float(score), 4) for score in scores]})
            bar.show(number, len(args.solutions), path.name)
    for row in rows:
        row['best'] = row['score'] == max(r['score'] for r in rows if r['task'] == row['task'])
    if args.json:
        print(json_text({'verifier': args.verifier, 'strategy': args.strategy,
                          'solutions': rows}))
    else:
        for row in rows:
            parts = ' '.join(f'{score:.2f}' for score in row['prefixes'])
            print(f'{row["score"]:.3f}  {"accepted" if row["accepted"] else "rejected"}  '
                  f'{"best" if row["best"] else "    "}  {row["file"]}  [{parts}]')
    return 0 if any(row['accepted'] for row in rows) else 1


def _scorer(name: str) -> 'PrefixScorer':
    from arena_robot.models.chat import ChatClient
    from arena_robot.skills.baselines import ModelJudge, RuleScorer, StrongRuleScorer
    from arena_robot.skills.verifier import read_verifier
    if name in ('rule', 'strong_rule'):
        return RuleScorer() if name == 'rule' else StrongRuleScorer()
    return ModelJudge(ChatClient()) if name == 'judge' else read_verifier(Path(name))


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name, or a file of `arena skill propose`')
    parser.add_argument('--solution', type=Path, metavar='FILE',
                        help="JSON file or RoboGen's task folder (the reference solution)")
    parser.add_argument('--seed', type=int, default=0, help='of the scene (default %(default)s)')
    parser.add_argument('--video', type=Path, metavar='FILE', help='write an MP4')
    add_learner_argument(parser)


def run_run(args: argparse.Namespace) -> int:
    """
    Execute a solution of a skill task on the simulated station.

      arena skill run open_drawer                                  the reference solution
      arena skill run open_drawer --solution drawer.json --seed 3
      arena skill run open_drawer --solution FOLDER                a task folder of RoboGen
      arena skill run open_drawer --video drawer.mp4               of the motions that were found
      arena skill run open_drawer --learner sac                    by reinforcement learning

    A subtask succeeds by its own indicator, a solution when all do and the task's oracle agrees.
    Exit code 1 when the solution does not succeed.
    """
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.executor import StationExecutor, motion_finder, solution_of
    from arena_robot.trials.skills.films import write_film

    task = find_task(args.task)
    solution = solution_of(task, args.solution)
    executor = StationExecutor(task, motion_finder(args.learner))
    try:
        execution = executor.execute(task.spec, solution, args.seed)
        if args.video and execution.results:
            write_film(args.video, task, solution, args.seed,
                       executor.outcomes(task.spec, solution, args.seed))
    finally:
        executor.close()
    print(json_text(_as_json(solution, execution)) if args.json
          else _text(solution, execution))
    return 0 if execution.success else 1


def _as_json(solution: 'Solution', execution: 'Execution') -> dict[str, Any]:
    from arena_robot.skills.base import to_json

    return {'task': solution.task, 'policy': solution.policy, **to_json(execution),
            'success': execution.success}


def _text(solution: 'Solution', execution: 'Execution') -> str:
    lines = []
    for step, result in zip(solution.subtasks, execution.results, strict=False):
        word = 'done  ' if result.success else 'failed'
        lines.append(f'{word} {step.name} ({step.kind.value}; {result.sim_steps} steps, '
                     f'{result.cpu_s:.2f} s)' + (f': {result.error}' if result.error else ''))
    left = len(solution.subtasks) - len(execution.results)
    lines += [f'{left} subtasks were not run'] * bool(left)
    lines.append(f"claimed: {'yes' if execution.claimed else 'no'}; oracle: "
                 f"{'yes' if execution.oracle else 'no'}; success: "
                 f"{'yes' if execution.success else 'no'}")
    return '\n'.join(lines)


def solve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name, or a file of `arena skill propose`')
    parser.add_argument('--verifier', required=True, metavar='VERIFIER',
                        help='a file of `arena skill train`, or rule, strong_rule, judge')
    parser.add_argument('--threshold', type=float, default=0.5,
                        help='reject a prefix below it (default %(default)s)')
    parser.add_argument('--runs', type=int, default=4, metavar='N',
                        help='at most so many runs (default %(default)s)')
    parser.add_argument('--drafts', type=int, default=24, metavar='N',
                        help='at most so many replies for each run (default %(default)s)')
    parser.add_argument('--pool', type=Path, metavar='FILE',
                        help='take exemplars from there; what succeeds joins them')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='how many (default %(default)s)')
    parser.add_argument('--out', type=Path, metavar='FILE', help='write the solution')
    add_policy_arguments(parser)
    add_learner_argument(parser)


def run_solve(args: argparse.Namespace) -> int:
    """
    Solve a task: a verifier reads while a policy model writes and while the station executes.

      arena skill solve open_drawer --verifier verifier.json
      arena skill solve open_drawer --verifier verifier.json --pool pool.json --out drawer.json

    At the first prefix whose score is below the threshold the rest is written anew. A subtask that
    failed, or whose success held before anything moved, is written anew after what was executed;
    a chat model is told why. Exit code 1 when no run succeeds.
    """
    from arena_robot.skills.pool import ExemplarPool, read_pool, write_pool
    from arena_robot.skills.solving import SolveSettings, solve
    from arena_robot.skills.specs.table import find_task, write_solution
    from arena_robot.trials.skills.executor import StationExecutor, motion_finder

    task = find_task(args.task)
    spec = task.spec
    settings = SolveSettings(args.threshold, args.drafts, args.runs, args.seed)
    pool = read_pool(args.pool) if args.pool and args.pool.exists() else ExemplarPool()
    executor = StationExecutor(task, motion_finder(args.learner))
    try:
        solved = solve(spec, policy(args, task)[1](), executor, _scorer(args.verifier),
                       pool.pairs(spec, args.exemplars), settings)
    finally:
        executor.close()
    solution = solved.solution
    if solution is not None and args.out:
        write_solution(args.out, solution)
    if solution is not None and args.pool and spec.name not in pool.barred:
        write_pool(args.pool, pool.grown(spec, solution, solution.policy))
    print(json_text(_solved_json(solved)) if args.json else _solved_text(solved))
    return 0 if solution is not None else 1


def _solved_json(solved: 'Solved') -> dict[str, Any]:
    from arena_robot.skills.base import to_json

    return {'cost': to_json(solved.cost), 'success': solved.solution is not None,
            'runs': [to_json(attempt) for attempt in solved.attempts]}


def _solved_text(solved: 'Solved') -> str:
    lines = [f'run {number}: {"succeeded" if run.success else "failed"} after '
             f'{run.sim_steps} simulated steps in all: '
             + ', '.join(subtask.name for subtask in run.solution.subtasks)
             + (f' ({run.failure})' if run.failure else '')
             for number, run in enumerate(solved.attempts, 1)]
    cost = solved.cost
    return '\n'.join([*lines, f'{cost.written} subtasks written in {cost.drafts} replies, '
                      f'{cost.rejected} of them rejected; {cost.runs} runs'])


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name; `arena skill spec` lists them')
    parser.add_argument('--solution', type=Path, metavar='FILE',
                        help="JSON file or RoboGen's task folder (the reference solution)")
    parser.add_argument('--out', type=Path, metavar='FILE', required=True,
                        help='write the motions there (JSON)')
    parser.add_argument('--scenes', type=int, default=1, metavar='N',
                        help='how many scenes are tried (default %(default)s)')
    parser.add_argument('--first-scene', type=int, default=0, metavar='N',
                        help="the station's seed of the first one (default %(default)s)")
    add_learner_argument(parser)
    add_worker_arguments(parser)


def run_export(args: argparse.Namespace) -> int:
    """
    Make a policy of a solution: its motions in scenes of the simulated station, each verified.

      arena skill export close_box_lid --out box.json                  the reference solution
      arena skill export close_box_lid --solution mine.json --scenes 20 --out box.json
      arena policy serve skill:box.json

    The solution is executed in the scenes that the station has with seeds 0, 1, …, with a gripper
    that opens and closes fully. A motion is kept when it succeeds again as a policy, by the
    oracle. The policy plays the motion whose start picture is most like the one that is seen, open
    loop. Exit code 1, and no file, when no motion is kept.
    """
    from arena_robot.policy.recorded_skill import write_recording
    from arena_robot.skills.specs.table import find_task, slug
    from arena_robot.trials.skills.executor import solution_of
    from arena_robot.trials.skills.export import recording_of
    from arena_robot.trials.skills.station_tasks import address

    task = find_task(find_task(args.task).spec.name)    # the station has tasks of the table
    solution = solution_of(task, args.solution)
    tried = _tried(args, task, solution)
    executed = [scene.scene for scene in tried if scene.executed]
    verified = [scene.scene for scene in tried if scene.motion is not None]
    if verified:
        write_recording(args.out, recording_of(task, solution, tried))
    place, say = address(slug(task.spec.name)), sentences(args)
    say(f'{len(tried)} scenes: {len(executed)} succeed with a gripper that opens fully, '
        f'{len(verified)} again as a policy')
    if verified:
        say(f'serve it: arena policy serve skill:{args.out}\nits scenes at the simulated station: '
            f'--task {place} --seed {verified[0]}')
    else:
        print('no motion is kept, so there is no policy', file=sys.stderr)
    if args.json:
        print(json_text({'task': task.spec.name, 'station_task': place, 'kept': verified,
                         'file': args.out if verified else None, 'executed': executed,
                         'scenes': [scene.scene for scene in tried]}))
    return 0 if verified else 1


def _tried(args: argparse.Namespace, task: 'SkillTask', solution: 'Solution'
           ) -> 'list[SceneExport]':
    from arena_robot.core.errors import ConfigError
    from arena_robot.trials.skills.executor import motion_finder
    from arena_robot.trials.skills.export import export_scene
    if args.scenes < 1 or args.first_scene < 0:
        raise ConfigError('--scenes must be at least 1 and --first-scene at least 0')
    scenes = range(args.first_scene, args.first_scene + args.scenes)
    work = functools.partial(export_scene, task, solution, finder=motion_finder(args.learner))
    with ProgressBar() as bar:
        return workers(args).map(work, list(scenes), lambda done, scene: bar.show(
            done, len(scenes), f'scene {scene.scene}'))
