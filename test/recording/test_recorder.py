"""The recorder keeps everything it is handed, counts what it cannot, and survives its disk."""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import namedtuple
from dataclasses import replace

import pytest
from waiting import until

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag import recorder as module
from arena_robot.recording.bag.base import Message, Qos, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recorder import BagRecorder, RecorderSettings
from arena_robot.recording.bag.salvage import salvage

TOPIC = Topic('/numbers', 'std_msgs/msg/UInt32', 'uint32 data\n', '', (Qos(),))
STATE = Topic('/state', 'std_msgs/msg/UInt32', 'uint32 data\n', '',
              (Qos(durability='transient_local'),))
STAMPED = 'std_msgs/Header header\nuint8[] data\n'
SETTINGS = RecorderSettings(min_free_bytes=0, reserve_bytes=0)


def number(k, topic=TOPIC, size=0):
    now = time.time_ns()
    return Message(topic.name, now, now, k, struct.pack('<HHI', 256, 0, k) + bytes(size))


def picture(topic, stamp_ns):
    stamp = struct.pack('<HHiI', 256, 0, *divmod(stamp_ns, 10**9))
    return Message(topic, time.time_ns(), stamp_ns, 0, stamp + bytes(20))


@pytest.fixture
def recorder():
    return BagRecorder(SETTINGS, SystemClock())


