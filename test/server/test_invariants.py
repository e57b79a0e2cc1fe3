"""
Random calls of a station and a maintainer, and faults of the servers, break no invariant.

The machine draws pairs, relays, uploads, judges, aborts, withdraws: at one server with SQLite, or
by turns at two with one PostgreSQL. A server is killed when what its relay noted is not in the
database yet, and a paused process holds locks of the database for a while.
After every step what docs/invariants.md says of words, ledger, log, pairs and files is looked at.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import threading
import time

import pytest
import sqlalchemy as sa
from arena_setting import (
    FIRST,
    LAST,
    STATION,
    NotingArena,
    Setting,
    episode,
    fine,
    query,
    recorded,
)
from http_server import free_port
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from rollout_bags import read_here

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ArenaError, Conflict, NotRevealed, ServerUnavailable
from arena_robot.core.pair import said
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import SessionState
from arena_robot.server.client import ServerAddress, TokensInMemory
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store import log
from arena_robot.server.store.database import Database
from arena_robot.server.store.files import manifests_of
from arena_robot.server.store.schema import entries, files, relayed, sessions
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.session.arena.contract import INVALID, PROMPT, VERDICT
from arena_robot.web.site.downloads import standings_of

EXAMPLES, STEPS = (15, 40) if 'ARENA_TEST_WALKS' in os.environ else (3, 16)
PAUSE_S, TRIES = 0.2, 6
SLOTS = st.sampled_from(Slot)
LATE = st.lists(st.sampled_from(['another recording', 'another verdict', 'withdraw', 'reveal']),
                max_size=2)
VERDICTS = st.sampled_from([
    VERDICT, INVALID, dataclasses.replace(VERDICT, preference=Preference.B)])


class Killable(Setting):
    """Servers that are killed and started again on what they left, and a station that remains."""

    def __init__(self, folder, url, pool):
        self.ways, self.tokens_of_slots = [], TokensInMemory()
        super().__init__(folder, url, pool, informative=False)
        self.servers = [self.server]
        if url:
            self.servers.append(self._started(
                dataclasses.replace(self.config, port=free_port())))
        self.ways = [self._way(server) for server in self.servers]

    def _started(self, config):
        server = ArenaServer(config, SystemClock(), fine, fine, read_recordings=read_here)
        server.open()
        return server

    def _way(self, server):
        """Return the station's way to a server."""
        arena = NotingArena(ServerAddress(f'127.0.0.1:{server.port}', self.tokens['station'],
                                          timeout_s=60.0), SystemClock(),
                            tokens=self.tokens_of_slots)
        for _ in range(TRIES):
            with contextlib.suppress(ServerUnavailable):    # the machine is slow
                arena.sign_in(self.tokens['ada'])
                return arena
        raise AssertionError('the server does not answer after its start')

    def kill(self, at):
        server = self.servers[at]
        server.record.flush = lambda session_id='': None    # notes are in its journal alone
        self.ways[at].close()
        server.close()
        self.servers[at] = self._started(server.config)
        self.server, self.ways[at] = self.servers[0], self._way(self.servers[at])

    def close(self):
        for closable in (*self.ways, *self.servers[1:]):
            closable.close()
        super().close()


