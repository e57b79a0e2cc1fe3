import hashlib
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import sqlalchemy as sa
from fsspec.spec import AbstractFileSystem

from arena_robot.core.errors import Conflict, DataError, ServerUnavailable
from arena_robot.server.config import ServerLimits
from arena_robot.server.files import FileId
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.schema import accounts, policies, sessions, stations
from arena_robot.server.store.uploads import Uploads

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = FileId('s1', 'A', 'left.mp4')


def rows(database):
    """The least that a file's foreign key needs."""
    text = {c.name: '' for c in sessions.columns if isinstance(c.type, sa.String)}
    numbers = {c.name: 0 for c in sessions.columns if isinstance(c.type, sa.Integer)}
    with database.write() as connection:
        connection.execute(sa.insert(accounts).values(
            id=1, name='ada', institution='lab', roles='owner', person='', created_ns=0))
        connection.execute(sa.insert(stations).values(
            id=1, name='bench', institution='lab', robot='fr3', external_cameras=2,
            wrist_camera=True, stereo=True, test_driver=False, created_ns=0))
        connection.execute(sa.insert(policies).values(**{
            **{c.name: '' for c in policies.columns if isinstance(c.type, sa.String)},
            **{c.name: 0 for c in policies.columns if isinstance(c.type, sa.Integer)},
            **{c.name: True for c in policies.columns if isinstance(c.type, sa.Boolean)},
            'id': 1, 'owner_id': 1, 'name': 'p'}))
        connection.execute(sa.insert(sessions).values(**{
            **text, **numbers, 'id': 's1', 'station_id': 1, 'evaluator_id': 1, 'policy_a_id': 1,
            'policy_b_id': 1, 'probation': False, 'imported': False, 'token_a': 'a',
            'token_b': 'b', 'valid': None, 'progress_a': None, 'progress_b': None,
            'preference': None}))


@pytest.fixture
def make(database, clock, tmp_path):
    rows(database)
    blobs = Blobs(str(tmp_path / 'blobs'))
    blobs.open()

    def uploads(**limits):
        return Uploads(database, blobs, tmp_path / 'spool', clock, ServerLimits(**limits))
    uploads.blobs = blobs
    return uploads


def stored(make):
    return b''.join(make.blobs.read(FILE.key))


def test_a_file_arrives_in_parts(make):
    uploads = make()
    assert uploads.begin(FILE, len(CONTENT), DIGEST).received == 0
    assert uploads.append(FILE, 0, CONTENT[:100]) == 100
    assert uploads.append(FILE, 100, CONTENT[100:]) == len(CONTENT)
    assert uploads.finish(FILE).complete
    assert stored(make) == CONTENT
    assert uploads.begin(FILE, len(CONTENT), DIGEST).complete
    assert uploads.finish(FILE).complete
    assert [r.file for r in uploads.list('s1')] == [FILE]
    assert b''.join(make.blobs.read(FILE.key, 10, 20)) == CONTENT[10:20]


def test_a_spool_file_that_another_stream_moves_away_meanwhile_is_no_error(make, monkeypatch):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    monkeypatch.setattr(Path, 'exists', lambda path: True)      # it was, a moment ago
    assert uploads.status(FILE).received == 0
    uploads.append(FILE, 0, CONTENT)
    assert uploads.finish(FILE).complete


@pytest.mark.parametrize('cut', [0, 1, 99, 4096, len(CONTENT) - 1, len(CONTENT)])
def test_a_line_cut_at_any_byte_ends_with_the_same_bytes_once(make, cut):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, CONTENT[:cut])
    again = make()
    received = again.begin(FILE, len(CONTENT), DIGEST).received
    assert received == cut
    # A client that did not hear the answer sends some bytes twice.
    start = max(0, received - 50)
    again.append(FILE, start, CONTENT[start:])
    assert again.finish(FILE).complete
    assert stored(make) == CONTENT


def test_a_server_killed_between_the_move_and_the_mark_finds_the_file_complete(make):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, CONTENT)
    make.blobs.put(uploads._part(FILE), FILE.key)
    assert make().begin(FILE, len(CONTENT), DIGEST).complete
    assert stored(make) == CONTENT


