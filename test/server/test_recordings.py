"""A recording is opened before its session counts: what it must show, which shams are refused."""

import base64
import dataclasses
import shutil
import time
from collections import Counter

import cv2
import numpy as np
import pytest
from arena_setting import STATION, Setting, episode, recorded, roll
from sample_episodes import TICK_NS, SampleEpisode, SampleMaker, picture

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.jpeg import thumbnail
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.check import FindingLevel, check
from arena_robot.recording.episode.requery import compare, write_beside
from arena_robot.recording.episode.tracks import load_tracks
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.server.sessions.recorded_rollout import RolloutClaim, why_unproven
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation

STEPS, LENGTH = 32, 8
SESSION = SampleEpisode().session_id
START_NS = SampleEpisode().start_ns
SENT = {step: f'{step:064}' for step in range(0, STEPS, LENGTH)}


def given(made, steps=STEPS, late_ns=60_000_000):
    """Return what the relay would have seen of a sample's rollout."""
    rows = []
    for step in range(0, steps, LENGTH):
        actions = np.array([made._action(step + k) for k in range(LENGTH)], '<f4')
        rows.append([step, START_NS + step * TICK_NS + late_ns, 0.05, LENGTH,
                     base64.b64encode(actions.tobytes()).decode(), 8, 0, SENT[step], {
                         view: base64.b64encode(thumbnail(cv2.resize(picture(
                             step, view, 64, 36), (224, 224))).tobytes()).decode()
                         for view in ('left_left', 'wrist_left')}])
    return tuple(rows)


@pytest.fixture(scope='module')
def sample(tmp_path_factory):
    """Return the maker of a rollout that moves, the folder of its bag, and the claim of it."""
    made = SampleMaker(SampleEpisode(steps=STEPS, state_hz=15, width=64, height=36, sent=SENT))
    folder = tmp_path_factory.mktemp('sample') / 'A'
    made.write(folder)
    return made, folder, RolloutClaim(SESSION, 'A', STEPS, EndReason.STOPPED.value, False, 1.25,
                                      given(made))


def test_a_recording_of_the_rollout_proves_it(sample):
    _, folder, claim = sample
    assert why_unproven(folder, claim) == ''


@pytest.mark.parametrize(('changes', 'words'), [
    ({'session_id': 'another'}, 'is of slot A of session 6f0f'),
    ({'slot': 'B'}, 'is of slot A'),
    ({'steps': 31}, 'has 32 steps, the station said 31'),
    ({'max_pace': 0.5}, '32 steps are recorded within 2.1 s'),
])
def test_a_recording_that_is_not_of_the_rollout_does_not(sample, changes, words):
    _, folder, claim = sample
    assert words in why_unproven(folder, dataclasses.replace(claim, **changes))


