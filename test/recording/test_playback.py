"""Playback keeps the recorded time, at any speed, from any place; asking again compares."""

import json
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sample_episodes import VIEWS, picture

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import DataError
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.playback import Pace, Playing, chosen_topics, play
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.requery import ask_again, compare, recorded_observations
from arena_robot.recording.episode.tracks import ChunkRecord, load_tracks
from arena_robot.reports.episode_audit import plot_chunks


class Jumping(Pace):
    """A pace that jumps to wherever somebody wants to wait for."""

    def __init__(self):
        super().__init__(monotonic_ns=lambda: 0)

    def sleep_until_ns(self, stamp_ns):
        self.begin(max(stamp_ns, self.now_ns()))
        return super().sleep_until_ns(stamp_ns)


def played(bag, playing, **options):
    pace, passed = Jumping(), []
    report = play(bag, playing, lambda m: passed.append((pace.now_ns(), m)), pace=pace, **options)
    return passed, report


def test_every_message_at_its_time(pristine):
    with BagReader(pristine) as bag:
        passed, report = played(bag, Playing())
        messages = list(bag.messages())
    assert [m for _, m in passed] == messages
    assert [at for at, _ in passed] == [m.log_ns for m in messages]
    assert report.counts == Counter(m.topic for m in messages)
    assert report.late_ms(100) == 0.0


def test_from_the_middle_the_latched_come_first(pristine):
    with BagReader(pristine) as bag:
        passed, _ = played(bag, Playing(start_s=1.0))
        start = bag.metadata.start_ns + 10**9
    assert passed[0][1].topic == '/session_node/episode_info'
    assert passed[0][1].log_ns < start
    assert all(m.log_ns >= start for _, m in passed[1:])
    assert passed[0][0] == start
    assert passed[1][0] < start + 10_000_000


def test_topics_are_chosen_by_expression(pristine):
    with BagReader(pristine) as bag:
        passed, _ = played(bag, Playing(topics=('/joint_.*', '/wrist/.*')))
        assert len(passed) == 400 + 60
        assert [t.name for t in chosen_topics(bag, Playing(topics=('/joint_states',)))] \
            == ['/joint_states']
        with pytest.raises(DataError, match='none of the'):
            played(bag, Playing(topics=('joint_states',)))
        with pytest.raises(DataError, match='rate must be'):
            played(bag, Playing(rate=0.0))


def test_it_can_be_held_up_and_ended(pristine):
    stop, seen = threading.Event(), []

    def wait(message):
        if message.topic != '/session_node/step':
            return False
        seen.append(message)
        if len(seen) == 3:
            stop.set()
        return True

    with BagReader(pristine) as bag:
        _, report = played(bag, Playing(), wait=wait, stop=stop)
    assert report.counts['/session_node/step'] == 3


@pytest.mark.parametrize('rate', [0.5, 1.0, 4.0])
def test_the_recorded_time_runs_at_a_rate_that_changes_and_stands_in_a_pause(rate):
    now = [0]
    pace = Pace(rate, monotonic_ns=lambda: now[0])
    pace.begin(1000)
    for steps, change, at in ((100, pace.pause, 1000 + 100 * rate),
                              (100, pace.resume, 1000 + 100 * rate),
                              (100, lambda: pace.set_rate(2.0), 1000 + 200 * rate),
                              (100, lambda: pace.seek(7000), 1200 + 200 * rate),
                              (10, pace.toggle, 7020)):
        now[0] += steps
        assert pace.now_ns() == at
        change()
    assert pace.paused
    assert pace.take_seek() == 7000
    assert pace.take_seek() is None


@pytest.mark.parametrize('paused', [False, True])
def test_a_seek_plays_on_from_there_with_what_was_latched_before(pristine, paused):
    pace, passed = Pace(100.0, paused), []
    with BagReader(pristine) as bag:
        start_ns = bag.metadata.start_ns
        threading.Timer(0.3, lambda: (pace.seek(start_ns + 10**9), pace.resume())).start()

        def publish(message):
            passed.append(message)
            if len(passed) == 40 and not paused:
                pace.pause()
        play(bag, Playing(), publish, pace=pace)
        rest = list(bag.messages(start_ns=start_ns + 10**9))
    began = 0 if paused else 40
    assert len(passed) == began + 1 + len(rest)
    assert passed[began].topic == '/session_node/episode_info'
    assert passed[began + 1:] == rest


