"""
Say in one sentence whether one policy is better than another, from counted successes.

WHAT is two counts (successes/trials), two folders or files of LeRobot's evaluations
(eval_info.json), a table with a row per trial (columns arm or policy, and success or
binary_success), or the folder of a study that has ended, whose own test is then used.

    arena compare 17/20 14/20
    arena compare 17/20 14/20 --arms new,old --json
    arena compare outputs/eval/pi0 outputs/eval/pi05
    arena compare episodes.csv --arms pi0,pi05

The interval of the difference is Newcombe's, the test Boschloo's, both with two sides. The test
holds if it was chosen before the trials, and the trials were not stopped because of their result:
declare a study for that (`arena study new`).
"""

import argparse
from pathlib import Path

from arena_robot.cli.terminal import json_text


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('what', nargs='+', metavar='WHAT',
                        help='two counts such as 17/20, two LeRobot evaluations, a table, or a '
                             "study's folder")
    parser.add_argument('--arms', default='', metavar='A,B',
                        help='names for the counts; of a table, which two policies')
    parser.add_argument('--level', type=float, default=0.05, metavar='X',
                        help='chance of a wrong "better" (default %(default)s)')
    parser.add_argument('--power', type=float, default=0.8, metavar='X',
                        help='chance to find the difference, for how many more trials (default '
                             '%(default)s)')


def run_compare(args: argparse.Namespace) -> int:
    """Compare and print."""
    from arena_robot.blind.compare import compare, counted, table_counts, two_of
    from arena_robot.core.errors import ConfigError

    names = [name.strip() for name in args.arms.split(',') if name.strip()]
    if len(names) not in (0, 2) or len(args.what) > 2:
        raise ConfigError(f'compared are two policies; found {len(args.what)} things to compare '
                          f"and {len(names)} names in --arms '{args.arms}'")
    if len(args.what) == 2:
        labels = names or _labels(args.what)
        one, two = (counted(word, name) for word, name in zip(args.what, labels, strict=True))
    else:
        path = Path(args.what[0]).expanduser()
        if path.is_dir():
            return _study(path, args)
        from arena_robot.core.csv_tables import rows_of
        one, two = two_of(table_counts(rows_of(path), str(path)), names, str(path))
    pair = compare(one, two, args.level, args.power)
    print(json_text(pair.to_json()) if args.json else
          '\n'.join([pair.sentence(), *pair.picture(), f'Boschloo p = {pair.p_value:.3g}']))
    return 0


def _labels(what: list[str]) -> list[str]:
    """Return names for two counts or files: their own, or A and B where these tell nothing."""
    names = [Path(word).name if Path(word).exists() else '' for word in what]
    return names if all(names) and len(set(names)) == 2 else ['A', 'B']


def _study(folder: Path, args: argparse.Namespace) -> int:
    """Print the sentences of a study that has ended."""
    from arena_robot.blind.results import result_to_json, study_result
    from arena_robot.blind.trials import read_study

    result = study_result(read_study(folder))
    print(json_text(result_to_json(result)) if args.json else '\n'.join(result.sentences()))
    return 0