def test_what_several_threads_push_is_all_there(recorder, tmp_path):
    recorder.start(tmp_path / 'A', [TOPIC])
    threads = [threading.Thread(target=lambda: [recorder.push(number(k)) for k in range(2000)])
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bag, report = recorder.stop({'end_reason': 'done'})
    assert bag.message_count == 6000
    assert (report.topics[0].received, report.topics[0].written, report.topics[0].lost) \
        == (6000, 6000, 0)
    with BagReader(tmp_path / 'A') as reader:
        assert sorted(m.sequence for m in reader.messages()) == sorted(list(range(2000)) * 3)
        assert reader.metadata.custom['end_reason'] == 'done'
        counters = json.loads(reader.metadata.custom['statistics'])
        assert counters['/numbers']['written'] == 6000


def test_latched_messages_begin_the_file(recorder, tmp_path):
    early = number(7, STATE)
    recorder.start(tmp_path / 'A', [STATE, TOPIC], [early])
    recorder.push(number(1))
    recorder.stop()
    with BagReader(tmp_path / 'A') as reader:
        first, second = reader.messages()
        assert first.topic == '/state'
        assert first.log_ns >= early.log_ns
        assert first.publish_ns == early.publish_ns
        assert second.topic == '/numbers'


def test_a_topic_may_appear_late_and_a_file_may_be_split(recorder, tmp_path):
    recorder.start(tmp_path / 'A', [TOPIC])
    recorder.push(number(1))
    recorder.add_topic(STATE)
    recorder.push(number(2, STATE))
    assert recorder.split().name == 'A_1.mcap'
    recorder.push(number(3))
    bag, _ = recorder.stop()
    assert bag.counts == {'/numbers': 2, '/state': 2}
    assert [f.message_count for f in bag.files] == [2, 2]


def test_a_full_queue_is_counted_and_nobody_waits(tmp_path):
    recorder = BagRecorder(RecorderSettings(cache_bytes=5000, min_free_bytes=0, reserve_bytes=0),
                        SystemClock())
    recorder.start(tmp_path / 'A', [TOPIC])
    with recorder._bag_guard:
        for k in range(20):
            recorder.push(number(k, size=992))
    bag, report = recorder.stop()
    assert report.topics[0].received == 20
    assert report.topics[0].lost == 15
    assert bag.message_count == 5


def test_a_report_never_sees_a_list_of_topics_that_is_still_being_filled(tmp_path):
    recorder = BagRecorder(SETTINGS, ManualClock(time.time_ns()))
    seen = []

    def topics():
        for name in ('/a', '/b'):
            yield replace(TOPIC, name=name)
            seen.append(len(recorder.report().topics))

    recorder.start(tmp_path / 'A', topics())
    assert seen == [0, 0]
    assert len(recorder.stop()[1].topics) == 2


def test_pause_keeps_nothing_and_duration_leaves_it_out(tmp_path):
    clock = ManualClock(time.time_ns())
    recorder = BagRecorder(SETTINGS, clock)
    recorder.start(tmp_path / 'A', [TOPIC])
    recorder.push(number(1))
    clock.advance_ns(2_000_000_000)
    recorder.pause()
    assert recorder.is_paused
    recorder.push(number(2))
    clock.advance_ns(60_000_000_000)
    recorder.resume()
    clock.advance_ns(1_000_000_000)
    recorder.push(number(3))
    assert recorder.report().duration_s == 3.0
    bag, _ = recorder.stop()
    assert bag.message_count == 2
    assert not recorder.is_paused


def test_losses_on_the_way_are_counted_by_topic(recorder, tmp_path):
    recorder.start(tmp_path / 'A', [TOPIC])
    recorder.count_lost('/numbers', 3)
    recorder.count_lost('/nobody', 3)
    _, report = recorder.stop()
    assert report.topics[0].lost == 3


def test_skew_and_latency_are_measured_on_stamps(recorder, tmp_path):
    topics = [Topic(f'/cam{i}', 'sensor_msgs/msg/CompressedImage', STAMPED) for i in range(2)]
    recorder.start(tmp_path / 'A', topics)
    now = time.time_ns()
    recorder.push(picture('/cam0', now))
    recorder.push(picture('/cam1', now - 30_000_000))
    _, report = recorder.stop()
    assert report.max_skew_s == pytest.approx(0.03)
    assert report.topics[1].max_latency_s >= 0.03


def test_a_recording_in_the_way_is_named(recorder, tmp_path):
    recorder.start(tmp_path / 'A', [TOPIC])
    with pytest.raises(RecordingError, match='stop it first'):
        recorder.start(tmp_path / 'B', [TOPIC])
    recorder.stop()
    for call in (recorder.stop, recorder.split):
        with pytest.raises(RecordingError, match='nothing is being recorded'):
            call()
    with pytest.raises(RecordingError, match='never overwritten'):
        recorder.start(tmp_path / 'A', [TOPIC])
    assert not recorder.is_recording


def test_a_full_disk_is_refused_before_the_start(tmp_path):
    recorder = BagRecorder(RecorderSettings(min_free_bytes=2**62), SystemClock())
    with pytest.raises(RecordingError, match='GiB are free'):
        recorder.start(tmp_path / 'A', [TOPIC])
    assert not (tmp_path / 'A').exists()


def test_a_disk_that_fills_up_ends_the_recording_properly(tmp_path, monkeypatch):
    recorder = BagRecorder(RecorderSettings(min_free_bytes=0, reserve_bytes=100, flush_s=0.02),
                        SystemClock())
    recorder.start(tmp_path / 'A', [TOPIC])
    recorder.push(number(1))
    until(lambda: recorder.report().topics[0].written == 1)
    usage = namedtuple('usage', 'total used free')
    monkeypatch.setattr(module.shutil, 'disk_usage', lambda path: usage(1, 1, 50))
    until(lambda: 'nearly full' in recorder.report().problem)
    recorder.push(number(2))
    bag, report = recorder.stop()
    assert bag.message_count == 1
    assert report.topics[0].lost == 1


def test_a_disk_that_refuses_is_reported_and_the_rest_recoverable(tmp_path, monkeypatch):
    recorder = BagRecorder(RecorderSettings(min_free_bytes=0, reserve_bytes=0, flush_s=0.02),
                        SystemClock())
    recorder.start(tmp_path / 'A', [TOPIC])
    recorder.push(number(1))
    until(lambda: recorder.report().topics[0].written == 1)
    time.sleep(0.1)

    def refuse(file):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('arena_robot.recording.bag.mcap_file.os.fdatasync', refuse)
    recorder.push(number(2))
    until(lambda: 'No space left' in recorder.report().problem)
    with pytest.raises(RecordingError, match='No space left'):
        recorder.stop()
    assert not recorder.is_recording
    saved = [m for m in salvage(tmp_path / 'A' / 'A_0.mcap') if isinstance(m, Message)]
    assert saved[0].sequence == 1


VICTIM = """
import struct, sys, time
from dataclasses import replace
from pathlib import Path
from arena_robot.core.clock import SystemClock
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.recorder import BagRecorder, RecorderSettings
topic = Topic('/numbers', 'std_msgs/msg/UInt32', 'uint32 data')
recorder = BagRecorder(RecorderSettings(min_free_bytes=0), SystemClock())
recorder.start(Path(sys.argv[1]), [topic])
print('ready', flush=True)
for k in range(100000):
    now = time.time_ns()
    recorder.push(Message('/numbers', now, now, k, struct.pack('<HHI', 256, 0, k)))
    time.sleep(0.002)
"""


@pytest.mark.parametrize('after_s', [0.75, 1.4])
def test_a_killed_recorder_loses_less_than_a_second(tmp_path, after_s):
    victim = subprocess.Popen([sys.executable, '-c', VICTIM, str(tmp_path / 'A')],
                              stdout=subprocess.PIPE, env={**os.environ})
    assert victim.stdout is not None
    with victim.stdout:
        assert victim.stdout.readline() == b'ready\n'
        time.sleep(after_s)
        killed_ns = time.time_ns()
        victim.send_signal(signal.SIGKILL)
        victim.wait(timeout=10)
    saved = [m for m in salvage(tmp_path / 'A' / 'A_0.mcap') if isinstance(m, Message)]
    assert [m.sequence for m in saved] == list(range(len(saved)))
    assert killed_ns - saved[-1].log_ns < 1e9
