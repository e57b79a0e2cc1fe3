"""
The log as the server publishes it: signed heads, entries, proofs, reveals, receipts.

An entry is canonical JSON: the same facts give the same bytes.
"""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError
from arena_robot.core.pair import canonical, said, verdict_sha256
from arena_robot.records.session_file import LOCAL_STUDY
from arena_robot.server.store import log as stored
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.files import SessionEvidence
from arena_robot.server.store.sessions import SessionRow
from arena_robot.server.store.verdicts import accepted_reveals
from arena_robot.server.transparency.keys import DRAW, VERDICT, LogKey, SignedHead
from arena_robot.server.transparency.merkle import MerkleTree, leaf_hash

SESSION, CORRECTION, ERASURE, RELEASE = 'session', 'correction', 'erasure', 'release'
RELAYED, IMPORTED, EARLIER = 'relayed', 'imported', 'before the log'
PAGE = 1000    # entries of one answer, about 1 MB


def pseudonym(name: str) -> str:
    """Return a stable word for an evaluator; who knows the name can compute it."""
    return hashlib.sha256(f'evaluator\n{name}'.encode()).hexdigest()[:16]


def session_entry(session: SessionRow, evaluator: str, station: str,
                  evidence: SessionEvidence | None, names: tuple[str, str],
                  accepted_ns: int) -> str:
    """
    Return the entry of a session that was accepted.

    The policies are named where there was no commitment; otherwise the commitment stands for them.
    """
    values: dict[str, Any] = {
        'kind': SESSION, 'session': session.id, 'commitment': session.commitment,
        'evaluator': pseudonym(evaluator), 'institution': session.institution,
        'station': station, 'prompt': session.prompt, 'created_ns': session.created_ns,
        'accepted_ns': accepted_ns, 'probation': session.probation,
        'verdict': said(session.verdict)}
    if session.chosen is not None:
        values['chosen'] = session.chosen
    if session.study_sha256:
        values |= {'origin': LOCAL_STUDY, 'study': session.study,
                   'study_sha256': session.study_sha256}
    elif session.imported:
        values['origin'] = IMPORTED
    elif evidence is None:
        values['origin'] = EARLIER
    else:
        values |= {'origin': RELAYED, **_seen(evidence)}
    if not session.commitment:
        values['policies'] = list(names)
    return canonical(values)


def correction_entry(session_id: str, author: str, text: str, withdraw: bool,
                     now_ns: int) -> str:
    """Return the entry of a correction, or of a withdrawal."""
    return canonical({'kind': CORRECTION, 'session': session_id, 'author': pseudonym(author),
                      'text': text, 'withdraw': withdraw, 'created_ns': now_ns})


def erasure_entry(session_id: str, author: str, reason: str, files: Mapping[str, str],
                  now_ns: int, blurred: Mapping[str, Any] | None = None) -> str:
    """
    Return the tombstone of deleted files: their SHA-256 by key, and why they are gone.

    ``blurred`` tells of the video that replaces one of them: its key ``file`` and ``sha256``,
    the key ``of`` what it was made of, and what was blurred.
    """
    return canonical({'kind': ERASURE, 'session': session_id, 'author': pseudonym(author),
                      'reason': reason, 'files': dict(files), 'created_ns': now_ns,
                      **({'blurred': dict(blurred)} if blurred else {})})


def release_entry(name: str, doi: str, author: str, size: int,
                  files: Mapping[str, Mapping[str, Any]], now_ns: int) -> str:
    """
    Return the entry of a frozen release: size and SHA-256 of each of its files.

    ``size`` is how many entries of the log it has.
    """
    return canonical({'kind': RELEASE, 'name': name, 'doi': doi, 'author': pseudonym(author),
                      'size': size, 'files': dict(files), 'created_ns': now_ns})


def _seen(evidence: SessionEvidence) -> dict[str, Any]:
    return {
        'manifests': {slot: rollout.sha256 for slot, rollout in evidence.manifests.items()},
        'rollouts': {slot: {'queries': rollout.queries, 'actions': rollout.actions,
                            'seconds': round(rollout.seconds, 3),
                            'steps': evidence.episodes[slot].steps}
                     for slot, rollout in evidence.rollouts.items()}}


