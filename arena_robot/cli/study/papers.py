"""
Compute the tables of published papers again, as far as public data allow.

Every line says what was published, what is found here, and whether it is reproduced, differs and
why, cannot be told from these data, or cannot be checked. The data are not part of this software:

  --roboarena  a folder with sessions.csv, episodes.csv and, if there, task_categories.csv
  --atari      the folder open_spiel/python/voting/examples of the repository open_spiel
  --livebench  a CSV table of scores: a row per model, its name first, a column per task
  --games      plays the games of figure 3 of "Deviation ratings" (needs the package open_spiel)

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

RAINBOW, OTHER_STARTS = 'atari_rainbow_table5.txt', 'atari_rainbow_table6.txt'
AGENT57, MUESLI = 'atari_agent57_table.txt', 'atari_muesli_table11.txt'


def papers_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--roboarena', type=Path, metavar='DIR', help="RoboArena's tables")
    parser.add_argument('--atari', type=Path, metavar='DIR', help="open_spiel's Atari tables")
    parser.add_argument('--livebench', type=Path, metavar='CSV', help="LiveBench's scores")
    parser.add_argument('--games', action='store_true', help='play figure 3: minutes')


def run_papers(args: argparse.Namespace) -> int:
    """Compute and print."""
    from dataclasses import asdict

    from arena_robot.ranking.reproduce.lines import Reproduction

    lines = [*_of_roboarena(args.roboarena), *_of_atari(args.atari),
             *_of_deviation(args.livebench, args.games)]
    if args.json:
        print(json_text([{**asdict(line), 'agreement': line.agreement.value} for line in lines]))
        return 0
    for line in lines:
        print(line.words())
    count = {kind: sum(line.agreement is kind for line in lines) for kind in Reproduction}
    print(', '.join(f'{number} {kind.value}' for kind, number in count.items()))
    return 0


def _of_deviation(livebench: Path | None, play: bool) -> 'list[PublishedLine]':
    from arena_robot.ranking.reproduce import games
    from arena_robot.ranking.reproduce.lines import unchecked
    played = games.improvement_lines() if play else [unchecked(
        games.MARRIS, 'figure 3, populations of Kuhn poker and Sheriff', 'drawn',
        'the games are not played; give --games')]
    names, scores = (_scores(livebench) if livebench else ([], None))
    return [*games.table_2_lines(), *games.population_lines(),
            *games.livebench_lines(names, scores), *played]


def _of_atari(folder: Path | None) -> 'list[PublishedLine]':
    import numpy as np

    from arena_robot.ranking.reproduce import vase
    from arena_robot.ranking.reproduce.games import MARRIS, atari_tie_lines
    from arena_robot.ranking.reproduce.lines import unchecked

    if folder is None:
        return [*vase.pentathlon_lines(), *(
            unchecked(paper, table, 'printed', 'the scores are not here; give --atari')
            for paper, table in ((vase.LANCTOT, 'tables 5 to 7 and observations 1 to 6'),
                                 (MARRIS, 'figure 4, who shares the first place')))]
    rainbow, more, muesli = (_atari(folder / name) for name in (RAINBOW, AGENT57, MUESLI))
    agents, games, scores = rainbow
    two = [more[0].index(name) for name in ('random', 'human')]
    ten = np.vstack([scores, more[2][two][:, [more[1].index(game) for game in games]]])
    return [*vase.pentathlon_lines(), *vase.atari_lines(agents, games, scores),
            vase.regime_line(agents, scores, _atari(folder / OTHER_STARTS)[2]),
            *vase.atari_lines([*agents, 'random', 'human'], games, ten),
            *atari_tie_lines(*_merged(more, muesli, rainbow))]


def _merged(*tables: 'tuple[list[str], list[str], np.ndarray]',
            ) -> 'tuple[list[str], list[str], np.ndarray]':
    """Return the agents of several tables on the games that all have, each agent once."""
    import numpy as np
    common = [game for game in tables[0][1] if all(game in games for _, games, _ in tables)]
    rows: dict[str, np.ndarray] = {}
    for agents, games, scores in tables:
        columns = [games.index(game) for game in common]
        for agent, row in zip(agents, scores[:, columns], strict=True):
            # Muesli's table has a MuZero of its own, and random and human as the others have
            name = 'muzero2' if agent == 'muzero' and agent in rows else agent
            rows.setdefault(name, row)
    return list(rows), common, np.array(list(rows.values()))


def _of_roboarena(folder: Path | None) -> 'list[PublishedLine]':
    from arena_robot.core.csv_tables import rows_of
    from arena_robot.ranking.reproduce import roboarena
    from arena_robot.ranking.reproduce.lines import unchecked
    from arena_robot.ranking.reproduce.vase import prediction_lines
    from arena_robot.ranking.rollouts import arena_tables
    from arena_robot.records.roboarena_files import read_folder
    if folder is None:
        return [unchecked(roboarena.PAPER, 'figures 5, 6 and 8 and the share of preferences that '
                          'progress does not explain', 'printed', 'the tables are not here; give '
                          '--roboarena')]
    data = read_folder(folder)
    arena = arena_tables(data.comparisons(), data.scored(), roboarena.POLICIES)
    lines = [*roboarena.session_lines(arena), *prediction_lines(roboarena.session_ballots(arena))]
    path = folder / 'task_categories.csv'
    if path.exists():
        rows = [row for _, row in rows_of(path, ('vlm_is_member', 'is_member'))]
        lines += roboarena.category_lines(*([row[column] == '1' for row in rows]
                                            for column in ('vlm_is_member', 'is_member')))
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

    from arena_robot.core.csv_tables import rows_of
    from arena_robot.core.errors import DataError
    rows = [list(row.values()) for _, row in rows_of(path)]
    try:
        return [row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows])
    except (ValueError, IndexError) as error:
        raise DataError(f'{path} is not a table of scores: {error}') from error
