"""One published statement beside what the same data give here."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

Margin = tuple[float, float, float]


class Reproduction(Enum):
    """Whether a published statement was found again."""

    REPRODUCED = 'reproduced'
    DIFFERS = 'differs'
    OPEN = 'cannot be told'
    UNCHECKED = 'cannot be checked'


@dataclass(frozen=True)
class PublishedLine:
    """
    A statement of a paper: what was published, what is found here, and whether that agrees.

    ``why`` says why it differs, cannot be checked, or why these data do not decide it.
    """

    paper: str
    what: str
    published: str
    found: str
    agreement: Reproduction
    why: str = ''

    def words(self) -> str:
        """Return the line as text."""
        text = self.agreement.value + (f', because {self.why}' if self.why else '')
        return f'{self.paper}: {self.what}\n    published {self.published}; found ' \
               f'{self.found or "-"}\n    {text}'


def line(paper: str, what: str, published: str, found: str, agrees: bool, why: str = '',
         ) -> PublishedLine:
    """Return a line that agrees or differs; ``why`` is kept where it differs."""
    return PublishedLine(paper, what, published, found,
                         Reproduction.REPRODUCED if agrees else Reproduction.DIFFERS,
                         '' if agrees else why)


def mean_margin(values: ArrayLike) -> Margin:
    """Return the mean of independent values with its 95 % interval (Student's t)."""
    x = np.asarray(values, dtype=float)
    mean = float(x.mean())
    reach = float(stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / np.sqrt(len(x)))
    return mean, mean - reach, mean + reach


def ordered(paper: str, what: str, published: str, found: str, margins: Sequence[Margin],
            why: str) -> PublishedLine:
    """
    Return a line that states an order: reproduced where every margin is above zero.

    ``margins`` are (mean, low, high) at 95 %. A margin whose interval holds zero decides nothing;
    one below zero differs because of ``why``.
    """
    mean, low, high = min(margins, key=lambda margin: margin[1])
    text = f'{found}; smallest margin {mean:+.4f} [{low:+.4f}, {high:+.4f}]'
    if low > 0.0:
        return line(paper, what, published, text, True)
    if any(top < 0.0 for _, _, top in margins):
        return line(paper, what, published, text, False, why)
    return PublishedLine(paper, what, published, text, Reproduction.OPEN,
                         'the interval of the margin holds zero')


def close(paper: str, what: str, published: str, found: str, margin: Margin, most: float,
          why: str) -> PublishedLine:
    """
    Return a line that states "near": reproduced where all of the interval is within ``most`` of 0.

    ``margin`` is the difference (mean, low, high) at 95 %; its room on both sides decides.
    """
    mean, low, high = margin
    return ordered(paper, what, published,
                   f'{found}; difference {mean:+.4f} [{low:+.4f}, {high:+.4f}], at most {most:g}',
                   [(most + mean, most + low, most + high),
                    (most - mean, most - high, most - low)], why)


def unchecked(paper: str, what: str, published: str, why: str) -> PublishedLine:
    """Return a line that cannot be checked."""
    return PublishedLine(paper, what, published, '', Reproduction.UNCHECKED, why)