class TransparencyLog:
    """Appends entries and answers for them; the tree is kept in memory and follows the table."""

    def __init__(self, database: Database, key: LogKey, clock: Clock) -> None:
        self._database = database
        self._key = key
        self._clock = clock
        self._tree = MerkleTree()
        self._lock = threading.Lock()

    def append(self, connection: Connection, bodies: Sequence[tuple[str, str]]) -> None:
        """Add an entry for each session and body, inside the caller's transaction."""
        stored.append(connection, bodies, self._clock.now_ns())

    def size(self) -> int:
        """Return how many entries there are."""
        with self._database.read() as connection:
            return stored.size(connection)

    def lock(self, connection: Connection) -> None:
        """Let other writers wait until the end of the caller's transaction."""
        stored.lock(connection)

    def head(self) -> SignedHead:
        """Return a signed head that covers every entry there is."""
        with self._lock:
            self._follow()
            return self._key.sign(len(self._tree), self._tree.root(), self._clock.now_ns())

    def entries(self, start: int, limit: int = PAGE) -> list[str]:
        """Return the bodies of the entries from number ``start`` on."""
        with self._database.read() as connection:
            return [entry.body for entry in stored.entries(connection, max(0, start),
                                                       max(1, min(limit, PAGE)))]

    def releases(self) -> list[dict[str, Any]]:
        """Return the entries of the releases, oldest first."""
        with self._database.read() as connection:
            return stored.releases(connection)

    def inclusion(self, number: int, size: int) -> list[str]:
        """Return the proof that an entry is in the log of that size; hashes in hex."""
        with self._lock:
            self._follow()
            return [node.hex() for node in self._tree.inclusion(number, size)]

    def consistency(self, old: int, new: int) -> list[str]:
        """Return the proof that the log of size ``new`` only added to that of size ``old``."""
        with self._lock:
            self._follow()
            return [node.hex() for node in self._tree.consistency(old, new)]

    def receipt(self, session_id: str) -> dict[str, Any]:
        """
        Return the proof that a session is in the log: entry, number, path and signed head.

        Empty when the session has no entry.
        """
        with self._database.read() as connection:
            entries = stored.of_session(connection, session_id)
        if not entries:
            return {}
        head = self.head()
        return {'session': session_id, 'number': entries[0].number, 'entry': entries[0].body,
                'path': self.inclusion(entries[0].number, head.size), 'head': head.plain()}

    def promise_draw(self, session: SessionRow) -> str:
        """Return the signed time at which a pair was given, and its commitment."""
        return self._key.promise(DRAW, session.id, session.created_ns,
                                 commitment=session.commitment)

    def promise_verdict(self, session: SessionRow) -> str:
        """Return the signed time at which a verdict was taken, and its hash."""
        return self._key.promise(VERDICT, session.id, session.ended_ns or 0,
                                 sha256=verdict_sha256(said(session.verdict)))

    def erasures(self, session_id: str) -> list[tuple[int, str, int, str]]:
        """Return when (ns) files of a session were deleted, why, how many, what was blurred."""
        with self._database.read() as connection:
            entries = [json.loads(row.body) for row in stored.of_session(connection, session_id)]
        return [(int(entry['created_ns']), str(entry['reason']), len(entry['files']),
                 str(entry.get('blurred', {}).get('of', '')).removeprefix(f'{session_id}/'))
                for entry in entries if entry['kind'] == ERASURE]

    def bundle(self) -> dict[str, Any]:
        """Return everything that an offline check needs, but standings."""
        head = self.head()
        bodies: list[str] = []
        while len(bodies) < head.size:
            bodies += self.entries(len(bodies))
        with self._database.read() as connection:
            reveals = accepted_reveals(connection)
        return {'version': 1, 'head': head.plain(), 'entries': bodies[:head.size],
                'reveals': {key: {'nonce': reveal.nonce, 'policy_a': reveal.policy_a,
                                  'policy_b': reveal.policy_b, 'probation': reveal.probation}
                            for key, reveal in reveals.items()}}

    def _follow(self) -> None:
        with self._database.read() as connection:
            while True:
                page = stored.entries(connection, len(self._tree), PAGE)
                for entry in page:
                    if entry.number != len(self._tree):
                        raise DataError(f'the log lacks entry {len(self._tree)}; restore the '
                                        'database from its backup')
                    self._tree.append(leaf_hash(entry.body.encode()))
                if len(page) < PAGE:
                    return