def test_actions_in_a_layout_are_those_of_the_relay_and_need_not_be_those_of_the_steps(
        sample, tmp_path):
    _, _, claim = sample
    made = SampleMaker(SampleEpisode(steps=STEPS, state_hz=15, width=64, height=36, sent=SENT,
                                     layout='panda/percent'))
    made.write(tmp_path / 'A')
    assert '0 of 32 recorded requests' in why_unproven(tmp_path / 'A', claim)
    hundreds = tuple(
        [*row[:4], base64.b64encode((100 * np.frombuffer(base64.b64decode(row[4]), '<f4')
                                     ).astype('<f4').tobytes()).decode(), *row[5:]]
        for row in claim.made)
    assert why_unproven(tmp_path / 'A', dataclasses.replace(claim, made=hundreds)) == ''
    with BagReader(tmp_path / 'A') as bag:
        assert 'chunks' not in {f.what for f in check(tmp_path / 'A').findings
                                if f.level is FindingLevel.FAILURE}
        recorded = load_tracks(bag, Codec()).chunks
        assert {chunk.space for chunk in recorded} == {'panda/percent'}
        again = [compare(chunk, Chunk(chunk.actions, ActionSpace.JOINT_POSITION))
                 for chunk in recorded]
        write_beside(bag, Codec(), again, tmp_path / 'beside' / 'A')
    assert {chunk.arm_max for chunk in again} == {0.0}
    with BagReader(tmp_path / 'beside' / 'A') as bag:
        topics = Counter(message.topic for message in bag.messages())
    assert (topics['/requery/session_node/action_chunk'], topics['/requery/session_node/step']) \
        == (STEPS // LENGTH, 0)


def test_actions_and_times_are_those_of_the_relay(sample):
    made, folder, claim = sample
    nines = base64.b64encode(np.full(LENGTH * 8, 9, '<f4').tobytes()).decode()
    changed = tuple([*row[:4], nines, *row[5:]] if row[0] == 8 else row for row in claim.made)
    assert '24 of 32 recorded requests are what a station executes' in why_unproven(
        folder, dataclasses.replace(claim, made=changed))
    hurried = tuple((step, START_NS + 10**7 * step, *rest) for step, _, *rest in claim.made)
    assert why_unproven(folder, dataclasses.replace(claim, made=hurried)) == '', 'within 5 s'
    late = tuple((step, at + 10**9 * step, *rest) for step, at, *rest in claim.made)
    assert 'before their queries passed' in why_unproven(
        folder, dataclasses.replace(claim, made=late))
    old = given(made, late_ns=3600 * 10**9)
    assert 'before their queries passed' in why_unproven(
        folder, dataclasses.replace(claim, made=old))


def test_a_short_rollout_counts_only_when_it_was_done(tmp_path):
    made = SampleMaker(SampleEpisode(steps=9, state_hz=15, width=64, height=36, sent=SENT))
    made.write(tmp_path / 'A')
    claim = RolloutClaim(SESSION, 'A', 9, EndReason.TIMEOUT.value, False, 1.25, given(made, 9))
    assert 'below 10 steps or 2 s it says nothing' in why_unproven(tmp_path / 'A', claim)
    for fine in ({'end': EndReason.DONE.value},
                 {'end': EndReason.POLICY_ERROR.value, 'policy_failed': True}):
        assert why_unproven(tmp_path / 'A', dataclasses.replace(claim, **fine)) == ''


def test_pictures_change_where_the_arm_moves(sample, tmp_path, monkeypatch):
    made, _, claim = sample
    jpeg = made._jpeg(0, 'left_left')
    monkeypatch.setattr(made, '_jpeg', lambda k, view: jpeg)
    made.write(tmp_path / 'A')
    assert why_unproven(tmp_path / 'A', claim) == (
        'the arm moves in the recording, and no picture changes')


def test_observations_and_pictures_are_those_that_passed_the_relay(sample):
    _, folder, claim = sample

    def with_proof(column, value):
        return dataclasses.replace(claim, made=tuple(
            [*row[:column], value, *row[column + 1:]] if row[0] == 16 else row
            for row in claim.made))

    assert '1 of 4 recorded chunks answer another observation' in why_unproven(
        folder, with_proof(7, 64 * 'f'))
    another = {'left_left': claim.made[2][8]['wrist_left']}
    assert why_unproven(folder, with_proof(8, another)) == (
        'the picture left_left of step 16 is not the one that passed the relay')


def test_a_damaged_recording_proves_nothing(sample, tmp_path):
    _, folder, claim = sample
    shutil.copytree(folder, tmp_path / 'A')
    bag = tmp_path / 'A' / 'A_0.mcap'
    data = bytearray(bag.read_bytes())
    data[len(data) // 2] ^= 1
    bag.write_bytes(data)
    assert 'the recording cannot be read' in why_unproven(tmp_path / 'A', claim)
    bag.write_bytes(b'sixteen bytes 16')
    assert 'the recording cannot be read' in why_unproven(tmp_path / 'A', claim)


def sham(setting, arena, folder, bag=b'sixteen bytes 16', steps=1):
    """Judge a session of one query a slot and files that were made up."""
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        arena.policy(session_id, slot).infer(observation(), session_id)
        home = folder / session_id / slot.value
        home.mkdir(parents=True)
        (home / 'A_0.mcap').write_bytes(bag + slot.value.encode())
        (home / 'metadata.yaml').write_text('version: 9\n')
        write_episode(home, EpisodeFile(session_id, slot.value, PROMPT, steps=steps))
        arena.upload(session_id, dataclasses.replace(episode(session_id, slot), steps=steps), home)
    arena.feedback(session_id, VERDICT)
    return session_id


def test_sixteen_bytes_are_no_recording(setting, folder):
    arena = setting.arena()
    for _ in range(3):
        counts, why = arena.standing(sham(setting, arena, folder))
        assert counts is False
        assert 'the recording cannot be read' in why
    assert setting.server.results.comparisons() == []
    roll_all(setting, arena, folder)
    assert len(setting.server.results.comparisons()) == 1


def roll_all(setting, arena, folder):
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        roll(arena, session_id, slot, folder)
    arena.feedback(session_id, VERDICT)
    return session_id


def test_recordings_are_read_in_a_process_of_their_own(tmp_path, pool, folder):
    setting = Setting(tmp_path / 'server', '', pool, read=None)
    try:
        arena = setting.arena()
        sound, unsound = roll_all(setting, arena, folder), sham(setting, arena, folder)
        deadline = time.monotonic() + 120.0
        while 'being read' in (arena.standing(sound)[1] + arena.standing(unsound)[1]):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert arena.standing(sound) == (True, '')
        assert 'the recording cannot be read' in arena.standing(unsound)[1]
    finally:
        setting.close()


def timed(setting, arena, folder, session_id, slot, pause_s, steps):
    """Roll out a slot whose recording has the stamps of its queries."""
    begun_ns = time.time_ns()
    policy = arena.policy(session_id, slot)
    for step in range(0, steps, LENGTH):
        policy.infer(dataclasses.replace(observation(), step=step), session_id)
        time.sleep(pause_s)
    ending = dataclasses.replace(episode(session_id, slot), steps=steps)
    arena.upload(session_id, ending, recorded(
        folder / session_id / slot.value, session_id, slot, steps, begun_ns))


def test_a_session_takes_as_long_as_its_steps(tmp_path, pool, folder):
    """One query a slot says nothing of time; the verdict does."""
    setting = Setting(tmp_path / 'server', '', pool, max_pace=0.1)
    try:
        arena = setting.arena()
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        for slot in Slot:
            timed(setting, arena, folder, session_id, slot, 0.0, LENGTH)
        arena.feedback(session_id, VERDICT)
        assert '16 steps take 1.1 s' in arena.standing(session_id)[1]
    finally:
        setting.close()


def test_an_evaluator_runs_one_session_at_a_time(tmp_path, pool, folder):
    setting = Setting(tmp_path / 'server', '', pool, max_pace=1.25)
    try:
        arena = setting.arena()
        pair = [arena.assign(STATION, 'ada', PROMPT).session_id for _ in range(2)]
        for slot in Slot:
            for session_id in pair:
                timed(setting, arena, folder, session_id, slot, 0.7, 2 * LENGTH)
        for session_id in pair:
            arena.feedback(session_id, VERDICT)
        assert arena.standing(pair[0]) == (True, '')
        assert f'its evaluator ran session {pair[0]} in the same seconds' in arena.standing(
            pair[1])[1]
    finally:
        setting.close()
