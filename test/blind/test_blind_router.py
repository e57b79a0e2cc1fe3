"""What passes through the router of a blind study, and when; on real sockets."""

import contextlib
import dataclasses
import socket
import threading

import msgpack
import numpy as np
import pytest
from blind_rig import INSTRUCTION, SEEN, SPEC, Lab, Numbered, number_of, study
from waiting import until
from websockets.sync.client import connect as websocket
from websockets.sync.server import serve

from arena_robot.blind.arms import common_metadata, common_spec
from arena_robot.blind.clips import TrialClips, pictures_of_call, pictures_of_frame
from arena_robot.blind.study import Design
from arena_robot.blind.trials import read_study
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, PolicyEnded, PolicyError, PolicyRefused
from arena_robot.core.jpeg import to_jpeg
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.connect import connect
from arena_robot.policy.openpi.wire import pack
from arena_robot.policy.options import CallOptions
from arena_robot.recording.episode.frames import timed_frames

CLIENTS = [('grpc', CallOptions()), ('grpc', CallOptions(stream=True)), ('openpi', CallOptions())]
every_client = pytest.mark.parametrize(('protocol', 'options'), CLIENTS,
                                       ids=['grpc', 'grpc-stream', 'openpi'])


@pytest.fixture
def lab(tmp_path):
    with Lab(tmp_path, {'one': ('openpi', Numbered(1)), 'two': ('grpc', Numbered(2))}) as made:
        yield made


@every_client
def test_queries_reach_the_policy_on_turn_and_only_in_a_trial(lab, protocol, options):
    with connect(lab.address(protocol), options) as robot:
        for _ in range(4):
            with pytest.raises(PolicyRefused, match='press Start'):
                robot.infer(SEEN, 'e')
            mine = lab.on_turn()
            lab.press('start')
            assert number_of(robot.infer(SEEN, 'e')) == mine.number
            robot.reset('e')
            lab.press('end')
            with pytest.raises(PolicyRefused, match='the trial has ended'):
                robot.infer(SEEN, 'e')
            robot.reset('e')    # after a trial there is nothing to forget
            if lab.press('score', success=True) == 'judging':
                lab.press('judge', preference='TIE')
    asked = [len(policy.episodes) for policy in lab.policies.values()]
    assert asked == [2, 2]
    assert [policy.resets.count('e') for policy in lab.policies.values()] == [2, 2]
    assert 'the robot asked for an action and got an error' in lab.told[0]


