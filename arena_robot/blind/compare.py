"""
Two counted success rates in one honest sentence and a picture, without a study.

The counts are typed (``17/20``), or read from a table with a row per trial or from the
``eval_info.json`` of LeRobot's evaluations. They are taken as made apart from each other.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.blind.shares import boschloo, difference_interval, quantile, trials_needed
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.wilson import wilson

TableRows = Sequence[tuple[int, Mapping[str, str]]]
EVAL_FILE = 'eval_info.json'
ARM_COLUMNS, SUCCESS_COLUMNS = ('arm', 'policy'), ('success', 'binary_success')
YES, NO = ('1', '1.0', 'true', 'yes'), ('0', '0.0', 'false', 'no')
WIDTH = 51    # characters of a scale: two points of 0 to 100 each, or four of -100 to 100


@dataclass(frozen=True)
class CountedArm:
    """One policy: it succeeded in ``successes`` of ``trials``."""

    name: str
    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials or not self.trials:
            raise ConfigError(f'{self.name}: {self.successes}/{self.trials} are no counts; give '
                              'successes/trials, such as 17/20')

    @property
    def share(self) -> float:
        """The success rate, 0 to 1."""
        return self.successes / self.trials


@dataclass(frozen=True)
class CountedPair:
    """
    Two policies, compared at ``level``.

    ``low`` and ``high`` are Newcombe's interval of the difference, ``p_value`` is Boschloo's.
    ``needed`` is how many trials of each a new comparison needs for ``power`` if the true
    difference is the observed one; infinite where both are equal.
    """

    first: CountedArm
    second: CountedArm
    low: float
    high: float
    p_value: float
    needed: float
    level: float
    power: float

    @property
    def difference(self) -> float:
        """The first success rate less the second."""
        return self.first.share - self.second.share

    @property
    def better(self) -> str | None:
        """The policy that the test finds better, None where it finds none."""
        if self.p_value > self.level:
            return None
        return self.first.name if self.difference > 0 else self.second.name

    def sentence(self) -> str:
        """Return what can be said, in one sentence."""
        one, two = (self.first, self.second) if self.difference >= 0 else (self.second, self.first)
        low, high = (self.low, self.high) if self.difference >= 0 else (-self.high, -self.low)
        counts = (f'{one.successes} of {one.trials} against {two.successes} of {two.trials}, '
                  f'difference {points(low, high)}')
        if self.better:
            return (f'{one.name} is better than {two.name}: {counts}, if this test was chosen '
                    'before the trials.')
        return (f'{one.name} and {two.name} cannot be told apart: {counts}; {self._more()}.')

    def _more(self) -> str:
        if math.isinf(self.needed):
            return 'the rates are equal, so these trials do not tell how many would'
        return (f'a new comparison of {self.needed:.0f} trials each would in {self.power:.0%} of '
                'cases, if the difference is as observed')

    def picture(self) -> list[str]:
        """Return both rates and their difference with intervals, as lines of text."""
        z, rows = quantile(self.level), (self.first, self.second)
        lines = [(f'{arm.name}', arm.share, *wilson(arm.successes, arm.trials, z))
                 for arm in rows]
        width = max(len('difference'), *(len(line[0]) for line in lines))
        shown = [' ' * width + '  0' + ' ' * (WIDTH - 5) + '100 %']
        shown += [f'{name:{width}}  {scale(x, low, high)}  {100 * low:.0f} to {100 * high:.0f} %'
                  for name, x, low, high in lines]
        x, low, high = ((x + 1) / 2 for x in (self.difference, self.low, self.high))
        shown.append(f'{"difference":{width}}  {scale(x, low, high, middle=True)}  '
                     f'{points(self.low, self.high)}')
        shown.append(' ' * width + '  −100' + ' ' * (WIDTH // 2 - 5) + ' 0'
                     + ' ' * (WIDTH // 2 - 4) + '+100')
        return shown

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        z = quantile(self.level)
        return {'arms': [{'name': a.name, 'successes': a.successes, 'trials': a.trials,
                          'rate': a.share, 'interval': list(wilson(a.successes, a.trials, z))}
                         for a in (self.first, self.second)],
                'difference': self.difference, 'interval': [self.low, self.high],
                'interval_method': 'Newcombe', 'p_value': self.p_value, 'test': 'Boschloo',
                'level': self.level, 'better': self.better, 'power': self.power,
                'trials_needed': None if math.isinf(self.needed) else int(self.needed),
                'sentence': self.sentence()}


def compare(first: CountedArm, second: CountedArm, level: float = 0.05, power: float = 0.8,
            ) -> CountedPair:
    """Return what the counts say. Raises ConfigError for a level or power out of range."""
    if not 0 < level < 0.5 or not 0 < power < 1:
        raise ConfigError(f'need 0 < level < 0.5 and 0 < power < 1, found {level} and {power}')
    counts = (first.successes, first.trials, second.successes, second.trials)
    return CountedPair(first, second, *difference_interval(*counts, level), boschloo(*counts),
                       trials_needed(first.share, second.share, level, power), level, power)


def scale(x: float, low: float, high: float, middle: bool = False) -> str:
    """Return shares as a line of text: ``├──●─┤``, with a mark in the middle if wanted."""
    at, left, right = (min(WIDTH - 1, max(0, round(share * (WIDTH - 1))))
                       for share in (x, low, high))
    line = ['·'] * WIDTH
    line[left:right + 1] = '─' * (right - left + 1)
    if middle:
        line[WIDTH // 2] = '┼' if left < WIDTH // 2 < right else '│'
    line[left], line[right] = '├', '┤'
    line[at] = '●'
    return ''.join(line)


def points(low: float, high: float) -> str:
    """Return an interval of a difference in percentage points: ``−11 to +39 points``."""
    return f'{signed(low)} to {signed(high)} points'


def signed(share: float) -> str:
    """Return a share in percentage points with its sign; 0 has none."""
    number = round(100 * share)
    return f'{number:+d}'.replace('-', '−') if number else '0'


def counted(word: str, name: str) -> CountedArm:
    """Return the counts in a word such as ``17/20``, or in a folder or file of LeRobot's."""
    path = Path(word).expanduser()
    if path.exists():
        return lerobot_counts(path, name or path.name)
    successes, slash, trials = word.partition('/')
    if not (slash and successes.strip().isdecimal() and trials.strip().isdecimal()):
        raise ConfigError(f"'{word}' is neither successes/trials, such as 17/20, nor a file or "
                          'folder that exists')
    return CountedArm(name or word, int(successes), int(trials))


