"""Result of the demonstration: standings, report, and the final output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.errors import DataError
from arena_robot.demo.display import BOLD, DIM, GREEN, RED, Display
from arena_robot.demo.plan import Plan, PoolMember
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import mean_progress
from arena_robot.ranking.differences import AcrossRobots, across_robots
from arena_robot.ranking.intervals.choice import difference
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import (
    Standings,
    is_few,
    place_words,
    shown_order,
    stated_interval,
)
from arena_robot.reports.tournament import Gap, TournamentReport, write_report
from arena_robot.reports.tournament_records import Record, read_record

REPLICATES, SEED, LEVEL = 1000, 0, 0.95
REPORT = 'report'
TITLE = 'A tournament on a simulated DROID station'


@dataclass(frozen=True)
class DemoOutcome:
    """Standings of the sessions, and their problems (one sentence each)."""

    records: tuple[Record, ...]
    comparisons: Comparisons
    standings: Standings
    gap: Gap | None
    problems: tuple[str, ...]
    robots: AcrossRobots | None = None


def gather(folder: Path, plan: Plan, entries: Sequence[PoolMember],
           wrong_with: Callable[[Path], list[str]]) -> DemoOutcome:
    """
    Read, check and rank the sessions of a plan. Raises RankingError when there are none.

    ``wrong_with`` says what is wrong with the episodes in a session's folder.
    """
    records, problems = [], []
    for number, job in enumerate(plan.jobs, 1):
        if not job.done:
            problems.append(f'session {number} is not done')
            continue
        try:
            record = read_record(folder / 'sessions' / job.session_id)
        except DataError as error:
            problems.append(str(error))
            continue
        records.append(record)
        if record.verified is False:
            problems.append(f'session {number}: the reveal does not fit the commitment')
        problems += [f'session {number}: {text}' for text in wrong_with(record.folder)]
    comparisons = Comparisons.from_words([r.comparison() for r in records])
    standings = ranked(comparisons)
    return DemoOutcome(tuple(records), comparisons, standings,
                   gap(comparisons, entries[0].name, entries[-1].name),
                   tuple(problems), across_robots(comparisons, seed=SEED) if len(
                       {record.session.robot for record in records}) > 1 else None)


def ranked(comparisons: Comparisons) -> Standings:
    """Return standings as a site shows them; a prior holds what few sessions do not determine."""
    return rank_comparable(comparisons, RECOMMENDED, intervals=REPLICATES, seed=SEED,
                           level=LEVEL)[0]


def gap(comparisons: Comparisons, better: str, worse: str) -> Gap | None:
    """Return how much ``better`` is better, with its interval; None with too few sessions."""
    log_odds = difference(comparisons, better, worse, level=LEVEL)
    return None if log_odds is None else Gap(better, worse, *log_odds)


def report_page(folder: Path) -> Path:
    """Return the page of the HTML report, written or not."""
    return folder / REPORT / 'index.html'


def report(folder: Path, outcome: DemoOutcome, entries: Sequence[PoolMember],
           facts: Sequence[tuple[str, str]]) -> Path:
    """Write the HTML report and return its page."""
    return write_report(TournamentReport(
        TITLE, outcome.records, outcome.comparisons, outcome.standings,
        METHODS.find(outcome.standings.method).unit, outcome.gap,
        {entry.name: entry.about for entry in entries}, facts), folder / REPORT)


def tell(display: Display, outcome: DemoOutcome) -> None:
    """Print the leaderboard, the designed difference, and the problems."""
    standings, show = outcome.standings, display.colour
    means = mean_progress(outcome.comparisons)
    width = max(len(name) for name in standings.items)
    ranks = {k: '' if is_few(standings, k) else place_words(standings, k)
             for k in shown_order(standings)}
    room = max(len('rank'), *(len(words) for words in ranks.values()))
    title = f"{'rank':>{room}}  {'policy':<{width}}   score   95 % interval  progress  sessions"
    display.line(f'\n  {show(BOLD, title)}')
    for k, rank in ranks.items():
        name = standings.items[k]
        interval = stated_interval(standings, k, '+.2f', ' … ')
        display.line(f'  {rank:>{room}}  {name:<{width}}  {standings.scores[k]:+6.2f}  '
                     f'{interval:<15}  {100 * means.get(name, float("nan")):>7.0f}  '
                     f'{standings.counts[k]:>8}')
    unit = METHODS.find(standings.method).unit
    display.line(show(DIM, f'  {"":>{room}}  score: {unit}; progress: mean, 0 to 100'))
    if outcome.gap is not None:
        g = outcome.gap
        word = show(GREEN, 'clear') if g.clear else show(RED, 'not clear yet')
        display.line(f'\n  {g.better} against {g.worse}: {g.score:+.2f}, 95 % interval '
                     f'{g.words}: {word}')
    if outcome.robots is not None:
        display.line()
        for robot, only in outcome.robots.standings.items():
            display.line(f'  {robot}: ' + ', '.join(
                f'{only.items[k]} {only.scores[k]:+.2f}' for k in shown_order(only)))
        for robot, why in outcome.robots.unranked.items():
            display.line(f'  {robot}: {why}')
        display.line(f'  the table has all robots together; {outcome.robots.words}')
    for problem in outcome.problems:
        display.line(f"  {show(RED, '✗')} {problem}")
