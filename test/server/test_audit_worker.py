"""The server's worker: sessions that count are audited once, by what the server itself has."""

from types import SimpleNamespace

import pytest

from arena_robot.cli.main import main
from arena_robot.core.errors import ConfigError
from arena_robot.recording.episode.sample import SampleEpisode, SampleMaker
from arena_robot.records.audit_file import audit_path, audits_of, read_audit
from arena_robot.server import audit_worker
from arena_robot.server.audit_worker import LOOK_STEPS, AuditWorker
from arena_robot.server.blobs import Blobs
from arena_robot.server.files import FileId

calls = []


class InThisProcess:
    """Runs the command line of an audit at once; None of its methods waits."""

    def __init__(self, name, command, log_file):
        self._words = command[3:]

    def start(self):
        calls.append(self._words)
        self.code = main(self._words)

    def lower_priority(self):
        assert self._words[0] == 'audit'

    kill = end = lambda self, *_: None


@pytest.fixture
def store(tmp_path, message_folders, monkeypatch):
    """A store with one whole session, one with a broken bag, one that does not count."""
    monkeypatch.setattr(audit_worker, 'Process', InThisProcess)
    calls.clear()
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


def test_sessions_that_count_are_audited_once(store, capsys):
    blobs, root = store
    page = SimpleNamespace(evaluations=[
        SimpleNamespace(id=name, counts=name != 'withdrawn', mark='') for name in (
            'broken', 'one', 'withdrawn')])
    worker = AuditWorker('oracle', SimpleNamespace(page=lambda wanted: page),
                         SimpleNamespace(list=lambda session: listed(root, session)), blobs)
    for _ in range(2 * LOOK_STEPS):
        worker.step()
    worker.close()
    assert len(calls) == 2, 'each once, also the one that cannot be read'
    audit = read_audit(audit_path(root / 'one' / 'A', 'oracle'))
    assert audit.valid
    assert audit.phi[-1] > 0.5
    assert len(audits_of(root / 'one' / 'B')) == 1
    assert audits_of(root / 'withdrawn' / 'A') == []
    assert all(not read_audit(path).valid for path in audits_of(root / 'broken' / 'A'))
    with pytest.raises(ConfigError, match='oracle'):
        AuditWorker('orakel', None, None, blobs)