def test_a_corrupt_file_is_dropped_and_can_be_sent_again(make):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, b'x' * len(CONTENT))
    with pytest.raises(DataError, match='another SHA-256'):
        uploads.finish(FILE)
    assert not make.blobs.exists(FILE.key)
    assert uploads.status(FILE).received == 0
    uploads.append(FILE, 0, CONTENT)
    assert uploads.finish(FILE).complete


def test_stored_content_is_never_replaced(make):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, CONTENT)
    uploads.finish(FILE)
    with pytest.raises(Conflict, match='another content'):
        uploads.begin(FILE, 3, hashlib.sha256(b'abc').hexdigest())
    assert stored(make) == CONTENT


def test_an_announcement_may_change_until_the_file_is_complete(make):
    uploads = make()
    uploads.begin(FILE, 10, hashlib.sha256(b'0123456789').hexdigest())
    uploads.append(FILE, 0, b'01234')
    assert uploads.begin(FILE, len(CONTENT), DIGEST).received == 0


def test_empty_files_count_too(make):
    uploads = make()
    uploads.begin(FILE, 0, hashlib.sha256(b'').hexdigest())
    assert uploads.finish(FILE).complete
    assert stored(make) == b''


@pytest.mark.parametrize(('call', 'words'), [
    (lambda u: u.append(FILE, 0, b'x'), 'not announced'),
    (lambda u: u.begin(FILE, 1 << 40, DIGEST), 'are accepted'),
    (lambda u: u.begin(FILE, 10, 'zz'), '64 hex digits'),
    (lambda u: u.begin(FileId('s1', 'C', 'x'), 10, DIGEST), 'a slot is A, B'),
])
def test_wrong_calls_say_what_is_wrong(make, call, words):
    with pytest.raises(DataError, match=words):
        call(make())


@pytest.mark.parametrize('path', ['../x', '/etc/passwd', 'a/../../b', 'a//b', '', '.hidden', 'a b',
                                  'x' * 400, 'a\x00b', 'a/b/c/d/e/f/g/h/i'])
def test_paths_stay_inside_the_session(make, path):
    with pytest.raises(DataError, match='plain relative path'):
        make().begin(FileId('s1', 'A', path), 10, DIGEST)


def test_gaps_and_surplus_are_refused_and_change_nothing(make):
    uploads = make()
    uploads.begin(FILE, 10, DIGEST)
    with pytest.raises(DataError, match='go on from 0'):
        uploads.append(FILE, 5, b'x')
    with pytest.raises(DataError, match='announced with 10 bytes'):
        uploads.append(FILE, 0, b'x' * 11)
    with pytest.raises(DataError, match='has 0 of 10 bytes'):
        uploads.finish(FILE)
    assert uploads.status(FILE).received == 0


def test_a_session_has_room_for_so_much(make):
    uploads = make(session_bytes=100)
    uploads.begin(FILE, 80, DIGEST)
    with pytest.raises(DataError, match='session s1 would hold 120 bytes'):
        uploads.begin(FileId('s1', 'B', 'x'), 40, DIGEST)


def test_a_file_announced_anew_while_it_is_checked_is_not_kept_under_the_other_hash(
        make, monkeypatch):
    uploads, newer = make(), b'y' * len(CONTENT)
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, CONTENT)
    digest = Uploads._digest

    def announced_meanwhile(path):
        sum_of_old = digest(path)
        uploads.begin(FILE, len(newer), hashlib.sha256(newer).hexdigest())
        uploads.append(FILE, 0, newer)
        return sum_of_old
    monkeypatch.setattr(Uploads, '_digest', staticmethod(announced_meanwhile))
    with pytest.raises(Conflict, match='announced with another content'):
        uploads.finish(FILE)
    monkeypatch.setattr(Uploads, '_digest', staticmethod(digest))
    assert not uploads.status(FILE).complete
    assert not make.blobs.exists(FILE.key)
    assert uploads.finish(FILE).complete
    assert stored(make) == newer