def lerobot_counts(path: Path, name: str) -> CountedArm:
    """Return the counts in ``eval_info.json``, the file itself or in that folder."""
    file = path / EVAL_FILE if path.is_dir() else path
    try:
        info = json.loads(file.read_text(encoding='utf-8'))
        episodes = info.get('per_episode')
        said = [row['success'] for row in episodes] if episodes is not None else [
            success for task in info['per_task'] for success in task['metrics']['successes']]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'{file} is no {EVAL_FILE} of LeRobot with the success of each episode '
                        f'(per_episode, or per_task with successes): {error!r}') from error
    if not said or not all(success in (True, False) for success in said):
        raise DataError(f'{file}: expected true or false for each episode, found '
                        f'{said[:3] or "no episode"}')
    return CountedArm(name, sum(map(bool, said)), len(said))


def table_counts(rows: TableRows, where: str) -> list[CountedArm]:
    """
    Return the counts of each policy in a table's rows (line, cells), in order of appearance.

    The policy is in the column arm or policy, the success in success or binary_success; an empty
    success is left out. Raises DataError for another word, naming the line.
    """
    arm, success = (_column(rows, names, where) for names in (ARM_COLUMNS, SUCCESS_COLUMNS))
    counts: dict[str, list[bool]] = {}
    for line, row in rows:
        word = row[success].strip().lower()
        if word and word not in (*YES, *NO):
            raise DataError(f"{where}:{line}: {success} is '{word}'; expected 1 or 0, yes or no, "
                            'true or false, or nothing')
        if word:
            counts.setdefault(row[arm].strip(), []).append(word in YES)
    return [CountedArm(name, sum(said), len(said)) for name, said in counts.items()]


def _column(rows: TableRows, names: Sequence[str], where: str) -> str:
    header = list(rows[0][1]) if rows else []
    for name in names:
        if name in header:
            return name
    raise DataError(f"{where}: no column {' or '.join(names)}; found: "
                    f"{', '.join(header) or 'no row'}")


def two_of(arms: Sequence[CountedArm], names: Sequence[str], where: str) -> tuple[CountedArm,
                                                                                 CountedArm]:
    """Return the two arms of these names, or the only two. Raises ConfigError."""
    by_name = {arm.name: arm for arm in arms}
    chosen = list(names) or list(by_name)
    if len(chosen) != 2 or not set(chosen) <= set(by_name):
        raise ConfigError(f"{where} has {', '.join(by_name) or 'no trial'}; name two of them "
                          'with --arms A,B')
    return by_name[chosen[0]], by_name[chosen[1]]
