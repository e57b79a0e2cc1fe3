"""The server's audits: sessions that count are audited once, by what the server itself has."""

import re
from types import SimpleNamespace

import pytest
from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.core.errors import ConfigError
from arena_robot.core.process import wait_until
from arena_robot.records.audit_file import audit_path, audits_of, read_audit
from arena_robot.reports.episode_audit import audit_session
from arena_robot.server.files import FileId
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.upkeep.background_work import AUDIT_LOOK_STEPS, AuditWorker

STEPS = 10**6    # of an audit; a test calls faster than a server


@pytest.fixture
def store(tmp_path, message_folders):
    """A store with one whole session, one with a broken bag, one that does not count."""
    blobs = Blobs(str(tmp_path / 'blobs'))
    blobs.open()
    for name in ('one', 'broken', 'withdrawn'):
        for slot in 'AB':
            home = tmp_path / 'blobs' / name / slot
            SampleMaker(SampleEpisode(12, width=64, height=36, slot=slot, session_id=name,
                                      potential=True), message_folders).write(home)
            if name == 'broken':
                for bag in home.glob('*.mcap'):
                    bag.write_bytes(b'\0' * 99)
    return blobs, tmp_path / 'blobs'


def listed(root, session):
    return [SimpleNamespace(file=FileId(session, slot, path.name), complete=True)
            for slot in 'AB' for path in (root / session / slot).iterdir() if path.is_file()]


@pytest.fixture
def audit(store):
    """Return a function that audits the named sessions; it returns in which order it did."""
    blobs, root = store

    def audited(*names, longest_steps=STEPS, **bounds):
        page, asked = SimpleNamespace(evaluations=[
            SimpleNamespace(id=name, counts=name != 'withdrawn', mark='') for name in names]), []
        uploads = SimpleNamespace(list=lambda name: asked.append(name) or listed(root, name))
        worker = AuditWorker(audit_session, 'oracle', SimpleNamespace(page=lambda wanted: page),
                             uploads, blobs, longest_steps=longest_steps, **bounds)

        def done():
            worker.step()
            return len(audits_of(root / 'one' / 'B')) == 1
        try:
            assert wait_until(done, 120.0)
            for _ in range(2 * AUDIT_LOOK_STEPS):
                worker.step()
        finally:
            worker.close()
        return asked
    return audited


def test_sessions_that_count_are_audited_once(store, audit):
    blobs, root = store
    assert audit('broken', 'one', 'withdrawn') == ['broken', 'one'], \
        'each once, also the one that cannot be read'
    made = read_audit(audit_path(root / 'one' / 'A', 'oracle'))
    assert made.valid
    assert made.phi[-1] > 0.5
    assert audits_of(root / 'withdrawn' / 'A') == []
    unread = read_audit(audit_path(root / 'broken' / 'A', 'oracle'))
    assert unread.status == 'invalid'
    assert unread.detail, 'it says why'
    assert audit('broken', 'one') == [], 'after a restart neither is audited again'
    with pytest.raises(ConfigError, match='oracle'):
        AuditWorker(audit_session, 'orakel', None, None, blobs)


def test_an_audit_that_needs_too_much_memory_is_marked_as_failed(store, audit):
    _, root = store
    assert audit('one', memory_bytes=300 << 20) == ['one'], 'and is not tried again'
    for slot in 'AB':
        made = read_audit(audit_path(root / 'one' / slot, 'oracle'))
        assert made.status == 'invalid'
        assert re.search('needs more than 300 MiB|ended by signal', made.detail)
    assert audit('one') == [], 'after a restart neither'


def test_an_audit_that_takes_too_long_is_marked_as_failed(store, audit):
    _, root = store
    assert audit('one', longest_steps=1) == ['one'], 'and is not tried again'
    made = read_audit(audit_path(root / 'one' / 'B', 'oracle'))
    assert (made.status, made.detail) == (
        'invalid', 'the audit of this session takes longer than 5 s')
