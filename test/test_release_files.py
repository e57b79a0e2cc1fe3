"""
Today's code reads the files of released versions: test/data/<version>.

docs/release_files.py made them with the code of their release; they are never made again.
"""

import base64
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference, Slot
from arena_robot.policy.proto import arena_policy_pb2
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.check import check
from arena_robot.recording.episode.clip import read_clip
from arena_robot.recording.episode.tracks import load_tracks
from arena_robot.records.audit_file import audits_of, read_audit
from arena_robot.records.episode_file import SCENE_MATCH_FILE, parse_scene_match, read_episode
from arena_robot.records.roboarena_files import read_folder
from arena_robot.records.session_file import JOURNAL, RECEIPT_FILE, read_journal, read_session
from arena_robot.server.proto import arena_server_pb2
from arena_robot.server.results.exports import export_tables
from arena_robot.server.sealing import seal_of
from arena_robot.server.store.browse import Browse, Filter
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import Policies
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.session.protocol.record import replay

DATA = Path(__file__).parent / 'data'
VERSIONS = [path.name for path in sorted(DATA.glob('[0-9]*'))]
LARGEST = 300_000
TASK = 'put the cube in the bowl'


@pytest.fixture(params=VERSIONS)
def home(request):
    return DATA / request.param


def test_they_are_small(home):
    assert sum(path.stat().st_size for path in home.rglob('*') if path.is_file()) < LARGEST


def test_a_bag_and_what_was_derived_from_it(home):
    with BagReader(home / 'A') as bag:
        tracks = load_tracks(bag, codec_of(bag.topics.values()))
    assert len(tracks.steps.index) == 8
    assert tracks.arm.q.shape == (16, 7)
    np.testing.assert_allclose(tracks.arm.q[0], 0.3 * np.sin(np.arange(7)))
    np.testing.assert_allclose(tracks.steps.q_sent[0], 0.3 * np.sin(np.arange(7)))
    assert [chunk.actions.shape for chunk in tracks.chunks] == [(4, 8)] * 2
    assert len(tracks.views) == 6
    clip = read_clip(home / 'A')
    assert {frames[0].shape for frames in clip.frames.values()} == {(18, 32, 3)}
    numbers = read_episode(home / 'A')
    assert (numbers.steps, numbers.end_reason, numbers.slot) == (8, 'stopped', 'A')
    with np.load(home / 'A' / 'steps.npz') as arrays:
        np.testing.assert_allclose(arrays['q_sent'], tracks.steps.q_sent)
    bad = {finding.what for finding in check(home / 'A').findings if finding.level != 'ok'}
    assert not bad & {'bag', 'topics', 'decoding', 'stamps', 'episode.json', 'steps.npz'}


def test_an_audit_and_a_scene_match(home):
    [path] = audits_of(home / 'A')
    assert read_audit(path).phi == (0.0, 0.5, 0.25)
    match = parse_scene_match((home / 'A' / SCENE_MATCH_FILE).read_bytes(), 'it')
    assert (match.match, match.views['wrist_left']) == (0.5, 0.75)


def test_a_session_and_its_journal_say_the_same(home):
    session = read_session(home / 'station')
    record = replay(read_journal(home / 'station' / JOURNAL))
    assert (record.session_id, record.verdict) == (session.session_id, session.verdict)
    assert (session.prompt, session.state, session.verified) == (TASK, 'done', True)
    assert session.comparison().preference is Preference.A
    assert session.progress('A') == session.verdict.of_slot('progress', Slot.A) > 0.3


def test_a_database_is_opened_and_shows_its_session(home, tmp_path):
    shutil.copyfile(home / 'arena.db', tmp_path / 'arena.db')
    with Database(f'sqlite:///{tmp_path}/arena.db', seal_of(home / 'secrets.key')) as database:
        [evaluation] = Browse(database).page(Filter()).evaluations
        session = read_session(home / 'station')
        assert (evaluation.id, evaluation.verdict) == (session.session_id, session.verdict)
        assert evaluation.counts
        assert {policy.address for policy in Policies(database, SystemClock()).list()} == {
            'grpc://127.0.0.1:9'}
        export_tables(database, tmp_path / 'tables')
    made = read_folder(tmp_path / 'tables')
    assert {session.robot for session in made.sessions} == {'fr3'}    # 0.1.0 did not write it
    assert dataclasses.replace(made, sessions=tuple(
        dataclasses.replace(session, robot='') for session in made.sessions)) == read_folder(
            home / 'tables')


def test_tables_hold_the_session(home):
    [session] = read_folder(home / 'tables').sessions
    record = read_session(home / 'station')
    assert (session.session_id, session.preference) == (record.session_id, Preference.A)
    assert {slot: run.progress for slot, run in session.slots().items()} == {
        slot: record.progress(slot) for slot in 'AB'}


def test_a_log_is_verified_with_the_receipt_of_its_station(home):
    receipt = json.loads((home / 'station' / RECEIPT_FILE).read_text(encoding='utf-8'))
    bundle = check_bundle(json.loads((home / 'log.json').read_text(encoding='utf-8')),
                          receipts=[receipt], sessions=[read_session(home / 'station')])
    assert len(bundle.comparisons) == 1


def test_a_message_of_each_type_says_what_it_said(home):
    kinds = {kind.full_name: GetMessageClass(kind) for service in (
        arena_policy_pb2, arena_server_pb2)
        for kind in service.DESCRIPTOR.message_types_by_name.values()}
    stored = json.loads((home / 'wire.json').read_text(encoding='utf-8'))
    assert len(stored) > 40
    for name, message in stored.items():
        decoded = kinds[name].FromString(base64.b64decode(message['bytes']))
        assert MessageToDict(decoded, preserving_proto_field_name=True) == message['says'], name
