"""
Declare a study before its first trial: write it, plan it, check it; report, publish it afterwards.

A study names the policies, the start conditions, when a trial has succeeded, and the test that
decides. The program that runs the trials writes the journal that `arena study report` reads.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.terminal import json_text, sentences

if TYPE_CHECKING:
    from arena_robot.blind.planning import StudyPlan
    from arena_robot.blind.study import DecisionRule, Study

QUESTIONS = {
    'name': 'What is the task, in a few words?',
    'arms': 'Which policies? name=address, separated by spaces:',
    'instruction': 'Which instruction do they get?',
    'conditions': 'Which start conditions, separated by commas?',
    'success': 'When has a trial succeeded?',
    'assumed': 'Which success rates do you expect, of the worse and of the better (0.5 0.75)?',
}


def new_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from arena_robot.blind.study import STUDY_FILE
    parser.add_argument('--output', type=Path, default=Path(STUDY_FILE), metavar='FILE',
                        help='the file to write (default %(default)s); it must not exist')
    parser.add_argument('--sequential', action='store_true',
                        help='stop as soon as the test decides, at twice the blocks of a fixed '
                             'study at most')


def run_new(args: argparse.Namespace) -> int:
    """
    Ask six questions and write a study, with the number of blocks that it needs.

    The answers are read from standard input, a line each. Two policies meet in pairs, more in a
    round robin. Everything else in the file can be edited before the first trial; `arena study
    check` reads it.

        arena study new
    """
    from arena_robot.blind.planning import plan
    from arena_robot.blind.study import load_study, study_yaml
    from arena_robot.core.errors import ConfigError
    from arena_robot.core.files import write_text

    if args.output.exists():
        raise ConfigError(f'{args.output} exists already; name another --output, or edit it')
    answers = {}
    for key, question in QUESTIONS.items():
        print(question, end=' ', file=sys.stderr, flush=True)
        answers[key] = sys.stdin.readline().strip()
        if not answers[key]:
            raise ConfigError(f"no answer to '{question}'; nothing was written")
    study = _answered(answers, args.sequential)
    write_text(args.output, study_yaml(study))
    study = load_study(args.output)
    _print_plan(args, plan(study), study)
    sentences(args)(f'\nWrote {args.output}.')
    return 0


def _answered(answers: dict[str, str], sequential: bool) -> 'Study':
    """Return the study of the six answers, with as many rounds as its test needs."""
    import dataclasses
    import math

    from arena_robot.blind.planning import plan_of
    from arena_robot.blind.study import (
        DecisionRule,
        Design,
        StartCondition,
        Stopping,
        Study,
        StudyArm,
    )
    from arena_robot.core.errors import ConfigError

    arms = [word.partition('=')[::2] for word in answers['arms'].split()]
    names = [name.strip() for name in answers['conditions'].split(',') if name.strip()]
    try:
        low, high = sorted(float(word) for word in answers['assumed'].replace(',', ' ').split())
        rule = DecisionRule(stopping=Stopping.SEQUENTIAL if sequential else Stopping.FIXED,
                            assumed=(low, high))
        study = Study(answers['name'], tuple(StudyArm(*arm) for arm in arms), tuple(
            StartCondition(name, answers['name'], answers['instruction'], name)
            for name in names), answers['success'],
            Design.PAIRS if len(arms) == 2 else Design.ROUND_ROBIN, decision=rule)
    except ValueError as error:
        raise ConfigError(f'these answers make no study: {error}') from error
    needed = plan_of(rule, contrasts=len(study.contrasts())).needed
    if math.isinf(needed):
        raise ConfigError(f'the rates {low} and {high} are too close: more than 5000 blocks would '
                          'be needed to tell them apart')
    rounds = math.ceil(needed * (2 if sequential else 1) / len(names))
    return dataclasses.replace(study, repeats=rounds)


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('study', nargs='?', type=Path, metavar='STUDY.yaml',
                        help='a study; without it, the plan of two policies in pairs')
    parser.add_argument('--rates', type=float, nargs=2, metavar=('LOW', 'HIGH'),
                        help='success rates to tell apart (default: those that the study assumes, '
                             'else 0.5 0.75)')
    parser.add_argument('--level', type=float, metavar='X',
                        help='chance of a wrong "better" (default: of the study, else 0.05)')
    parser.add_argument('--power', type=float, metavar='X',
                        help='chance to find the better one (default: of the study, else 0.8)')


def run_plan(args: argparse.Namespace) -> int:
    """
    Say how many blocks a study needs, fixed and sequential.

    A block is one trial of each policy at one start condition. The fixed number is exact for
    policies that are independent within a block; the sequential ones are simulated.

        arena study plan --rates 0.5 0.7
        arena study plan study.yaml
    """
    from arena_robot.blind.planning import plan_of
    from arena_robot.blind.study import DecisionRule, load_study
    from arena_robot.core.errors import ConfigError

    study = load_study(args.study) if args.study else None
    rule = study.decision if study else DecisionRule()
    try:
        import dataclasses
        changes = {'assumed': tuple(args.rates) if args.rates else None, 'level': args.level,
                   'power': args.power}
        rule = dataclasses.replace(rule, **{name: value for name, value in changes.items()
                                            if value is not None})
    except ValueError as error:
        raise ConfigError(str(error)) from error
    planned = study.blocks_per_contrast() if study else 0
    _print_plan(args, plan_of(rule, planned, len(study.contrasts()) if study else 1), study, rule)
    return 0


def _print_plan(args: argparse.Namespace, plan: 'StudyPlan', study: 'Study | None' = None,
                rule: 'DecisionRule | None' = None) -> None:
    import dataclasses
    import math

    rule = rule or (study.decision if study else None)
    assert rule is not None
    if args.json:
        needed = None if math.isinf(plan.needed) else int(plan.needed)
        print(json_text({**dataclasses.asdict(plan), 'needed': needed,
                         'assumed': list(rule.assumed), 'power_wanted': rule.power}))
        return
    low, high = rule.assumed
    print(f'To tell {low:.0%} from {high:.0%} ({rule.measure.value}) with a chance of '
          f'{rule.power:.0%}, at a level of {plan.level:.3g} for each comparison:')
    print('  fixed:      ' + ('more than 5000 blocks' if math.isinf(plan.needed) else
                              f'{plan.needed:.0f} blocks, {2 * plan.needed:.0f} trials'))
    print(f'  planned:    {plan.planned} blocks find the better one in {plan.power:.0%} of fixed '
          'studies')
    print(f'  sequential: within {plan.planned} blocks in {plan.found:.0%}; the study ends after '
          f'{plan.mean:.0f} blocks on average, half of them after {plan.median:.0f}')
    if rule.unit.value == 'evaluator':
        print('These numbers take blocks as independent; by evaluator more are needed, and a '
              'sequential study hardly ever decides.')


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('study', type=Path, metavar='STUDY.yaml', help='the study to check')
    parser.add_argument('--folder', type=Path, metavar='DIR',
                        help="the study's folder: say whether its journal has this version")


def run_check(args: argparse.Namespace) -> int:
    """
    Check a study's file: its keys, its size, its hash, and whether it can decide.

    Ends with code 1 where the study is too small for the power that it asks for, or where
    --folder has another version.

        arena study check study.yaml
        arena study check study.yaml --folder results/cup
    """
    from arena_robot.blind.planning import plan
    from arena_robot.blind.study import load_study, schedule, study_hash
    from arena_robot.blind.trials import read_study

    study = load_study(args.study)
    made, trials = plan(study), schedule(study, '')
    reached = made.found if study.decision.stopping.value == 'sequential' else made.power
    problems = [] if reached >= study.decision.power else [
        f'{made.planned} blocks find the better policy in {reached:.0%} of studies; '
        f'{study.decision.power:.0%} are asked for']
    if args.folder:
        versions = read_study(args.folder).versions
        if versions[-1].sha256 != study_hash(study):
            problems.append(f'{args.folder} was declared with the hash {versions[-1].sha256[:12]} '
                            f'(version {len(versions)}); this file is a new version')
    if args.json:
        print(json_text({'sha256': study_hash(study), 'trials': len(trials),
                         'blocks': trials[-1].block, 'contrasts': study.contrasts(),
                         'problems': problems}))
    else:
        pairs = ', '.join(f'{a} and {b}' for a, b in study.contrasts())
        print(f'{study.name}: {len(trials)} trials in {trials[-1].block} blocks\n'
              f'compared: {pairs}\nsha256: {study_hash(study)}')
        for problem in problems:
            print(f'not yet: {problem}')
    return int(bool(problems))


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, metavar='FOLDER', help="the study's folder")
    parser.add_argument('--output', type=Path, metavar='FILE',
                        help='the page to write (default: report.html in the folder)')
    parser.add_argument('--tables', type=Path, metavar='DIR',
                        help='also write sessions.csv and episodes.csv there, for `arena rank`')


def run_report(args: argparse.Namespace) -> int:
    """
    Write the page of a study that has ended, and print its sentences.

    The page needs no other files but the clips of the trials. It has each comparison with its
    interval, start conditions, evaluators, order, every trial, what deviated from the plan, and
    what was blind.

        arena study report results/cup
        arena study report results/cup --tables results/cup
    """
    from arena_robot.blind.report import write_study_report
    from arena_robot.blind.results import result_to_json, study_result
    from arena_robot.blind.trials import read_study

    result = study_result(read_study(args.folder))
    path = write_study_report(result, args.output or args.folder / 'report.html', args.folder)
    if args.tables:
        from arena_robot.blind.results import study_sessions
        from arena_robot.records.roboarena_files import write_tables
        args.tables.mkdir(parents=True, exist_ok=True)
        write_tables(args.tables, study_sessions(result))
    values: dict[str, Any] = {**result_to_json(result), 'page': path}
    print(json_text(values) if args.json else '\n'.join([*result.sentences(), f'Wrote {path}.']))
    return 0


def send_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from arena_robot.cli.arguments import add_server_arguments
    parser.add_argument('folder', type=Path, metavar='FOLDER', help="the study's folder")
    add_server_arguments(parser)


def run_send(args: argparse.Namespace) -> int:
    """
    Send a study that has ended to an arena server, as sessions of a local study.

    The server shows them on its site and enters them in its log; they never count in its
    rankings, and their policies have names of their own there. It takes an evaluator's token.
    After an interruption the same command sends what is missing.

        arena study send results/cup --server arena.example.org:50061
    """
    from arena_robot.blind.results import local_sessions, study_result
    from arena_robot.blind.trials import read_study
    from arena_robot.cli.arguments import calls
    from arena_robot.core.errors import ArenaError
    from arena_robot.server.wire import local_to_wire

    given = local_sessions(study_result(read_study(args.folder)))
    server, known = calls(args), []
    for session in given:
        try:
            known.append(server('StoreLocal', local_to_wire(session)).known)
        except ArenaError as error:
            raise type(error)(f'{error}. {len(known)} of {len(given)} sessions are at the server; '
                              'the same command sends the others') from error
    if args.json:
        print(json_text({'sent': known.count(False), 'known': known.count(True),
                         'sha256': given[0].study_sha256,
                         'sessions': [row.session.session_id for row in given]}))
    else:
        print(f'Sent {known.count(False)} sessions; {known.count(True)} were at the server '
              "already. It shows them as 'local study'.")
    return 0


def publish_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, metavar='STUDY|EXPORT', help="a study's folder, a "
                        'LeRobotDataset, or a folder of tables such as `arena results export`')
    parser.add_argument('place', metavar='hub:OWNER/NAME', help='the dataset on the Hub')
    parser.add_argument('--licence', required=True, metavar='ID',
                        help='terms of the data, by their name on the Hub, such as cc-by-4.0')
    parser.add_argument('--clips', action='store_true', help="also the videos of a study's trials")
    parser.add_argument('--private', action='store_true', help='make a dataset that only its '
                        'owner sees')
    parser.add_argument('--dry-run', action='store_true', help='only print what would leave')
    parser.add_argument('--yes', action='store_true', help='do not ask')


def run_publish(args: argparse.Namespace) -> int:
    """
    Put a study that was revealed, or an export, on the Hugging Face Hub as a dataset.

        arena publish results/cup hub:my-lab/cup --licence cc-by-4.0 --dry-run
        arena publish results/cup hub:my-lab/cup --licence cc-by-4.0 --clips
        arena publish export/lerobot hub:my-lab/cup-episodes --licence cc-by-4.0

    It first prints all that would leave the lab: files, names of people, typed texts, addresses,
    pictures. Then it asks. The dataset gets a card with the result, a plot, and for each policy a
    file for the `.eval_results/` of its model. The token is that of `hf auth login` or HF_TOKEN.
    """
    from arena_robot.blind.publish import publication, upload
    from arena_robot.core.errors import DataError

    made, say, address = publication(args.folder, args.place, args.licence, args.clips), \
        sentences(args), ''
    say('\n'.join(made.lines()))
    if not args.dry_run:
        if not args.yes:
            say(f'Type {made.repo} to send it:')
            if sys.stdin.readline().strip() != made.repo:
                raise DataError(f'nothing was sent: that was not {made.repo}')
        address = upload(made, args.private)
        say(f'Sent: {address}')
    if args.json:
        print(json_text({'repo': made.repo, 'files': made.sizes(), 'people': made.people,
                         'texts': made.texts, 'addresses': made.addresses,
                         'pictures': made.pictures, 'commit': address}))
    return 0
