"""One published statement beside what the same data give here."""

from dataclasses import dataclass
from enum import Enum


class Reproduction(Enum):
    """Whether a published statement was found again."""

    REPRODUCED = 'reproduced'
    DIFFERS = 'differs'
    UNCHECKED = 'cannot be checked'


@dataclass(frozen=True)
class PublishedLine:
    """
    A statement of a paper: what was published, what is found here, and whether that agrees.

    ``why`` says why it differs or cannot be checked.
    """

    paper: str
    what: str
    published: str
    found: str
    agreement: Reproduction
    why: str = ''

    def words(self) -> str:
        """Return the line as text."""
        told = self.agreement.value + (f', because {self.why}' if self.why else '')
        return f'{self.paper}: {self.what}\n    published {self.published}; found ' \
               f'{self.found or "-"}\n    {told}'


def line(paper: str, what: str, published: str, found: str, agrees: bool, why: str = '',
         ) -> PublishedLine:
    """Return a line that agrees or differs; ``why`` is told where it differs."""
    return PublishedLine(paper, what, published, found,
                         Reproduction.REPRODUCED if agrees else Reproduction.DIFFERS,
                         '' if agrees else why)


def unchecked(paper: str, what: str, published: str, why: str) -> PublishedLine:
    """Return a line that cannot be checked."""
    return PublishedLine(paper, what, published, '', Reproduction.UNCHECKED, why)
