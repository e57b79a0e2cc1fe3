"""One row of a campaign's table per border: what was tried, and what went wrong."""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.errors import ArenaError

STUCK_S = 5.0
COLUMNS = ('tried', 'crashes', 'wrong accepts', 'losses', 'stuck')


@dataclass
class Tally:
    """Counters of one border, the first few things that went wrong there, and remarks."""

    border: str
    tried: int = 0
    crashes: int = 0
    wrong: int = 0
    losses: int = 0
    stuck: int = 0
    examples: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def bad(self) -> int:
        """Return how many inputs went wrong in any way."""
        return self.crashes + self.wrong + self.losses + self.stuck

    def note(self, column: str, example: object) -> None:
        """Count one thing that went wrong."""
        setattr(self, column, getattr(self, column) + 1)
        if len(self.examples) < 3:
            self.examples.append(f'{column}: {example!r:.300}')

    def numbers(self) -> tuple[int, ...]:
        """Return the row of the table."""
        return (self.tried, self.crashes, self.wrong, self.losses, self.stuck)


def timed(part: Callable[[], Tally]) -> Tally:
    """Return the tally of a part, with its seconds."""
    begin_s = time.monotonic()
    tally = part()
    tally.seconds = time.monotonic() - begin_s
    return tally


def parse(border: str, inputs: Iterable[Any], read: Callable[[Any], Any],
          accepts: Callable[[Any, Any], bool] = lambda given, out: True) -> Tally:
    """
    Return what happened when ``read`` got the inputs.

    It may return or raise an ArenaError. Anything else is a crash, more than five seconds is
    stuck, and a result that ``accepts`` (input, result) denies is a wrong accept.
    """
    tally = Tally(border)
    for given in inputs:
        tally.tried += 1
        begin_s = time.monotonic()
        try:
            out = read(given)
        except ArenaError:
            pass
        except Exception as error:
            tally.note('crashes', (error, given))
        else:
            if not accepts(given, out):
                tally.note('wrong', (given, out))
        if time.monotonic() - begin_s > STUCK_S:
            tally.note('stuck', given)
    return tally


def mutated(rng: random.Random, seeds: list[bytes], count: int) -> Iterable[bytes]:
    """Yield ``count`` inputs: valid ones with bytes changed, cut, doubled, inserted, or noise."""
    for _ in range(count):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice([1, 1, 2, 8])):
            at, size = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 16])
            kind = rng.randrange(6)
            if kind == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[at:at + size]
            elif kind == 2:
                data[at:at] = rng.randbytes(size)
            elif kind == 3:
                data[at:at] = data[:size]
            elif kind == 4:
                data[at:at + size] = rng.choice([b'\xff', b'\x00', b'9', b'[', b'"']) * size
            else:
                data = data[:at]
        yield bytes(data)


def table(tallies: list[Tally]) -> str:
    """Return the table, the examples of what went wrong, and a line that sums it up."""
    width = max(len(t.border) for t in tallies)
    lines = [f"{'':{width}}" + ''.join(f'{name:>15}' for name in (*COLUMNS, 'seconds'))]
    for tally in tallies:
        lines.append(f'{tally.border:{width}}' + ''.join(f'{n:>15}' for n in tally.numbers())
                     + f'{tally.seconds:>15.1f}')
        lines += [f'    {words}' for words in (*tally.examples, *tally.remarks)]
    totals = [sum(column) for column in zip(*(t.numbers() for t in tallies), strict=True)]
    lines.append('attack: ' + ', '.join(f'{n} {name}' for n, name in zip(
        totals, COLUMNS, strict=True)) + f' at {len(tallies)} borders')
    return '\n'.join(lines)
