"""A card for links to the standings: a picture of 1200 x 630 pixels."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena_robot.reports.figures import empty_figure, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUND, TEXT, SOFT, MARK = '#14213d', '#ffffff', '#b8c4dc', '#fca311'
LONGEST, FOOT_CHARS = 34, 90


@dataclass(frozen=True)
class CardLine:
    """A line of a card: ``name`` left, ``value`` right."""

    name: str
    value: str


def card_figure(title: str, lines: Sequence[CardLine], foot: str) -> 'Figure':
    """Return the card: title, up to six lines, a foot of what it is based on."""
    figure = empty_figure(10, 5.25, facecolor=GROUND)
    figure.text(.06, .86, 'arena', color=MARK, fontsize=20, weight='bold')
    figure.text(.06, .74, _short(title), color=TEXT, fontsize=30, weight='bold')
    for k, line in enumerate(lines[:6]):
        height = .63 - .085 * k
        figure.text(.06, height, _short(line.name), color=TEXT, fontsize=18)
        figure.text(.94, height, plain_text(line.value), color=MARK, fontsize=18, ha='right')
    figure.text(.06, .05, '\n'.join(map(plain_text, textwrap.wrap(foot, FOOT_CHARS))), color=SOFT,
                fontsize=12, va='bottom')
    return figure


def _short(text: str) -> str:
    return plain_text(text if len(text) <= LONGEST else f'{text[:LONGEST - 1]}…')
