"""Counts what passes through the relay, and writes the counts to the database periodically."""

import dataclasses
import hashlib
import json
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.episode import Slot
from arena_robot.core.files import write_bytes
from arena_robot.core.inferences import NOTHING_KEPT, Proof
from arena_robot.server.store import relayed
from arena_robot.server.store.database import Database
from arena_robot.server.store.relayed import RelayedRollout

log = logging.getLogger(__name__)

ANSWERED, NAME = 'answered', 'journal'
# A session that was cancelled may go on; after a day without a query its rollouts are dropped.
IDLE_NS = DAY_NS
DROP_NS = 3600 * 10**9    # between two looks for old journals
Key = tuple[str, str]


@dataclass
class _Rollout:
    """One slot: where it stands, and what is not written yet."""

    highest_step: int = -1
    again: int = 0
    unwritten: dict[str, int] = field(default_factory=dict)
    failure: str = ''
    first_ns: int = 0
    last_ns: int = 0
    last_step: int = 0
    last_actions: int = 0
    exact: list[str] = field(default_factory=list)
    changed: bool = False
    touched_ns: int = 0

    def count(self, name: str, by: int = 1) -> None:
        self.unwritten[name] = self.unwritten.get(name, 0) + by
        self.changed = True


class RelayRecord:
    """
    Counts queries, actions, failures and cuts of every slot; any thread may call it.

    A note costs no database access: it is appended to the file ``journal``, so that a killed
    server loses none. ``flush`` writes what is new to the database; the server calls it every
    few seconds, at the end of a rollout and before it decides whether a session counts.
    The journal has a name, and every note of a slot a number in it. The numbers that are written
    are stored in the same transaction, so a note that is read again after a kill counts once.
    Lines that cannot be written, damaged ones and those of sessions that the database lacks, are
    moved to a file with the journal's name and ``.aside``. Memory holds the rollouts of sessions
    that are not over, up to ``IDLE_NS`` after their last note.
    """

    def __init__(self, database: Database, clock: Clock, journal: Path) -> None:
        self._database = database
        self._clock = clock
        self._path = journal
        self._journal: BinaryIO | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._rollouts: dict[Key, _Rollout] = {}
        self._unknown: set[Key] = set()
        self._damaged: list[bytes] = []
        self._name = ''
        self._noted: dict[Key, int] = {}
        self._dropped_ns = 0

    def open(self) -> None:
        """Write to the database what the last process did not get to."""
        notes = self._path.read_bytes().splitlines() if self._path.exists() else []
        if notes:
            # A line that was cut off at the end would swallow the next note.
            _end_line(self._path)
        self._journal = self._path.open('ab', buffering=0)
        self._name, written = self._named(notes)
        for line in notes:
            try:
                note = json.loads(line)
                if NAME not in note:
                    self._replay((note['session'], note['slot']), note, written)
            except (ValueError, KeyError, TypeError) as error:
                log.warning('a damaged line of %s is left out: %s', self._path, error)
                self._damaged.append(line)
        self.flush()

    def close(self) -> None:
        """Write everything and close the file."""
        if self._journal is not None:
            self.flush()
            self._journal.close()
            self._journal = None

    def answered(self, key: Key, step: int, took_s: float, actions: int,
                 proof: Proof = NOTHING_KEPT) -> None:
        """Note a query at ``step`` that the policy answered with so many actions."""
        self._note(key, what=ANSWERED, step=step, took_s=round(took_s, 6), actions=actions,
                   proof=[*proof[:-1], dict(proof.pictures)])

    def failed(self, key: Key, step: int | None, words: str) -> None:
        """Note a failure of the policy itself, in words that name nothing but its kind."""
        self._note(key, what='failures', step=step, words=words[:200])

    def refused(self, key: Key, step: int | None) -> None:
        """Note an observation that the policy did not accept."""
        self._note(key, what='refusals', step=step)

    def cut(self, key: Key) -> None:
        """Note a query that the station gave up, or whose line broke."""
        self._note(key, what='cuts', step=None)

    def _note(self, key: Key, **note: Any) -> None:
        note |= {'session': key[0], 'slot': key[1], 'now_ns': self._clock.now_ns()}
        with self._lock:
            number = self._noted.get(key, 0) + 1
            if self._journal is not None:
                head = b''
                if not self._name:
                    self._name = secrets.token_hex(8)
                    head = json.dumps({NAME: self._name}).encode() + b'\n'
                self._journal.write(head + json.dumps({**note, 'n': number}).encode() + b'\n')
            self._noted[key] = number
            self._apply(key, note)

    def _named(self, notes: list[bytes]) -> tuple[str, Mapping[Key, int]]:
        """Return the name of the journal and how many notes of each slot are written."""
        if not notes:
            return '', {}
        try:
            name = str(json.loads(notes[0])[NAME])
        except (ValueError, KeyError, TypeError):    # damaged
            name = hashlib.sha256(notes[0]).hexdigest()[:16]
        with self._database.read() as connection:
            return name, relayed.written(connection, name)

    def _replay(self, key: Key, note: Mapping[str, Any], written: Mapping[Key, int]) -> None:
        number = int(note['n'])
        self._noted[key] = number
        if number > written.get(key, 0):
            self._apply(key, note)
        elif (step := note['step']) is not None:    # counted: only where the rollout stands
            rollout = self._rollouts.setdefault(key, _Rollout(touched_ns=self._clock.steady_ns()))
            rollout.highest_step = step    # it was begun anew where this is less

    def _apply(self, key: Key, note: Mapping[str, Any]) -> None:
        rollout, now = self._begun(key, note['step']), note['now_ns']
        if note['what'] != ANSWERED:
            rollout.count(note['what'])
            if note['what'] == 'failures':
                rollout.failure, rollout.last_ns = note['words'], now
            return
        step, actions = note['step'], note['actions']
        rollout.first_ns = rollout.first_ns or now
        rollout.last_ns, rollout.last_step, rollout.last_actions = now, step, actions
        rollout.failure = ''
        rollout.count('queries')
        rollout.count('actions', actions)
        rollout.exact.append(
            json.dumps([step, now, note['took_s'], actions, *note['proof']]) + '\n')

    def flush(self, session_id: str = '') -> None:
        """Write what is new of one session, or of all."""
        with self._writing:
            with self._lock:
                keys = [key for key, rollout in self._rollouts.items()
                        if rollout.changed and session_id in ('', key[0])]
                taken = {key: self._take(key) for key in sorted(keys)}
                noted, name = {key: self._noted.get(key, 0) for key in keys}, self._name
            if taken:
                try:
                    self._write(taken, noted, name)
                except BaseException:
                    self._give_back(taken)
                    raise
            self._drop_idle()
            self._empty()

    def _drop_idle(self) -> None:
        before_ns = self._clock.steady_ns() - IDLE_NS
        with self._lock:
            for key in [key for key, rollout in self._rollouts.items()
                        if not rollout.changed and rollout.touched_ns < before_ns]:
                del self._rollouts[key]

    def _empty(self) -> None:
        """Empty the journal when everything in it is written."""
        with self._lock:
            if self._journal is not None and self._name and not any(
                    rollout.changed for rollout in self._rollouts.values()):
                self._set_aside()
                self._journal.truncate(0)
                self._name, self._noted = '', {}

    def forget(self, session_id: str) -> None:
        """Drop from the memory what is written of a session that is over."""
        with self._lock:
            for key in [(session_id, slot.value) for slot in Slot]:
                if key in self._rollouts and not self._rollouts[key].changed:
                    del self._rollouts[key]

    def held(self) -> int:
        """Return how many rollouts are held in memory."""
        return len(self._rollouts)

    def _begun(self, key: Key, step: int | None) -> _Rollout:
        """Return the rollout that a query at ``step`` belongs to; None: not a query."""
        rollout = self._rollouts.get(key)
        if rollout is not None and step is not None and step < rollout.highest_step:
            self._rollouts[key] = rollout = _Rollout(again=rollout.again + 1)
        elif rollout is None:
            self._rollouts[key] = rollout = _Rollout()
        if step is not None:
            rollout.highest_step = max(rollout.highest_step, step)
        rollout.touched_ns = self._clock.steady_ns()
        return rollout

    def _write(self, taken: dict[Key, tuple[RelayedRollout, int]], noted: Mapping[Key, int],
               name: str) -> None:
        now_ns = self._clock.now_ns()
        with self._database.write() as connection:
            if name:
                relayed.note_written(connection, name, noted, now_ns)
            if not 0 <= now_ns - self._dropped_ns < DROP_NS:
                relayed.drop_old_notes(connection, now_ns)
                self._dropped_ns = now_ns
            parties = relayed.parties(connection, taken)
            self._unknown |= taken.keys() - parties.keys()
            relayed.add(connection, [
                (dataclasses.replace(new, station_id=parties[key][0], policy_id=parties[key][1]),
                 again) for key, (new, again) in taken.items() if key in parties])

    def _set_aside(self) -> None:
        """Copy the lines of the journal that are not in the database to a file of their own."""
        lines = list(self._damaged)
        if self._unknown:
            lines += [line for line in self._path.read_bytes().splitlines()
                      if line not in self._damaged and _key(line) in self._unknown]
        if not lines:
            return
        aside = self._path.with_name(f'{self._path.name}.aside')
        before = aside.read_bytes() if aside.exists() else b''
        write_bytes(aside, before + b''.join(line + b'\n' for line in lines))
        log.warning('%d notes of the relay could not be written (%d sessions are not in this '
                    'database); they are kept in %s', len(lines),
                    len({session for session, _ in self._unknown}), aside)
        for key in self._unknown:
            self._rollouts.pop(key, None)
        self._unknown, self._damaged = set(), []

    def _give_back(self, taken: dict[Key, tuple[RelayedRollout, int]]) -> None:
        with self._lock:
            for key, (new, again) in taken.items():
                rollout = self._rollouts.setdefault(
                    key, _Rollout(touched_ns=self._clock.steady_ns()))
                begun, rollout.again = rollout.again, rollout.again + again
                if begun:
                    continue     # begun anew meanwhile: what was before no longer matters
                rollout.exact.insert(0, new.exact)
                for name in relayed.SUMS:
                    rollout.count(name, getattr(new, name))

    def _take(self, key: Key) -> tuple[RelayedRollout, int]:
        rollout = self._rollouts[key]
        new = RelayedRollout(
            key[0], key[1], 0, 0, failure=rollout.failure, first_ns=rollout.first_ns,
            last_ns=rollout.last_ns, last_step=rollout.last_step,
            last_actions=rollout.last_actions, exact=''.join(rollout.exact), **rollout.unwritten)
        again, rollout.again, rollout.changed = rollout.again, 0, False
        rollout.unwritten, rollout.exact = {}, []
        return new, again


def _end_line(path: Path) -> None:
    with path.open('rb+') as stream:
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) != b'\n':
            stream.write(b'\n')


def _key(line: bytes) -> Key:
    try:
        note = json.loads(line)
        return note['session'], note['slot']
    except (ValueError, KeyError, TypeError):
        return '', ''
