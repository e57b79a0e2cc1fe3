"""
``session.json`` and ``journal.jsonl``: what a session's folder says of the session.

A station writes it from its journal, an arena server's download from the database, and an import
from other people's evaluations. The evaluator's verdict is one mapping, ``verdict``.

The journal has a line of JSON for each entry. Line n is ``{"n": n, "t": stamp_ns, "move": "...",
"data": {...}}``. If the process is killed or the machine loses power, at most the last line is
incomplete.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.episode import Comparison, EndReason, Slot
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict, from_plain, to_plain
from arena_robot.records.roboarena import RoboArenaRollout

SESSION_FILE = 'session.json'
RECEIPT_FILE = 'receipt.json'
VERSION = 1
DONE = 'done'
LOCAL_STUDY = 'local study'    # origin of what a lab sent of a study of its own; never counted

log = logging.getLogger(__name__)
JOURNAL = 'journal.jsonl'


class Source(str, Enum):
    """Who wrote a file."""

    STATION = 'station'
    SERVER = 'server'
    IMPORT = 'import'


@dataclass(frozen=True)
class SessionSlot:
    """
    How one slot's rollout went.

    Stamps and ``end`` are missing where they were not recorded. ``waited`` is the share of its
    time in which the arm waited for the policy; None where nobody knows.
    """

    started_ns: int = 0
    ended_ns: int = 0
    steps: int = 0
    end: EndReason | None = None
    detail: str = ''
    waited: float | None = None


class RerunCause(str, Enum):
    """Why a slot was run again."""

    FAULT = 'fault'        # the station failed, not the policy
    MISTAKE = 'mistake'    # of the evaluator


@dataclass(frozen=True)
class Rerun:
    """
    A rollout that does not count because its slot was run again, and why.

    ``folder`` is its recording's name beside A and B, empty without one.
    """

    slot: Slot
    cause: RerunCause
    reason: str
    rollout: SessionSlot
    folder: str = ''
    decided_ns: int = 0


@dataclass(frozen=True)
class Repair:
    """
    A recovery of the arm or an activation of the gripper, named in ``what`` as its button.

    ``by`` asked for it. ``result`` is 'done' or what went wrong; it is empty, and ``ended_ns`` 0,
    where the station ended before.
    """

    what: str
    by: str
    asked_ns: int
    ended_ns: int = 0
    result: str = ''


@dataclass(frozen=True)
class SessionFile:
    """
    Everything in a ``session.json``; ``created`` and ``updated`` are ISO 8601 or empty.

    ``reveal`` names the policies once they may be known. ``verified`` tells whether it fits the
    commitment; it is None before, and where there was no commitment. ``matches`` are scene match
    scores 0 to 1 by view and ``match`` their verdict; ``delivered`` are the parts that the arena
    has, ``draft`` the verdict's fields that were typed and are not final. ``clock_jumps_s`` are
    the amounts by which the station's clock was set; ``origin`` is where an import came from.
    ``reruns`` are the rollouts that were repeated, oldest first. With ``equal_latency`` the
    policies took equally long. ``third_person`` is the outside camera that a policy with only one
    saw, empty where nobody knows. ``promises`` are what the server signed at draw and submission.
    ``photo_code`` is what the server wanted to see in the start photograph. ``repairs`` are what a
    person did about an arm or a gripper that had stopped by itself. ``robot`` is the kind of the
    arm, empty if not known.
    """

    session_id: str
    source: Source = Source.STATION
    state: str = ''
    station: str = ''
    evaluator: str = ''
    prompt: str = ''
    created: str = ''
    updated: str = ''
    commitment: str = ''
    reveal: Reveal | None = None
    verified: bool | None = None
    slots: Mapping[str, SessionSlot] = field(default_factory=lambda: {
        slot.value: SessionSlot() for slot in Slot})
    verdict: Verdict = field(default_factory=Verdict)
    checks: tuple[Mapping[str, Any], ...] = ()
    views: tuple[str, ...] = ()
    matches: Mapping[str, float] = field(default_factory=dict)
    match: float | None = None
    reset_confirmed: bool = False
    draft: Mapping[str, Any] = field(default_factory=dict)
    delivered: tuple[str, ...] = ()
    notice: str = ''
    clock_jumps_s: tuple[float, ...] = ()
    origin: str = ''
    other_rollouts: tuple[RoboArenaRollout, ...] = ()
    reruns: tuple[Rerun, ...] = ()
    equal_latency: bool = False
    third_person: str = ''
    promises: tuple[str, ...] = ()
    photo_code: str = ''
    repairs: tuple[Repair, ...] = ()
    robot: str = ''

    def policy(self, slot: str) -> str:
        """Return the policy in a slot, or the slot's own name while it is secret."""
        if self.reveal is None:
            return slot
        return self.reveal.policy_a if slot == Slot.A.value else self.reveal.policy_b

    def progress(self, slot: str) -> float | None:
        """Return the score 0 to 1 of a slot, None without one."""
        score: float | None = self.verdict.of_slot('progress', Slot(slot))
        return score

    def fits(self) -> bool | None:
        """Return whether the reveal fits the commitment; None when one of them is missing."""
        if self.reveal is None or not self.commitment:
            return None
        return self.reveal.fits(self.commitment)

    def comparison(self) -> Comparison | None:
        """
        Return the verdict as a ranking takes it, None when it does not count.

        Counted are sessions that are done, valid, judged and revealed, with a reveal that fits
        the commitment if there was one, between two policies, and of no local study.
        """
        preference, reveal = self.verdict.preference, self.reveal
        if (self.origin == LOCAL_STUDY or self.state != DONE or not self.verdict.valid
                or preference is None or reveal is None
                or self.verified is False or reveal.policy_a == reveal.policy_b):
            return None
        nan = float('nan')
        a, b = (nan if (score := self.progress(slot.value)) is None else score for slot in Slot)
        waited_a, waited_b = (self.slots.get(slot.value, SessionSlot()).waited for slot in Slot)
        return Comparison(self.session_id, reveal.policy_a, reveal.policy_b, preference, a, b,
                          self.evaluator, self.station, self.prompt, self.created, '',
                          waited_a, waited_b, reveal.chosen, self.robot)