def test_frames_are_passed_on_byte_for_byte(tmp_path):
    """A robot that nobody knows: text, five numbers, no picture, no metadata."""
    seen, reply = [], msgpack.packb({'actions': [[0.5] * 3], 'policy_timing': {'infer_ms': 3.0}})

    def answer(connection):
        connection.send(msgpack.packb({}))
        for frame in connection:
            seen.append(frame)
            connection.send(reply)

    with serve(answer, '127.0.0.1', 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f'openpi://127.0.0.1:{server.socket.getsockname()[1]}'
        with Lab(tmp_path, {}, addresses={'one': address, 'two': address}) as lab:
            assert 'does not say its action space' in lab.pool.why_no_spec
            lab.press('start')
            with websocket(f"ws://127.0.0.1:{lab.ports['openpi and RoboArena']}", compression=None,
                           legacy=True) as robot:
                assert msgpack.unpackb(robot.recv()) == {}
                frame = msgpack.packb({'state': [1.0] * 5, 'big': b'x' * 300_000})
                robot.send(frame)
                assert (robot.recv(), seen) == (reply, [frame])
        server.shutdown()
        thread.join(5.0)


def asking(robot, caught):
    """Return a function that asks for a chunk, and keeps the error that comes."""
    def ask():
        try:
            robot.infer(SEEN, 'e')
        except PolicyError as error:
            caught.append(error)
    return ask


@every_client
def test_a_reply_after_the_end_is_dropped(lab, protocol, options):
    lab.press('start')
    mine, caught = lab.on_turn(), []
    mine.may.clear()
    with connect(lab.address(protocol), options) as robot:
        thread = threading.Thread(target=asking(robot, caught))
        thread.start()
        assert mine.asked.acquire(timeout=20.0)
        lab.press('end')
        mine.may.set()
        thread.join(20.0)
    assert isinstance(caught[0], PolicyRefused)
    assert 'its reply was dropped' in str(caught[0])


@every_client
def test_the_next_trial_does_not_wait_for_a_reply_that_was_dropped(lab, protocol, options):
    """The same policy is on turn again while it still answers a query of the trial before."""
    lab.press('start')
    mine = lab.on_turn()
    mine.may.clear()
    with connect(lab.address(protocol), options) as robot:
        thread = threading.Thread(target=asking(robot, []))
        thread.start()
        assert mine.asked.acquire(timeout=20.0)
        lab.press('void', reason='the table was bumped')
        assert lab.press('start') == 'running'
        assert lab.on_turn() is mine
        mine.may.set()
        thread.join(20.0)
    with connect(lab.address(protocol), options) as robot:
        lab.clock.advance_ns(11 * 10**9)
        assert number_of(robot.infer(SEEN, 'e')) == mine.number


@every_client
def test_a_takeover_eight_actions_into_a_chunk(lab, protocol, options):
    """The client may finish its chunk; nothing more passes, and the intervention is counted."""
    lab.press('start')
    with connect(lab.address(protocol), options) as robot:
        arm = ChunkExecutor(robot)
        steps = [arm.step(SEEN, 'e') for _ in range(8)]
        lab.press('pause')
        lab.clock.advance_ns(3 * 10**9)
        steps += [arm.step(SEEN, 'e') for _ in range(2)]
        with pytest.raises(PolicyRefused, match='a person has taken over'):
            arm.step(SEEN, 'e')
        lab.press('resume')
        arm.step(SEEN, 'e')
    assert len(steps) == 10
    assert len(lab.on_turn().episodes) == 2
    lab.press('end')
    lab.press('score', success=False)
    result = read_study(lab.folder).results[0]
    assert (result.interventions, result.intervention_s) == (1, 3.0)


@every_client
@pytest.mark.parametrize('dies', ['raises', 'is gone'])
def test_a_policy_that_dies_makes_its_trial_void(lab, protocol, options, dies):
    lab.run_trial()
    lab.press('start')
    mine, other = lab.on_turn(), next(p for p in lab.policies.values() if p is not lab.on_turn())
    before = len(other.episodes), len(other.resets)
    with connect(lab.address(protocol), options) as robot:
        robot.infer(SEEN, 'e')
        if dies == 'raises':
            mine.fails = True
        else:
            lab.servers[lab.desk.trial.arm].close()
        with pytest.raises((PolicyError, PolicyEnded)) as caught:
            robot.infer(SEEN, 'e')
    assert 'checkpoint' not in str(caught.value)
    assert lab.servers[lab.desk.trial.arm].address not in str(caught.value)
    shown = lab.desk.shown()
    assert (shown['phase'], shown['trial'], shown['attempt']) == ('ready', 2, 2)
    assert 'this trial is void' in shown['notice']
    assert shown['notice'] in lab.told
    assert (len(other.episodes), len(other.resets)) == before
    results = read_study(lab.folder).results
    assert [bool(result.void) for result in results] == [False, True]
    if dies == 'is gone':
        with pytest.raises(PolicyError, match='nothing was started'):
            lab.press('start')
        assert lab.desk.state.phase.value == 'ready'


@every_client
def test_two_robots_on_one_trial(lab, protocol, options):
    lab.press('start')
    with connect(lab.address(protocol), options) as first, \
            connect(lab.address(protocol), options) as second:
        first.infer(SEEN, 'e')
        with pytest.raises(PolicyRefused, match='another robot'):
            second.infer(SEEN, 'e')
        assert 'a second robot' in lab.desk.notice
        first.infer(SEEN, 'e')
    assert len(lab.on_turn().episodes) == 2


@every_client
def test_a_robot_that_connects_again_in_its_trial(lab, protocol, options):
    lab.press('start')
    with connect(lab.address(protocol), options) as robot:
        robot.infer(SEEN, 'e')
    until(lambda: lab.desk._gone, 'the end of the connection')
    with connect(lab.address(protocol), options) as robot:
        assert number_of(robot.infer(SEEN, 'e')) == lab.on_turn().number
    assert 'connected again' in lab.desk.notice


def test_a_caller_of_another_protocol_is_told(lab):
    import urllib.error
    import urllib.request
    port = lab.ports['openpi and RoboArena']
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f'http://127.0.0.1:{port}/act', timeout=10.0)
    with caught.value:
        assert caught.value.code == 426
        assert b'websocket protocol of openpi' in caught.value.read()
    assert 'over HTTP' in lab.desk.notice


