"""
Salvage of damaged journals: every readable line is kept, and the session continues.

Where a lost line had changed the session's state, an entry ``salvaged`` with the state stands
before the next readable one: the state is found from the entries before and after the gap. Where a
slot was run again, an entry ``rerun`` stands there too. The damaged file stays beside the new one.
A journal of a newer version is not damaged: it is left as it is.
"""

import bisect
import fcntl
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.files import write_bytes
from arena_robot.records.session_file import (
    Entry,
    RerunCause,
    line_of,
    parse_entry,
    read_journal,
    read_session,
)
from arena_robot.session.protocol.journal import lock_journal
from arena_robot.session.protocol.record import SessionRecord, apply, is_fault, replay
from arena_robot.session.protocol.states import TRANSITIONS, Move, State

log = logging.getLogger(__name__)

PENDING = 'pending-'
DAMAGED = "The session's journal was damaged"
# These moves leave the protocol's order, so they are not assumed for lost lines.
_ASIDE = (Move.INVALIDATED, Move.ABORTED, Move.RERUN)
_STARTS = {Slot.A: Move.STARTED_A, Slot.B: Move.STARTED_B}
_SCORES = {Slot.A: Move.SCORED_A, Slot.B: Move.SCORED_B}
_ROLLOUTS = {State.RUNNING_A: Slot.A, State.SCORING_A: Slot.A,
             State.RUNNING_B: Slot.B, State.SCORING_B: Slot.B}
_AFTER_RERUN = (Move.MATCHED, Move.RESET, Move.STARTED_A, Move.STARTED_B, Move.TICKED, Move.ENDED)


def read_record(path: Path) -> SessionRecord:
    """
    Return the record of a journal, of its readable lines when it is damaged.

    An empty file is a session that has not begun. DataError when no line can be read.
    """
    try:
        record = replay(read_journal(path))
    except ArenaError:
        record = replay(mended(path))
    if record.state is State.IDLE and path.stat().st_size:
        raise DataError(f'no line of {path} can be read; it is left as it is. What was recorded '
                        'is beside it')
    return record


def mend_journal(path: Path) -> Path | None:
    """
    Write a damaged journal anew from its readable lines; return where the damaged one is kept.

    None when it is not damaged. Raises SessionError when another process has it open, DataError
    when no line can be read, or when a newer version wrote it.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock_journal(file, path)
        try:
            replay(read_journal(path))
            return None
        except ArenaError as error:
            if word := _newer_move(path):
                raise DataError(
                    f"{path} says '{word}', which this version does not know; the journal is left "
                    'as it is. Install the version that wrote it') from error
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
            entry = parse_entry(line)
            Move(entry.move)    # an unknown one must not displace a known one of its number
            entries.append((number, entry))
        except (DataError, ValueError):
            lost.append(number)
    in_order = _increasing([entry.n for _, entry in entries])
    lost += [number for k, (number, _) in enumerate(entries) if k not in in_order]
    entries = [numbered for k, numbered in enumerate(entries) if k in in_order]
    out = _Replay(_known(path.parent))
    moves = [entry.move for _, entry in entries]
    lost += [number for k, (number, entry) in enumerate(entries)
             if not out.take(entry, moves[k:])]
    if not out.entries:
        return []
    out.salvaged(out.entries[-1].stamp_ns, out.record.state, lines=sorted(lost),
                 notice=_notice(sorted(lost)))
    return out.entries


def _known(folder: Path) -> dict[str, str]:
    """Return what a session's folder says of its assignment, should that line be lost."""
    if folder.name.startswith(PENDING):
        return {}
    known = {'session_id': folder.name}
    with suppress(DataError):
        known['commitment'] = read_session(folder).commitment
    return known


def _newer_move(path: Path) -> str:
    """Return the first unknown move of a readable line, '' when every one is known."""
    for line in path.read_bytes().splitlines():
        with suppress(DataError):
            word = parse_entry(line).move
            if re.fullmatch('[a-z][a-z_]*', word) and not any(
                    _is_nearly(word, move.value) for move in Move):
                return word
    return ''