def test_a_rate_is_taken_up_while_it_waits():
    pace, took = Pace(0.01), []
    pace.begin(0)
    threading.Timer(0.1, pace.set_rate, [100.0]).start()
    before_s = time.monotonic()
    took.append(pace.sleep_until_ns(10**9))
    assert took == [True]
    assert time.monotonic() - before_s < 5.0


def test_a_damaged_bag_is_named_while_it_plays(episode):
    path = next(episode.glob('*.mcap'))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with BagReader(episode) as bag, pytest.raises(Exception, match='is damaged'):
        played(bag, Playing())


def test_observations_are_those_the_policy_was_shown(pristine, maker):
    with BagReader(pristine) as bag:
        tracks = load_tracks(bag, Codec())
        asked = list(recorded_observations(bag, Codec(), tracks))
    assert [c.step for c, _ in asked] == [0, 8, 16, 24]
    for chunk, seen in asked:
        assert (seen.prompt, seen.step) == (maker.sample.prompt, chunk.step)
        assert seen.arm.q.tolist() == maker.q(seen.arm.stamp_ns)
        assert seen.gripper.position == maker.gripper(chunk.step)
        assert set(seen.images) == set(VIEWS)
        made = picture(chunk.step, 'wrist_left', 320, 180).astype(int)
        assert np.abs(seen.images['wrist_left'].pixels - made).mean() < 2.0


def test_the_same_policy_again_differs_by_nothing(pristine, maker, tmp_path):
    def ask(seen):
        actions = [[*maker._action(seen.step + j)] for j in range(8)]
        return Chunk(np.array(actions, np.float32), ActionSpace.JOINT_POSITION)

    with BagReader(pristine) as bag:
        compared = ask_again(bag, Codec(), ask)
    assert len(compared) == 4
    assert max(c.arm_max for c in compared) < 1e-6
    assert {c.gripper_share for c in compared} == {0.0}
    plot_chunks(compared, tmp_path / 'plots' / 'replay.png')
    assert (tmp_path / 'plots' / 'replay.png').stat().st_size > 10_000


def test_another_policy_differs_by_what_it_differs():
    record = ChunkRecord(0, 0, 'joint_position', np.zeros((4, 8)))
    actions = np.zeros((2, 8), np.float32)
    actions[1, 2], actions[:, 7] = 0.7, (0.9, 0.1)
    gap = compare(record, Chunk(actions, ActionSpace.JOINT_POSITION))
    assert gap.arm_max == pytest.approx(0.7)
    assert gap.arm_mean == pytest.approx(0.7 / 14)
    assert gap.gripper_share == 0.5
    with pytest.raises(DataError, match='cannot be compared'):
        compare(record, Chunk(np.zeros((2, 7), np.float32), ActionSpace.CARTESIAN_POSITION))


def test_plots_that_cannot_be_drawn_are_refused(tmp_path):
    with pytest.raises(DataError, match='nothing to plot'):
        plot_chunks([], tmp_path / 'x.png')
    compared = compare(ChunkRecord(0, 0, 'joint_position', np.zeros((1, 8))),
                       Chunk(np.zeros((1, 8), np.float32), ActionSpace.JOINT_POSITION))
    with pytest.raises(DataError, match=r'\.png or \.svg'):
        plot_chunks([compared], tmp_path / 'x.pdf')


def test_the_foxglove_layout_is_whole():
    text = (Path(__file__).parents[2] / 'config' / 'foxglove_layout.json').read_text()
    data = json.loads(text)
    panels = []

    def walk(node):
        if isinstance(node, str):
            panels.append(node)
        else:
            assert node['direction'] in ('row', 'column')
            walk(node['first'])
            walk(node['second'])

    walk(data['layout'])
    panels += [tab['layout'] for tab in data['configById']['Tab!words']['tabs']]
    assert sorted(panels) == sorted(data['configById'])
    fields = {name for name in ('q', 'q_sent', 'gripper_sent', 'loop_s') if f'.{name}' in text}
    assert len(fields) == 4
