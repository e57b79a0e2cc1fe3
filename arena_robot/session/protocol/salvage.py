"""
Salvage of damaged journals: every readable line is kept, and the session continues.

Where a lost line had changed the session's state, an entry ``salvaged`` with the state stands
before the next readable one. The damaged file stays beside the new one.
"""

import bisect
import fcntl
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.files import write_bytes
from arena_robot.records.journal_file import Entry, line_of, parse_entry, read_journal
from arena_robot.session.protocol.journal import lock_journal
from arena_robot.session.protocol.record import SessionRecord, apply, replay
from arena_robot.session.protocol.states import TRANSITIONS, Move, State

log = logging.getLogger(__name__)

PENDING = 'pending-'
DAMAGED = "The session's journal was damaged"


def read_record(path: Path) -> SessionRecord:
    """Return the record of a journal, of its readable lines when it is damaged."""
    try:
        return replay(read_journal(path))
    except ArenaError:
        return replay(mended(path))


def mend_journal(path: Path) -> Path | None:
    """
    Write a damaged journal anew from its readable lines; return where the damaged one is kept.

    None when it is not damaged. Raises SessionError when another process has it open, DataError
    when no line can be read.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock_journal(file, path)
        try:
            replay(read_journal(path))
            return None
        except ArenaError as error:
            log.error('%s; its readable lines are kept', error)
        entries = mended(path)
        if not entries:
            raise DataError(f'no line of {path} can be read')
        kept = _free(path)
        write_bytes(kept, path.read_bytes())
        write_bytes(path, b''.join(map(line_of, entries)))
        return kept
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def mended(path: Path) -> list[Entry]:
    """Return the readable entries of a journal with the states that lost lines led to."""
    lines = path.read_bytes().splitlines()
    entries, lost = [], []
    for number, line in enumerate(lines, 1):
        try:
            entries.append((number, parse_entry(line)))
        except DataError:
            lost.append(number)
    in_order = _increasing([entry.n for _, entry in entries])
    lost += [number for k, (number, _) in enumerate(entries) if k not in in_order]
    entries = [one for k, one in enumerate(entries) if k in in_order]
    out = _Replay()
    lost += [number for number, entry in entries if not out.take(entry)]
    if not out.entries:
        return []
    folder = path.parent.name
    name = {} if folder.startswith(PENDING) else {'session_id': folder}
    out.add(out.entries[-1].stamp_ns, Move.SALVAGED.value, {
        'state': out.record.state.value, 'lines': sorted(lost), **name,
        'notice': _notice(sorted(lost))})
    return out.entries


class _Replay:
    """Entries that fit one after another, and the record they lead to."""

    def __init__(self) -> None:
        self.record = SessionRecord()
        self.entries: list[Entry] = []

    def take(self, entry: Entry) -> bool:
        """Add an entry, after the state it needs; tell whether it could be."""
        before = (self.record, len(self.entries))
        try:
            move = Move(entry.move)
            state = self.record.state if move is Move.SALVAGED else _before(
                self.record.state, move)
            if state is not self.record.state:
                self.add(entry.stamp_ns, Move.SALVAGED.value, {'state': state.value})
            self.add(entry.stamp_ns, entry.move, entry.data)
        except (ArenaError, ValueError):
            self.record = before[0]
            del self.entries[before[1]:]
            return False
        return True

    def add(self, stamp_ns: int, move: str, data: Any) -> None:
        """Add an entry with the next number."""
        entry = Entry(len(self.entries), stamp_ns, move, data)
        line_of(entry)    # refuses numbers that are not finite
        self.record = apply(self.record, entry)
        self.entries.append(entry)


def _increasing(numbers: Sequence[int]) -> set[int]:
    """Return the places of a longest strictly increasing part of ``numbers``."""
    ends: list[int] = []    # the smallest last number of a part of each length
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect.bisect_left(ends, number)
        before.append(places[length - 1] if length else -1)
        ends[length:length + 1], places[length:length + 1] = [number], [place]
    found, place = set(), places[-1] if places else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found


def _before(state: State, move: Move) -> State:
    """Return the first state from ``state`` on in which ``move`` is allowed."""
    order = list(State)
    for one in order[order.index(state):]:
        if (one, move) in TRANSITIONS:
            return one
    raise DataError(f"'{move.value}' does not follow '{state.value}'")


def _notice(lines: Iterable[int]) -> str:
    numbers = ', '.join(map(str, lines))
    return (f'{DAMAGED} (line {numbers}); everything else in it is kept. '
            'Check what is shown, and enter again what is missing.')


def _free(path: Path) -> Path:
    names = (path.with_name(f'{path.stem}.damaged-{k}{path.suffix}') for k in range(1, 1000))
    return next(name for name in names if not name.exists())