def _is_nearly(word: str, known: str) -> bool:
    """Tell whether two words differ in at most one letter, as after damage to one byte."""
    return len(word) == len(known) and sum(map(str.__ne__, word, known)) <= 1


class _Replay:
    """Entries that fit one after another, and the record they lead to."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.record = SessionRecord()
        self.entries: list[Entry] = []
        self._known = known

    def take(self, entry: Entry, moves: Sequence[str]) -> bool:
        """
        Add an entry, after the state it needs; tell whether it could be.

        ``moves`` are those of the readable lines from this one on.
        """
        before = (self.record, len(self.entries))
        try:
            move = Move(entry.move)
            if move is not Move.SALVAGED and (self.record.state, move) not in TRANSITIONS:
                self._bridge(entry.stamp_ns, move, moves)
            self.add(entry.stamp_ns, entry.move, entry.data)
        except (ArenaError, ValueError):
            self.record = before[0]
            del self.entries[before[1]:]
            return False
        return True

    def salvaged(self, stamp_ns: int, state: State, **data: Any) -> None:
        """Add that the session was in a state."""
        self.add(stamp_ns, Move.SALVAGED.value, {'state': state.value, **self._known, **data})

    def _bridge(self, stamp_ns: int, move: Move, moves: Sequence[str]) -> None:
        """Add what lost lines led to: a rerun where there was one, and the state."""
        if slot := ran_again(self.record.state, move, moves):
            scoring = State.SCORING_A if slot is Slot.A else State.SCORING_B
            if self.record.state is not scoring:
                self.salvaged(stamp_ns, scoring)
            cause = RerunCause.FAULT if is_fault(self.record.slots[slot]) else RerunCause.MISTAKE
            self.add(stamp_ns, Move.RERUN.value, {
                'slot': slot.value, 'cause': cause.value, 'folder': '',
                'reason': 'the line of the journal that said why is lost'})
        state = state_before(self.record.state, move, self.record.next_slot)
        if state is not self.record.state:
            self.salvaged(stamp_ns, state)

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
    longest, place = set(), places[-1] if places else -1
    while place >= 0:
        longest.add(place)
        place = before[place]
    return longest


def _notice(lines: Iterable[int]) -> str:
    numbers = ', '.join(map(str, lines))
    return (f'{DAMAGED} (line {numbers}); everything else in it is kept. '
            'Check what is shown, and enter again what is missing.')


def _free(path: Path) -> Path:
    names = (path.with_name(f'{path.stem}.damaged-{k}{path.suffix}') for k in range(1, 1000))
    return next(name for name in names if not name.exists())


def state_before(state: State, move: Move, next_slot: Slot) -> State:
    """
    Return the state nearest to ``state`` in which ``move`` is allowed.

    ``next_slot`` is run after a reset. DataError when no state that can follow allows the move.
    """
    reached, waiting = {state}, [state]
    for current in waiting:
        if (current, move) in TRANSITIONS:
            return current
        for following in _following(current, next_slot):
            if following not in reached:
                reached.add(following)
                waiting.append(following)
    raise DataError(f"'{move.value}' does not follow '{state.value}'")


def _following(state: State, next_slot: Slot) -> list[State]:
    return [after for (before, move), after in sorted(
        TRANSITIONS.items(), key=lambda transition: transition[0][1] is not _STARTS[next_slot])
        if before is state and move not in _ASIDE]


def ran_again(state: State, move: Move, moves: Sequence[str]) -> Slot | None:
    """
    Return the slot that was run again in lost lines, None when none was.

    ``move`` is the first readable one behind ``state``, and ``moves`` are all from it on. After a
    rollout of A a reset can also mean that its score is lost: the next start tells.
    """
    slot = _ROLLOUTS.get(state)
    if slot is None or move not in _AFTER_RERUN:
        return None
    if slot is Slot.B:
        return Slot.B if move is not Move.STARTED_A else None
    if move in (Move.TICKED, Move.ENDED):
        telling = (*_SCORES.values(), *_STARTS.values())
        wanted = _SCORES[Slot.A]
    else:
        telling, wanted = tuple(_STARTS.values()), _STARTS[Slot.A]
    first = next((later for later in moves if later in telling), None)
    return Slot.A if first == wanted else None
