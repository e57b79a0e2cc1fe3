"""
Local arena in the station's process: policies from a file, blind pairs, results in a folder.

For stations without a server. The pair of an open session is stored sealed (see
:mod:`arena_robot.session.arena.sealed`), so that it survives a restart without being readable.
"""

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import ConfigError, Conflict, NotRevealed, ServerError
from arena_robot.core.files import write_text
from arena_robot.core.verdict import Verdict, from_plain, to_plain
from arena_robot.policy.base import Closable, Policy, PolicySpec
from arena_robot.policy.timing import MEASURED, AtLeast, warmed
from arena_robot.session.arena.sealed import read_key, seal, unseal
from arena_robot.session.base import Assignment, Reveal, StationInfo, commitment

NONCE_BYTES = 16    # too many to try them all against a commitment


@dataclass(frozen=True)
class PolicyEntry:
    """A policy of the pool: ``address`` as for ``arena policy``, ``weight`` for the draw."""

    name: str
    address: str
    weight: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalArenaConfig:
    """The pool of a stand-alone station."""

    policies: tuple[PolicyEntry, ...]

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.policies]
        if len(set(names)) < 2 or len(set(names)) != len(names):
            raise ConfigError(f'a pool needs two policies or more, each with its own name; got '
                              f"{', '.join(names) or 'none'}")
        if any(not entry.weight > 0.0 for entry in self.policies):
            raise ConfigError('the weight of a policy is more than 0')