class ServerMachine(RuleBasedStateMachine):
    """What the station did, and what the server must never do about it."""

    drawn = Bundle('drawn')

    def __init__(self, make, folder):
        super().__init__()
        self.setting = make()
        self.folder, self.turn = folder, 0
        self.judged, self.relayed, self.sent, self.withdrawn = {}, set(), set(), set()
        self.rolled = set()    # relayed up to the last step, since it was begun
        self.over, self.refused, self.log, self.head = set(), set(), [], None

    @property
    def at(self):
        """Return the number of the server whose turn it is."""
        self.turn += 1
        return self.turn % len(self.setting.servers)

    @property
    def arena(self):
        return self.setting.ways[self.at]

    @rule()
    def leave_out_a_server(self):
        self.turn += 1

    @rule(target=drawn)
    def draw(self):
        try:
            return self.arena.assign(STATION, 'ada', PROMPT).session_id
        except (Conflict, ServerUnavailable):    # too many are open, or the machine is slow
            return multiple()

    @rule(session=drawn, slot=SLOTS, whole=st.booleans())
    def relay(self, session, slot, whole):
        """Query at a rollout's first and last step, the latter at another server if not whole."""
        first = last = self.arena
        if not whole:
            last = self.arena
            self.turn += 1    # what comes next is called there too: the first note is written late
        with contextlib.suppress(ArenaError):    # it is over
            self.rolled.discard((session, slot))
            query(first, session, slot, FIRST)
            query(last, session, slot, LAST)
            self.relayed.add((session, slot))
            self.rolled.add((session, slot))

    @rule(session=drawn, slot=SLOTS, take=st.sampled_from(['first', 'second']))
    def upload(self, session, slot, take):
        """Send an episode; the second take has another recording under the same names."""
        place = recorded(self.folder / session / slot.value / take, session, slot)
        if take == 'second':
            (place / 'A_0.mcap').write_bytes(b'another recording' + slot.value.encode())
        with contextlib.suppress(ArenaError):
            self.arena.upload(session, episode(session, slot), place)
            self.sent.add((session, slot))

    @rule()
    def write_notes(self):
        """Each server writes what its relay noted; a late note leaves the last step as it was."""
        first = self.at
        for server in (*self.setting.servers[first:], *self.setting.servers[:first]):
            server.record.flush()
        with self.setting.server.database.read() as connection:
            last = {(row.session_id, Slot(row.slot)): row.last_step
                    for row in connection.execute(sa.select(relayed))}
        assert {key: last.get(key) for key in self.rolled} == dict.fromkeys(self.rolled, LAST)

    @rule(target=drawn, slots=st.permutations(list(Slot)), verdict=VERDICTS, late=LATE,
          whole=st.booleans())
    def run_whole(self, slots, verdict, late, whole):
        """Do all that a session needs, in whatever order the slots come; then try to change it."""
        session = self.draw()
        if not isinstance(session, str):
            return session
        for slot in slots:
            self.relay(session, slot, whole)
            self.upload(session, slot, 'first')
        self.judge(session, verdict)
        for call in late:
            if call == 'another verdict':
                self.judge(session, dataclasses.replace(VERDICT, preference=Preference.TIE))
            elif call == 'withdraw':
                self.withdraw(session)
            elif call == 'reveal':
                self.reveal(session)
            else:
                self.upload(session, slots[0], 'second')
        return session

    @rule(session=drawn, verdict=VERDICTS)
    def judge(self, session, verdict):
        try:
            assert self.arena.feedback(session, verdict), 'a verdict is taken with a promise'
        except Conflict:
            assert session in self.over or self.judged.get(session, verdict) != verdict
            return
        assert self.judged.setdefault(session, verdict) == verdict

    @rule(session=consumes(drawn))
    def abort(self, session):
        try:
            self.arena.abort(session, 'the robot broke')
            self.over.add(session)
        except Conflict:
            assert session in self.judged or session in self.over

    @rule()
    def silence(self):
        """No call came for long: every running session is cancelled, and may come back."""
        self.setting.servers[self.at].verdicts.cancel_overdue(0.0)
        self.over |= {row.id for row in self._rows() if row.state == SessionState.CANCELLED.value}

    @rule(session=drawn)
    def withdraw(self, session):
        with contextlib.suppress(ArenaError):    # it does not count, or has enough corrections
            self.setting.calls('maintainer')('Correct', pb.CorrectionRequest(
                session_id=session, text='wrong robot', withdraw=True))
            self.withdrawn.add(session)

    @rule(session=drawn)
    def reveal(self, session):
        try:
            names = self.arena.reveal(session)
        except Conflict:
            return
        except NotRevealed:
            self.refused.add(session)
            return
        row = self.setting.server.sessions.get(session)
        assert row.accepted_ns is not None, 'names are given for what counts'
        assert names.fits(row.commitment)
        assert names.objection == ''

    @rule()
    def look_again(self):
        self.setting.servers[self.at].acceptance.consider_all()

    @rule()
    def kill(self):
        self.setting.kill(self.at)

    @rule(session=drawn, judged=st.booleans())
    def pause(self, session, judged):
        """A paused process has locks for a while; a call in that time waits for it."""
        held = threading.Event()

        def hold():
            with Database(self.setting.config.database_url()) as paused, \
                    paused.write() as connection:
                connection.execute(sa.select(sessions.c.id).where(
                    sessions.c.id == session).with_for_update())
                log.lock(connection)
                held.set()
                time.sleep(PAUSE_S)
        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(30.0)
        if judged:
            self.judge(session, VERDICT)
        else:
            self.relay(session, Slot.A, True)
        thread.join()

    def _rows(self):
        with self.setting.server.database.read() as connection:
            return connection.execute(sa.select(sessions)).all()

    @invariant()
    def words_stay(self):
        for session, verdict in self.judged.items():
            assert self.setting.server.sessions.get(session).verdict == verdict

    @invariant()
    def the_ledger_adds_up(self):
        server = self.setting.server
        server.ledger.check()
        assert min(server.ledger.of_accounts().values(), default=0) >= 0
        with server.database.read() as connection:
            earned = connection.execute(sa.select(entries.c.transfer).where(
                entries.c.transfer.like('earn:%'), entries.c.amount > 0)).scalars().all()
        assert sorted(earned) == sorted(f'earn:{row.id}' for row in self._rows()
                                        if row.accepted_ns is not None)

    @invariant()
    def the_log_binds(self):
        values = json.loads(json.dumps(self.setting.server.log.bundle()))
        values['standings'] = standings_of(values)
        check_bundle(values, heads=[self.head] if self.head else [])
        assert values['entries'][:len(self.log)] == self.log
        self.log, self.head = values['entries'], values['head']
        sessions_in_log = [entry for entry in map(json.loads, self.log)
                           if entry['kind'] == 'session']
        accepted = {row.id for row in self._rows() if row.accepted_ns is not None}
        assert sorted(entry['session'] for entry in sessions_in_log) == sorted(accepted)
        with self.setting.server.database.read() as connection:
            for entry in sessions_in_log:
                listed = manifests_of(connection, entry['session'])
                assert entry['manifests'] == {slot: m.sha256 for slot, m in listed.items()}
                assert entry['verdict'] == said(self.judged[entry['session']])

    @invariant()
    def pairs_are_sealed(self):
        for row in self._rows():
            public = row.accepted_ns is not None or row.revealed_ns is not None
            assert (row.policy_a_id is not None) == (row.policy_b_id is not None) == public
            assert bool(row.nonce) == public

    @invariant()
    def what_is_refused_for_good_never_counts(self):
        assert not self.refused & {row.id for row in self._rows() if row.accepted_ns is not None}

    @invariant()
    def files_are_what_they_are_called(self):
        server = self.setting.server
        with server.database.read() as connection:
            whole = connection.execute(sa.select(files).where(files.c.complete)).all()
        for row in whole:
            place = 'session' if row.slot == '-' else row.slot
            data = b''.join(server.blobs.read(f'{row.session_id}/{place}/{row.path}'))
            assert hashlib.sha256(data).hexdigest() == row.sha256

    @invariant()
    def only_what_took_place_counts(self):
        for comparison in self.setting.server.results.comparisons():
            assert self.judged[comparison.session_id].valid
            assert comparison.session_id not in self.withdrawn
            assert {(comparison.session_id, slot) for slot in Slot} <= self.relayed & self.sent

    def teardown(self):
        try:
            self.write_notes()
        finally:
            self.setting.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize('servers', [1, 2])
def test_random_calls_kills_and_pauses_break_no_invariant(request, tmp_path, pool, servers):
    number = iter(range(10**6))
    urls = request.getfixturevalue('postgres_urls') if servers == 2 else str

    def make():
        return Killable(tmp_path / f'server-{next(number)}', urls(), pool)
    run_state_machine_as_test(
        functools.partial(ServerMachine, make, tmp_path / 'station'), settings=settings(
            max_examples=-(-EXAMPLES // servers), stateful_step_count=STEPS, deadline=None,
            database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)))
