"""Help text of `arena --help`: the verbs, grouped by user."""

import textwrap
from collections.abc import Sequence
from types import ModuleType

from arena_robot.cli.parsing import VerbParser

WIDTH = 98
COLUMN = 20
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ('First steps', ('demo', 'doctor', 'help', 'completion')),
    ('At a station: evaluators and lab engineers', ('station', 'session', 'console', 'calibrate')),
    ('Recorded episodes', ('episode', 'replay', 'export', 'import')),
    ('Drivers and policies: their authors', ('driver', 'emulate', 'policy')),
    ('The arena: its maintainers', ('server', 'admin', 'results')),
    ('Results: everybody', ('rank', 'rank-eval', 'report', 'categorise', 'vote', 'game', 'verify',
                             'correct', 'credits', 'audit', 'judge', 'skill', 'reproduce')),
    ('Simulation', ('sim', 'simulate-pool')),
)
OTHERS = 'More'


class MapParser(VerbParser):
    """A parser whose help lists the verbs by group; ``modules`` are the verbs' modules."""

    modules: Sequence[ModuleType] = ()

    def format_help(self) -> str:
        """Return usage, description, the verbs by group, and the options."""
        parts = ['usage: arena VERB …', '', *textwrap.wrap(self.description or '', WIDTH)]
        for title, rows in grouped([(m.VERB, m.HELP) for m in self.modules]):
            parts += ['', f'{title}:', *(line for row in rows for line in _row(*row))]
        parts += ['', 'arena VERB --help says more about each, with examples. Exit codes: 0 done, '
                  '1 failed or no,', '2 wrong usage or input, 130 interrupted.']
        return '\n'.join(parts) + '\n'


def grouped(verbs: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (title, [(verb, help)]) in the order of the map; what it does not know comes last."""
    place = {word: number for number, (_, words) in enumerate(GROUPS) for word in words}
    rank = {word: number for _, words in GROUPS for number, word in enumerate(words)}
    found: dict[int, list[tuple[str, str]]] = {}
    for verb, about in sorted(verbs, key=lambda v: (rank.get(v[0].split()[0], 0), v[0])):
        found.setdefault(place.get(verb.split()[0], len(GROUPS)), []).append((verb, about))
    titles = [*(title for title, _ in GROUPS), OTHERS]
    return [(titles[number], rows) for number, rows in sorted(found.items())]


def _row(verb: str, about: str) -> list[str]:
    lines = textwrap.wrap(about, WIDTH - COLUMN - 2) or ['']
    return [f'  {verb:<{COLUMN}}{lines[0]}', *(' ' * (COLUMN + 2) + line for line in lines[1:])]
