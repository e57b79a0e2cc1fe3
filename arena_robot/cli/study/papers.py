"""
Compute the tables of published papers again, as far as public data allow.

Every line says what was published, what is found here, and whether it is reproduced, within
the noise, differs and why, or cannot be checked. The data are not part of this software:

  --roboarena  a folder with sessions.csv, episodes.csv and, if there, task_categories.csv
  --atari      the folder open_spiel/python/voting/examples of the repository open_spiel
  --livebench  a CSV table of scores: a row per model, its name first, a column per task

  git clone --depth 1 https://github.com/google-deepmind/open_spiel
  arena study papers --atari open_spiel/open_spiel/python/voting/examples
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    import numpy as np

    from arena_robot.ranking.reproduce.lines import PublishedLine

RAINBOW, AGENT57 = 'atari_rainbow_table5.txt', 'atari_agent57_table.txt'


def papers_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--roboarena', type=Path, metavar='DIR', help="RoboArena's tables")
    parser.add_argument('--atari', type=Path, metavar='DIR', help="open_spiel's Atari tables")
    parser.add_argument('--livebench', type=Path, metavar='CSV', help="LiveBench's scores")


def run_papers(args: argparse.Namespace) -> int:
    """Compute and print."""
    from dataclasses import asdict

    from arena_robot.ranking.reproduce.lines import Reproduction

    lines = [*_of_roboarena(args.roboarena), *_of_atari(args.atari),
             *_of_deviation(args.livebench)]
    if args.json:
        print(json_text([{**asdict(line), 'agreement': line.agreement.value} for line in lines]))
        return 0
    for line in lines:
        print(line.words())
    count = {kind: sum(line.agreement is kind for line in lines) for kind in Reproduction}
    print(', '.join(f'{number} {kind.value}' for kind, number in count.items()))
    return 0


def _of_deviation(livebench: Path | None) -> 'list[PublishedLine]':
    from arena_robot.ranking.reproduce.games import livebench_lines, table_2_lines
    names, scores = (_scores(livebench) if livebench else ([], None))
    return [*table_2_lines(), *livebench_lines(names, scores)]


def _of_atari(folder: Path | None) -> 'list[PublishedLine]':
    import numpy as np

    from arena_robot.ranking.reproduce.games import LANCTOT, MARRIS, atari_lines, atari_tie_lines
    from arena_robot.ranking.reproduce.lines import unchecked

    if folder is None:
        return [unchecked(paper, table, 'printed', 'the scores are not here; give --atari')
                for paper, table in ((LANCTOT, 'tables 5 to 7 and observations 1, 5 and 6'),
                                     (MARRIS, 'figure 4, who shares the first place'))]
    agents, games, scores = _atari(folder / RAINBOW)
    more, all_games, all_scores = _atari(folder / AGENT57)
    place = [all_games.index(game) for game in games]
    two = [more.index(name) for name in ('random', 'human')]
    ten = np.vstack([scores, all_scores[two][:, place]])
    eight = [k for k in range(len(more)) if k not in two] + two
    return [*atari_lines(agents, scores), *atari_lines([*agents, 'random', 'human'], ten),
            *atari_tie_lines([more[k] for k in eight], all_scores[eight])]


def _of_roboarena(folder: Path | None) -> 'list[PublishedLine]':
    from arena_robot.ranking.reproduce.lines import unchecked
    from arena_robot.ranking.reproduce.roboarena import (
        PAPER,
        POLICIES,
        category_lines,
        session_lines,
    )
    from arena_robot.ranking.rollouts import arena_tables
    from arena_robot.records.roboarena_files import read_folder, rows_of
    if folder is None:
        return [unchecked(PAPER, 'figures 5, 6 and 8 and the share of preferences that progress '
                          'does not explain', 'printed', 'the tables are not here; give '
                          '--roboarena')]
    data = read_folder(folder)
    lines = session_lines(arena_tables(data.comparisons(), data.scored(), POLICIES))
    path = folder / 'task_categories.csv'
    if path.exists():
        rows = [row for _, row in rows_of(path, ('vlm_is_member', 'is_member'))]
        lines += category_lines([row['vlm_is_member'] == '1' for row in rows],
                                [row['is_member'] == '1' for row in rows])
    return lines


def _atari(path: Path) -> 'tuple[list[str], list[str], np.ndarray]':
    """Return agents, games and scores (agents, games) of a table of open_spiel."""
    import numpy as np

    from arena_robot.core.errors import DataError
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
        agents = lines[1].split()[2:]
        rows = [line.split() for line in lines[2:] if line.strip()]
        table = [[float(cell.replace(',', '').split('±')[0]) for cell in row[1:]] for row in rows]
        return agents, [row[0] for row in rows], np.array(table, dtype=float).T
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f'{path} is not a table of scores of open_spiel: {error}') from error


def _scores(path: Path) -> 'tuple[list[str], np.ndarray]':
    """Return models and scores (models, tasks) of a CSV table with a header."""
    import numpy as np

    from arena_robot.core.errors import DataError
    from arena_robot.records.roboarena_files import rows_of
    rows = [list(row.values()) for _, row in rows_of(path)]
    try:
        return [row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows])
    except (ValueError, IndexError) as error:
        raise DataError(f'{path} is not a table of scores: {error}') from error