class LocalArena:
    """
    Implements :class:`arena_robot.session.base.Arena` without a server.

    ``connect`` turns a pool entry into a policy; ``folder`` keeps sealed pairs and results;
    ``rng`` draws pairs, order, nonces and session ids (None: the system's random source).
    """

    def __init__(self, config: LocalArenaConfig, connect: Callable[[PolicyEntry], Policy],
                 folder: Path, clock: Clock, rng: Random) -> None:
        self._config = config
        self._connect = connect
        self._folder = folder
        self._clock = clock
        self._rng = rng
        self._policies: dict[tuple[str, Slot], Policy] = {}
        self._lock = threading.RLock()

    def assign(self, station: StationInfo, evaluator: str, prompt: str,
               third_person: str = 'left') -> Assignment:
        """Return a new blind pair; the two differ, who is A is random."""
        with self._lock:
            first = self._draw(self._config.policies)
            second = self._draw(tuple(p for p in self._config.policies if p is not first))
            nonce = self._rng.randbytes(NONCE_BYTES).hex()
            session_id = self._new_id()
            promise = commitment(nonce, first.name, second.name)
            record = {
                'status': 'open', 'session_id': session_id, 'station': station.station,
                'evaluator': evaluator, 'prompt': prompt, 'created_ns': self._clock.now_ns(),
                'equal_latency': station.equal_latency, 'cameras': {
                    name: getattr(station, name)
                    for name in ('external_cameras', 'wrist_camera', 'stereo', 'depths')},
                'commitment': promise, 'episodes': {},
                'sealed': seal(self._key(), session_id,
                               {'nonce': nonce, 'A': first.name, 'B': second.name})}
            self._write(record)
            return Assignment(session_id, promise)

    def policy(self, session_id: str, slot: Slot) -> Policy:
        """
        Return the policy behind a slot; on first use both of the pair are connected.

        They are warmed up then, and measured where they are to take equally long, so that the
        time of it does not tell one from the other.
        """
        with self._lock:
            record = self._open_record(session_id)
            if (session_id, slot) not in self._policies:
                self._connect_pair(record, slot)
            return self._policies[session_id, slot]

    def _connect_pair(self, record: dict[str, Any], wanted: Slot) -> None:
        """Connect what is not connected yet; only an error of the wanted slot is raised."""
        session_id, pair, connected = record['session_id'], self._pair(record), {}
        for slot in Slot:
            if (session_id, slot) not in self._policies:
                with contextlib.suppress(*(() if slot is wanted else (ServerError,))):
                    connected[slot] = self._connected(self._entry(pair[slot.value]), slot)
        if lacks := {words for policy in connected.values()
                     for words in _lacks(policy.spec, record.get('cameras', {}))}:
            self._policies.update({(session_id, slot): connected[slot] for slot in connected})
            self._release(session_id)    # the next call must not get one unchecked
            raise ServerError(f"a policy of this pair asks for {', '.join(sorted(lacks))}, which "
                              'this station does not have; abort the session, and take the '
                              'policy out of the pool or give the session such cameras')
        measured = MEASURED * (record['equal_latency'] and 'least' not in record)
        least_s = max([warmed(policy, measured) for policy in connected.values()])
        if measured:
            record['least'] = seal(self._key(), session_id, {'least_s': round(least_s, 6)})
            self._write(record)
        for slot, policy in connected.items():
            self._policies[session_id, slot] = AtLeast(
                policy, self._least_s(record), self._entry(pair[slot.value]).address)

    def _least_s(self, record: Mapping[str, Any]) -> float:
        """Return how long an answer takes at least in a session with equal latency, else 0."""
        if 'least' not in record:
            return 0.0
        return float(unseal(self._key(), record['session_id'], record['least'])['least_s'])

    def heartbeat(self, session_id: str, state: str) -> None:
        """Store the time of the last sign of life; Conflict when the session is closed."""
        with self._lock:
            record = self._open_record(session_id)
            self._write({**record, 'seen_ns': self._clock.now_ns(), 'state': state})

    def upload(self, session_id: str, episode: Episode, folder: Path) -> None:
        """Store the episode's path; the files are not copied."""
        with self._lock:
            record = self._read(session_id)
            if record['status'] == 'aborted':
                raise Conflict(f'session {session_id} was aborted; it takes no episodes')
            item = {'folder': str(folder), 'steps': episode.steps, 'end': episode.end.value}
            episodes = {**record['episodes'], episode.slot.value: item}
            self._write({**record, 'episodes': episodes})

    def feedback(self, session_id: str, verdict: Verdict) -> str:
        """Store the verdict, once; the same again is accepted, another is a Conflict."""
        with self._lock:
            record = self._read(session_id)
            if record['status'] == 'aborted':
                raise Conflict(f'session {session_id} was aborted; it takes no verdict')
            if 'feedback' in record and from_plain(record['feedback']) != verdict:
                raise Conflict(f'session {session_id} already has another verdict')
            self._write({**record, 'status': 'judged', 'feedback': to_plain(verdict)})
        return ''

    def abort(self, session_id: str, reason: str) -> None:
        """Close a session without a verdict; again is fine, after the verdict a Conflict."""
        with self._lock:
            record = self._read(session_id)
            if record['status'] == 'judged':
                raise Conflict(f'session {session_id} has a verdict; it cannot be aborted')
            self._write({**record, 'status': 'aborted', 'reason': reason})
            self._release(session_id)

    def reveal(self, session_id: str) -> Reveal:
        """Return the names and write them beside the verdict; Conflict when nothing was run."""
        with self._lock:
            record = self._read(session_id)
            if record['status'] != 'judged':
                raise Conflict(f'session {session_id} has no verdict yet; names come after it')
            if not record['episodes'] and not record['feedback']['valid']:
                raise NotRevealed(f'session {session_id} ended before any rollout; '
                               'its policies are not revealed')
            pair = self._pair(record)
            least = {'equal_latency_s': self._least_s(record)} if 'least' in record else {}
            self._write({**record, **least, 'policy_a': pair['A'], 'policy_b': pair['B'],
                         'nonce': pair['nonce']})
            self._release(session_id)
            return Reveal(pair['nonce'], pair['A'], pair['B'], chosen=False)

    def close(self) -> None:
        """Close all policies."""
        with self._lock:
            for session_id in {key[0] for key in self._policies}:
                self._release(session_id)

    def _new_id(self) -> str:
        while True:    # a seeded generator draws the ids of an earlier run again
            session_id = str(uuid.UUID(bytes=self._rng.randbytes(16), version=4))
            if not self._path(session_id).exists():
                return session_id

    def _draw(self, entries: tuple[PolicyEntry, ...]) -> PolicyEntry:
        return self._rng.choices(entries, [entry.weight for entry in entries])[0]

    def _connected(self, entry: PolicyEntry, slot: Slot) -> Policy:
        policy: Policy | None = None
        try:
            policy = self._connect(entry)
        except Exception:  # its text names the policy; the station gets an error without it
            policy = None
        if policy is None:
            raise ServerError(f'the policy of slot {slot.value} cannot be reached; '
                              'abort the session and start another')
        return policy

    def _release(self, session_id: str) -> None:
        for slot in Slot:
            policy = self._policies.pop((session_id, slot), None)
            if isinstance(policy, Closable):
                with contextlib.suppress(Exception):    # its text may name the policy
                    policy.close()

    def _entry(self, name: str) -> PolicyEntry:
        for entry in self._config.policies:
            if entry.name == name:
                return entry
        raise ServerError('a policy of this session is no longer in the pool; '
                          'put it back, or abort the session')

    def _key(self) -> bytes:
        return read_key(self._folder / '.key')

    def _pair(self, record: Mapping[str, Any]) -> dict[str, str]:
        return unseal(self._key(), record['session_id'], record['sealed'])

    def _open_record(self, session_id: str) -> dict[str, Any]:
        record = self._read(session_id)
        if record['status'] != 'open':
            raise Conflict(f"session {session_id} is closed ({record['status']})")
        return record

    def _path(self, session_id: str) -> Path:
        return self._folder / f'{session_id}.json'

    def _read(self, session_id: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._path(session_id).read_text(encoding='utf-8')))
        except OSError as error:
            raise ServerError(f'there is no session {session_id} in this arena') from error

    def _write(self, record: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=2, ensure_ascii=False) + '\n'
        write_text(self._path(record['session_id']), text)


def _lacks(spec: PolicySpec, has: Mapping[str, Any]) -> list[str]:
    """Return in words which cameras a policy asks for that a station does not have."""
    asked = {f'{spec.external_cameras} outside cameras':
             spec.external_cameras > has.get('external_cameras', spec.external_cameras),
             'a wrist camera': spec.wrist_camera and not has.get('wrist_camera', True),
             'both eyes of every camera': spec.stereo and not has.get('stereo', True),
             f"depth ({', '.join(spec.depths())})": 'depths' in has and spec.depth and (
                 spec.external_cameras > len(set(has['depths']) - {'wrist'})
                 or (spec.wrist_camera and 'wrist' not in has['depths']))}
    return [words for words, lacking in asked.items() if lacking]
