"""Which method the standings used since when, so that a change is announced and not silent."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_json
from arena_robot.core.iso_time import to_utc
from arena_robot.ranking.recommended import RECOMMENDED

FILE = 'standings_method.json'


@dataclass(frozen=True)
class MethodSince:
    """The standings' method since a day (UTC)."""

    method: str
    since: str


class MethodChanges:
    """Keeps the list in a file of the server's data folder; :meth:`open` adds today's method."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / FILE
        self._clock = clock
        self.methods: tuple[MethodSince, ...] = ()

    def open(self) -> None:
        """Read the list, add the method when it is another; DataError for a broken file."""
        self.methods = self._read()
        if not self.methods or self.methods[-1].method != RECOMMENDED:
            today = f'{to_utc(self._clock.now_ns()):%Y-%m-%d}'
            self.methods += (MethodSince(RECOMMENDED, today),)
            write_json(self._path, {'methods': [asdict(one) for one in self.methods]})

    def announcement(self) -> str:
        """Return what readers must know of the last change, '' without one."""
        if len(self.methods) < 2:
            return ''
        before, now = self.methods[-2:]
        return (f'The method of the standings changed on {now.since} from {before.method} to '
                f'{now.method}. Scores from before that day cannot be compared with these.')

    def _read(self) -> tuple[MethodSince, ...]:
        if not self._path.exists():
            return ()
        try:
            rows = json.loads(self._path.read_text(encoding='utf-8'))['methods']
            return tuple(MethodSince(str(row['method']), str(row['since'])) for row in rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f'{self._path} cannot be read: {error!r}; restore it from a backup, '
                            'or remove it to begin a new list') from error