def session_paths(root: Path) -> list[Path]:
    """Return the session files of the folders below ``root``, by name."""
    return sorted(root.glob(f'*/{SESSION_FILE}'))


def has_session(folder: Path) -> bool:
    """Tell whether a folder holds a session file."""
    return (folder / SESSION_FILE).exists()


def read_session(folder: Path) -> SessionFile:
    """Return what the session file in ``folder`` says; DataError when it cannot be read."""
    path = folder / SESSION_FILE
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        if not isinstance(data, dict):
            raise TypeError(f'expected a mapping, found a {type(data).__name__}')
        version = data.pop('version', None)
        if version != VERSION:
            raise ValueError(f'its version is {version}, this program reads {VERSION}; read it '
                             'with the program that wrote it')
        return _parse(data)
    except (OSError, ValueError, TypeError, AttributeError, ConfigError, DataError) as error:
        raise DataError(f'{path} is not the record of a session: {error}') from error


def write_session(folder: Path, session: SessionFile, sync_name: bool = True) -> None:
    """Write the session file of a folder, whole or not at all; see :func:`write_json`."""
    values = dataclasses.asdict(session)
    values['verdict'] = to_plain(session.verdict)
    write_json(folder / SESSION_FILE, {'version': VERSION, **values}, sync_name=sync_name)


def comparisons_below(root: Path) -> list[Comparison]:
    """Return the verdicts that count below ``root``, oldest first; bad files are logged."""
    verdicts = []
    for path in session_paths(root):
        try:
            session = read_session(path.parent)
            verdict = session.comparison()
        except DataError as error:
            log.warning('left out: %s', error)
            continue
        if verdict is not None:
            verdicts.append(dataclasses.replace(
                verdict, origin=session_origin(session, path.parent)))
    return sorted(verdicts, key=lambda c: (c.created, c.session_id))


def session_origin(session: SessionFile, folder: Path) -> str:
    """Return where the session in ``folder`` comes from: 'relayed', 'imported' or 'local'."""
    if session.source is not Source.STATION:
        return 'imported' if session.source is Source.IMPORT else session.origin or 'relayed'
    return 'relayed' if (folder / RECEIPT_FILE).exists() else 'local'


def _parse(data: Mapping[str, Any]) -> SessionFile:
    values = {key: value for key, value in data.items() if key != 'verdict'}
    return dataclasses.replace(build(SessionFile, values, SESSION_FILE),
                               verdict=from_plain(data.get('verdict', {})))


@dataclass(frozen=True)
class Entry:
    """One entry of the journal."""

    n: int
    stamp_ns: int
    move: str
    data: Mapping[str, Any]


def read_journal(path: Path) -> Iterator[Entry]:
    """
    Yield the entries of a journal file; an incomplete last line is ignored.

    Raises DataError for any other damage, naming the line.
    """
    raw = path.read_bytes()
    lines = raw[:whole_length(raw)].splitlines()
    for n, line in enumerate(lines):
        try:
            entry = parse_entry(line)
        except DataError as error:
            raise DataError(f'{path} line {n + 1} is damaged: {error}') from error
        if entry.n != n:
            raise DataError(f'{path} line {n + 1} has number {entry.n}: lines are missing')
        yield entry


def parse_entry(line: bytes) -> Entry:
    """Return the entry in a line of a journal; DataError when it is not one."""
    try:
        item = json.loads(line)
        return Entry(int(item['n']), int(item['t']), str(item['move']), dict(item['data']))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f'{error or type(error).__name__}') from error


def line_of(entry: Entry) -> bytes:
    """Return the line that an entry is written as; ValueError for what JSON cannot hold."""
    item = {'n': entry.n, 't': entry.stamp_ns, 'move': entry.move, 'data': entry.data}
    return (json.dumps(item, ensure_ascii=False, allow_nan=False) + '\n').encode('utf-8')


def whole_length(raw: bytes) -> int:
    """Return the length of a file's complete lines."""
    return raw.rfind(b'\n') + 1