@every_client
def test_each_address_speaks_every_protocol(lab, protocol, options):
    """A program that calls the other one of both ports is served as at its own."""
    other = {'openpi': 'gRPC', 'grpc': 'openpi and RoboArena'}[protocol]
    address = f'{protocol}://127.0.0.1:{lab.ports[other]}'
    lab.press('start')
    with connect(address, options) as robot, connect(address, options) as second:
        assert number_of(robot.infer(SEEN, 'e')) == lab.on_turn().number
        with pytest.raises(PolicyRefused, match='another robot'):
            second.infer(SEEN, 'e')


def test_a_program_that_cannot_be_served_over_grpc_is_told_on_page_and_terminal(tmp_path):
    def answer(connection):
        connection.send(msgpack.packb({}))
        for _ in connection:
            pass

    with serve(answer, '127.0.0.1', 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f'openpi://127.0.0.1:{server.socket.getsockname()[1]}'
        with Lab(tmp_path, {}, addresses={'one': address, 'two': address}) as lab:
            assert 'gRPC' not in lab.router.addresses
            port = lab.ports['openpi and RoboArena']
            with pytest.raises(PolicyError, match='does not say its action space'):
                connect(f'grpc://127.0.0.1:{port}')
            assert 'over gRPC and got an error' in lab.desk.shown()['notice']
            assert lab.told == [lab.desk.notice]
            assert address.partition('//')[2] not in lab.desk.notice
        server.shutdown()
        thread.join(5.0)


def test_a_caller_that_says_nothing_is_let_go(lab, monkeypatch):
    monkeypatch.setattr('arena_robot.policy.openpi.passing.FIRST_S', 0.2)
    with socket.create_connection(('127.0.0.1', int(lab.ports['gRPC'])), 10.0) as caller:
        caller.settimeout(10.0)
        with contextlib.suppress(ConnectionResetError):
            assert caller.recv(1) == b''


def test_an_unknown_protocol_is_refused_before_the_study(tmp_path):
    with pytest.raises(ConfigError, match="unknown protocol 'zmq'"), Lab(
            tmp_path, {}, addresses={'one': 'zmq://h:1', 'two': 'zmq://h:2'}):
        pass


def test_metadata_that_would_tell_policies_apart_is_left_out():
    droid = {'image_resolution': [224, 224], 'action_space': 'joint_velocity'}
    assert common_metadata([{**droid, 'checkpoint': 'pi0', 'rate': 15},
                            {**droid, 'checkpoint': 'pi05', 'rate': 15, 'more': 1}]) == {
        **droid, 'rate': 15}
    assert common_metadata([{}, droid]) == droid, 'openpi says nothing of itself'
    assert common_metadata([{'needs_session_id': False}, {'needs_session_id': True}]) == {
        'needs_session_id': True}
    with pytest.raises(ConfigError, match='differ in action_space'):
        common_metadata([droid, {**droid, 'action_space': 'joint_position'}])


def test_a_spec_for_all_policies():
    one, two = PolicySpec(chunk_length=8, warm_up=3), PolicySpec(session_id=True)
    both = common_spec([one, two])
    assert (both.chunk_length, both.warm_up, both.session_id) == (0, 3, True)
    with pytest.raises(ConfigError, match='differ in open_loop_horizon'):
        common_spec([one, PolicySpec(chunk_length=8, open_loop_horizon=4)])


def test_a_trial_begins_with_a_policy_that_has_forgotten_the_one_before(tmp_path):
    """Episodes of frames that name none are others in each trial, whatever the robot sends."""
    episodes, plain = [], dataclasses.replace(SPEC, session_id=False)
    policies = {'one': ('openpi', Numbered(1, plain)), 'two': ('grpc', Numbered(2, plain))}
    with Lab(tmp_path, policies) as lab, connect(lab.address('openpi')) as robot:
        for _ in range(4):
            lab.press('start')
            robot.infer(SEEN, 'e')
            episodes.append((lab.on_turn().number, lab.on_turn().episodes[-1]))
            lab.press('end')
            if lab.press('score', success=True) == 'judging':
                lab.press('judge', preference='B')
    assert len({(policy, episode) for policy, episode in episodes}) == 4


def test_three_policies_at_fixed_tasks(tmp_path):
    policies = {name: ('openpi', Numbered(k)) for k, name in enumerate('abc')}
    plan = study(*policies, design=Design.TASK_LIST, rounds=1)
    with Lab(tmp_path, policies, plan) as lab, connect(lab.address('openpi')) as robot:
        found = []
        for _ in range(3):
            lab.press('start')
            found.append(number_of(robot.infer(SEEN, 'e')))
            assert lab.press('end') == 'scoring'
            lab.press('score', success=False)
        assert lab.desk.state.phase.value == 'done'
        assert sorted(found) == [0.0, 1.0, 2.0]


def test_the_instruction_is_what_the_page_shows(lab):
    assert lab.desk.shown()['instruction'] == INSTRUCTION
    assert np.array_equal(SPEC.image_size, (24, 32))


def ask(lab, robot, times):
    for _ in range(times):
        lab.clock.advance_ns(10**8)
        robot.infer(SEEN, 'e')


@every_client
def test_each_trial_has_a_video_of_its_pictures(lab, protocol, options):
    """Also of a void attempt, and where the end was taken back; its name tells no policy."""
    with connect(lab.address(protocol), options) as robot:
        lab.press('start')
        ask(lab, robot, 3)
        lab.press('void', reason='the table was bumped')
        lab.press('start')
        ask(lab, robot, 5)
        lab.press('end')
        until(lambda: lab.desk.shown()['clips'] == {'A': 'clips/1-2.mp4'}, 'the first video')
        # The robot has moved since the start, so that only the end can be taken back.
        lab.press('undo')
        ask(lab, robot, 4)
        lab.press('end')
        lab.press('score', success=True)
        lab.press('start')
        ask(lab, robot, 1)
        lab.press('end')
        lab.press('score', success=False)
        until(lambda: len(lab.desk.shown()['clips']) == 2, 'both videos of the block')
        lab.press('judge', preference='A')
    lab.clips.close()
    kept = [result.clip for result in read_study(lab.folder).results]
    assert kept == ['clips/1.mp4', 'clips/1-2.mp4', 'clips/2.mp4']
    videos = [list(timed_frames(lab.folder / clip)) for clip in kept]
    assert [len(video) for video in videos] == [3, 9, 1]
    wide = sum(image.pixels.shape[1] for image in SEEN.images.values())
    assert videos[0][0][2].shape == (24, wide, 3)
    seconds = [1e-9 * stamp_ns for _, stamp_ns, _ in videos[1]]
    assert seconds == pytest.approx([0, .1, .2, .3, .4, 1.4, 1.5, 1.6, 1.7], abs=1e-3)


RED = np.broadcast_to(np.array([255, 0, 0], np.uint8), (240, 320, 3))
SHOWN = {'array': RED, 'channels first': RED.transpose(2, 0, 1), 'history': np.stack([RED, RED]),
         'from 0 to 1': (RED / 255.0).astype(np.float32), 'JPEG': to_jpeg(RED)}


@pytest.mark.parametrize('name', SHOWN)
def test_pictures_of_any_robot_are_found(name):
    query = {'state': np.zeros((50, 8)), 'images': {'cam': SHOWN[name]}, 'prompt': 'x',
             'mask': np.ones((240, 320), bool), 'points': np.zeros((20, 3, 3))}
    (where, picture), = pictures_of_frame(pack(query)).items()
    assert where == '/images/cam'
    assert picture.shape == (240, 320, 3)
    assert np.abs(picture.astype(int) - RED).max() < 3


DAMAGED = {'no msgpack': b'\xc1' * 900, 'a cut JPEG': msgpack.packb({'image': to_jpeg(RED)[:700]}),
           'a wrong shape': msgpack.packb({'image': {
               b'__ndarray__': True, b'data': b'123', b'dtype': '|u1', b'shape': [9, 9, 3]}}),
           'a text': 'hello', 'no picture': msgpack.packb({'state': [1.0] * 9})}


def test_damaged_pictures_disturb_neither_the_trial_nor_its_video(tmp_path):
    policies = {name: ('openpi', Numbered(k)) for k, name in enumerate(('one', 'two'))}
    (tmp_path / 'clips').mkdir()
    (tmp_path / 'clips' / '.1.mp4.99-0f.tmp').write_bytes(b'of a router that was killed')
    clips = TrialClips(tmp_path, ManualClock(1), print)
    with clips:
        for number, query in enumerate([*DAMAGED.values(), pack({'image': RED}),
                                        *DAMAGED.values()]):
            clips._clock.advance_ns(10**8)
            clips.add('1', query, pictures_of_frame)
            clips.add('2', DAMAGED['a text'], pictures_of_frame)    # sooner than is looked at
            assert number < 20
            clips._clock.advance_ns(10**8)
            clips.add('1', b'no request', pictures_of_call)
        clips.end('1')
    frame, = timed_frames(tmp_path / clips.clip('1'))
    assert frame[2].shape == (240, 320, 3)
    assert clips.clip('2') == ''
    assert not list((tmp_path / 'clips').glob('.*'))
    with Lab(tmp_path, policies) as lab, connect(lab.address('openpi')) as robot:
        (lab.folder / 'clips').write_text('a file where the folder should be')
        lab.press('start')
        ask(lab, robot, 3)
        until(lambda: any('no video of trial 1' in text for text in lab.told), lab.told)
        ask(lab, robot, 1)
        lab.press('end')
        lab.press('score', success=True)
        assert read_study(lab.folder).results[0].clip == ''


def test_queries_that_wait_for_their_video_take_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr('arena_robot.blind.clips.MOST_WAITING', 10_000)
    clock = ManualClock(1)
    clips = TrialClips(tmp_path, clock, print)    # not open: nothing is written
    for _ in range(50):
        clock.advance_ns(10**8)
        clips.add('1', b'x' * 1000, pictures_of_frame)
    assert clips._waiting.qsize() == 11


def test_a_full_disk_ends_the_video_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr('arena_robot.blind.clips.LEAST_FREE', 1 << 60)
    clock, told = ManualClock(10**9), []
    with TrialClips(tmp_path, clock, told.append) as clips:
        clips.add('1', pack({'image': RED}), pictures_of_frame)
    assert 'less than 1 GiB free' in told[0]
    assert clips.clip('1') == ''