def test_what_a_killed_server_left_is_complete_only_with_the_announced_hash(make):
    uploads = make()
    uploads.begin(FILE, len(CONTENT), DIGEST)
    uploads.append(FILE, 0, b'x' * len(CONTENT))
    make.blobs.put(uploads._part(FILE), FILE.key)
    assert not make().begin(FILE, len(CONTENT), DIGEST).complete


def test_a_station_announces_so_much_a_day(make, clock):
    uploads = make(station_day_bytes=100)
    for _ in range(3):    # the same again is announced once
        uploads.begin(FILE, 80, DIGEST)
    second = FileId('s1', 'B', 'x')
    with pytest.raises(ServerUnavailable, match='the rest goes tomorrow'):
        uploads.begin(second, 40, DIGEST)
    uploads.begin(FileId('s1', 'B', 'small'), 20, DIGEST)
    clock.advance_ns(24 * 3600 * 10**9)
    assert uploads.begin(second, 40, DIGEST).received == 0


def test_files_wait_while_the_disk_has_no_more_than_its_reserve(make):
    make().begin(FILE, len(CONTENT), DIGEST)
    full = make(reserve_bytes=1 << 60)
    for call in (lambda: full.begin(FileId('s1', 'B', 'x'), 1, DIGEST),
                 lambda: full.append(FILE, 0, CONTENT)):
        with pytest.raises(ServerUnavailable, match='waits at the station'):
            call()
    assert make().append(FILE, 0, CONTENT) == len(CONTENT), 'and go on when there is space'


OTHER = """
import pathlib, sys
from arena_robot.server.store.blobs import Blobs
blobs = Blobs(sys.argv[1])
blobs.open()
source = pathlib.Path(sys.argv[2])
source.write_bytes(b'a video')
blobs.put(source, 's1/a/video.mp4')
"""


class Bucket(AbstractFileSystem):
    """A store that remembers what it listed, as s3fs does."""

    protocol, stored = 'bucket', {}

    def makedirs(self, path, exist_ok=False):
        pass

    def ls(self, path, detail=True, **_):
        entries = self.dircache[path] if path in self.dircache else [
            {'name': name, 'size': size, 'type': 'file'} for name, size in self.stored.items()
            if name.rpartition('/')[0] == path]
        self.dircache[path] = entries
        return entries if detail else [entry['name'] for entry in entries]


def there(blobs):
    return blobs.names('s1/a'), blobs.exists('s1/a/video.mp4')


def test_a_file_of_another_server_is_found_after_its_folder_was_listed():
    fsspec.register_implementation('bucket', Bucket, clobber=True)
    blobs = Blobs('bucket://arena')
    blobs.open()
    assert there(blobs) == ([], False)
    with pytest.raises(DataError):
        blobs.size('s1/a/video.mp4')
    Bucket.stored['arena/s1/a/video.mp4'] = 7
    assert there(blobs) == (['video.mp4'], True)
    assert blobs.size('s1/a/video.mp4') == 7


def test_two_processes_share_an_s3_bucket(tmp_path, monkeypatch):
    pytest.importorskip('s3fs', reason='s3fs is missing: pip install -r requirements-server.txt')
    moto = pytest.importorskip('moto.server', reason="moto is missing: pip install 'moto[server]'")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        for name, value in (('ENDPOINT_URL', 'http://{}:{}'.format(*server.get_host_and_port())),
                            ('ACCESS_KEY_ID', 'a'), ('SECRET_ACCESS_KEY', 'b'),
                            ('DEFAULT_REGION', 'us-east-1')):
            monkeypatch.setenv(f'AWS_{name}', value)
        blobs = Blobs('s3://arena/blobs')
        blobs.open()
        curve = tmp_path / 'curve.json'
        curve.write_text('{}')
        blobs.put(curve, 's1/a/curve.json')
        assert there(blobs) == (['curve.json'], False)
        subprocess.run([sys.executable, '-c', OTHER, 's3://arena/blobs', str(tmp_path / 'part')],
                       check=True, timeout=60, env=dict(os.environ))
        assert there(blobs) == (['curve.json', 'video.mp4'], True)
        assert b''.join(blobs.read('s1/a/video.mp4', 2)) == b'video'
    finally:
        server.stop()
