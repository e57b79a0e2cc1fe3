"""
What recording costs and what it loses: six 1280x720 JPEG streams at 15 Hz and state at 200 Hz.

First the same messages are written to disk as fast as they go, by our bag writer and by that of
``rosbags``: MB/s is size over CPU time of the one process, `kill -9` the share of messages that
is left when the process dies just before the end. Then recorder_node records an episode's worth
live, published by another process over Fast DDS; `reported` is what it says it lost.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import rosbags.rosbag2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag.base import Message, Topic, share_folders, split
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import recover
from arena_robot.recording.bag.writer import BagWriter

TESTS = str(Path(__file__).parents[1] / 'test')
sys.path.insert(0, TESTS)

from sample_episodes import SampleEpisode, SampleMaker  # noqa: E402

SECONDS = 27
LIVE_S = 27
FLUSH_NS = 500_000_000
MB = 1e6


def messages() -> tuple[dict[str, Topic], list[Message]]:
    """One second of real pictures, repeated: making 2400 of them would take longer than this."""
    short = SampleMaker(SampleEpisode(steps=15, width=1280, height=720))
    topics, one = short.topics(), list(short.messages())
    found = []
    for second in range(SECONDS):
        shift = second * 10**9
        found += [m._replace(log_ns=m.log_ns + shift, publish_ns=m.publish_ns + shift,
                             sequence=m.sequence + second * 200) for m in one]
    return topics, sorted(found, key=lambda m: m.log_ns)


def write_ours(folder: Path, topics: dict[str, Topic], data: Iterable[Message]) -> None:
    with BagWriter(folder) as bag:
        for topic in topics.values():
            bag.add_topic(topic)
        flush_ns = 0
        for message in data:
            bag.write(message)
            if message.log_ns >= flush_ns:
                bag.flush()
                flush_ns = message.log_ns + FLUSH_NS


def write_theirs(folder: Path, topics: dict[str, Topic], data: Iterable[Message]) -> None:
    store = get_typestore(Stores.ROS2_JAZZY)
    for topic in topics.values():
        for name, text in split(topic.type, topic.definition).items():
            if name not in store.fielddefs:
                store.register(get_types_from_msg(text, name))
    with rosbags.rosbag2.Writer(folder, version=9,
                                storage_plugin=rosbags.rosbag2.StoragePlugin.MCAP) as bag:
        known = {t.name: bag.add_connection(t.name, t.type, typestore=store)
                 for t in topics.values()}
        for message in data:
            bag.write(known[message.topic], message.log_ns, message.data)


Write = Callable[[Path, dict[str, Topic], Iterable[Message]], None]


def measure(write: Write, home: Path, topics: dict[str, Topic], data: list[Message]) -> str:
    folder = home / 'bag'
    wall, cpu = time.perf_counter(), time.process_time()
    write(folder, topics, data)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    size = sum(p.stat().st_size for p in folder.glob('*.mcap')) / MB
    with rosbags.rosbag2.Reader(folder) as bag:
        lost = len(data) - bag.message_count
    left = killed(write, home, topics, data)
    return (f'{size / cpu:9.0f} {size / wall:9.0f} {cpu:8.2f} {100 * cpu / SECONDS:8.1f} '
            f'{size:8.0f} {lost:6d} {left:>10}')


def killed(write: Write, home: Path, topics: dict[str, Topic], data: list[Message]) -> str:
    """Write in a child that kills itself before the last message; return what can be read."""
    folder = home / 'killed'
    child = os.fork()
    if child == 0:
        write(folder, topics, suicide(data))
        os._exit(0)
    os.waitpid(child, 0)
    try:
        kept = recover(folder, home / 'saved').messages
    except RecordingError:
        kept = 0
    return f'{100 * kept / len(data):.1f} %'


def suicide(data: list[Message]) -> Iterable[Message]:
    yield from data[:-1]
    os.kill(os.getpid(), signal.SIGKILL)


PUBLISHER = """
import sys, time
import rclpy
from rclpy.qos import QoSProfile
from arena_robot.nodes.lib.endpoints import message_class
from arena_robot.nodes.lib.spin import Spin
from sample_episodes import SampleEpisode, SampleMaker
prefix, seconds = sys.argv[1], int(sys.argv[2])
maker = SampleMaker(SampleEpisode(steps=15, width=1280, height=720))
topics, one = maker.topics(), list(maker.messages())
with Spin() as spin:
    node = rclpy.create_node('load', namespace=prefix, context=spin.context)
    out = {n: node.create_publisher(message_class(t.type), n[1:], QoSProfile(depth=50))
           for n, t in topics.items()}
    print('ready', flush=True)
    sys.stdin.readline()
    begin, count = time.monotonic(), 0
    for second in range(seconds):
        for m in one:
            due = begin + second + (m.log_ns - one[0].log_ns) * 1e-9
            time.sleep(max(0.0, due - time.monotonic()))
            out[m.topic].publish(m.data)
            count += 1
    print(count, flush=True)
    sys.stdin.readline()
    node.destroy_node()
"""


def live(home: Path) -> str:
    """Record from another process; return a line of results."""
    prefix = f'bench_{uuid.uuid4().hex[:6]}'
    recorder = subprocess.Popen(
        [sys.executable, '-m', 'arena_robot.nodes.recorder.node', '--ros-args', '-r',
         f'__ns:=/{prefix}', '-p', f"topics:=['/{prefix}/.*']", '-p', f'output_dir:={home}', '-p',
         'derive:=false', '-p', 'min_free_disk:=0.0', '--log-level', 'error'])
    load = subprocess.Popen([sys.executable, '-c', PUBLISHER, f'/{prefix}', str(LIVE_S)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, 'PYTHONPATH': TESTS})
    assert load.stdin is not None
    assert load.stdout is not None
    load.stdout.readline()
    caller = Caller(prefix)
    caller.start()
    before = cpu_s(recorder.pid)
    load.stdin.write('\n')
    load.stdin.flush()
    sent = int(load.stdout.readline())
    cpu = cpu_s(recorder.pid) - before
    caller.stop()
    load.communicate('\n', timeout=10)
    recorder.send_signal(signal.SIGINT)
    recorder.wait(timeout=20)
    with BagReader(home / 'bench' / 'A') as bag:
        kept = sum(n for t, n in bag.metadata.counts.items() if 'recorder_node' not in t)
        size = sum(p.stat().st_size for p in bag.folder.glob('*.mcap')) / MB
        lost = sum(t['lost'] for t in json.loads(bag.metadata.custom['statistics']).values())
    return (f'{LIVE_S:6d} {sent:8d} {kept:8d} {sent - kept:6d} {lost:9d} {size / LIVE_S:8.1f} '
            f'{100 * cpu / LIVE_S:8.1f}')


class Caller:
    """Starts and stops a recorder."""

    def __init__(self, prefix: str) -> None:
        from rclpy.node import Node

        from arena_msgs.srv import StartRecording, StopRecording
        from arena_robot.nodes.lib.spin import Spin
        self.spin = Spin()
        self.spin.__enter__()
        self.node = Node('caller', namespace=f'/{prefix}', context=self.spin.context)
        self.spin.add(self.node)
        self.kinds = {'start': StartRecording, 'stop': StopRecording}
        self.clients = {n: self.node.create_client(k, f'recorder_node/{n}')
                        for n, k in self.kinds.items()}
        for client in self.clients.values():
            assert client.wait_for_service(20.0), 'the recorder does not come up'
        time.sleep(2.0)

    def start(self) -> None:
        self.call('start', session_id='bench', slot='A')

    def stop(self) -> None:
        self.call('stop', end_reason='done', detail='')
        self.spin.close()

    def call(self, name: str, **fields: str) -> None:
        for _ in range(3):
            future = self.clients[name].call_async(self.kinds[name].Request(**fields))
            end = time.monotonic() + 10.0
            while not future.done() and time.monotonic() < end:
                time.sleep(0.01)
            if future.done():
                assert future.result().success, future.result().message
                return
        raise AssertionError(f'no answer from {name}')


def cpu_s(pid: int) -> float:
    words = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


def main() -> None:
    if not share_folders():
        print('skipped: the .msg files of ROS are not found; run make setup')
        return
    topics, data = messages()
    size = sum(len(m.data) for m in data) / MB
    print(f'{len(data)} messages of {len(topics)} topics, {size:.0f} MB, {SECONDS} s\n')
    print(f"{'writer':10} {'MB/s CPU':>9} {'MB/s wall':>9} {'CPU s':>8} {'CPU %':>8} {'MB':>8} "
          f"{'lost':>6} {'kill -9':>10}")
    for name, write in (('arena', write_ours), ('rosbags', write_theirs)):
        with tempfile.TemporaryDirectory() as home:
            print(f'{name:10} {measure(write, Path(home), topics, data)}')
    print(f"\nrecorder_node, live\n{'s':>6} {'sent':>8} {'kept':>8} {'lost':>6} "
          f"{'reported':>9} {'MB/s':>8} {'CPU %':>8}")
    with tempfile.TemporaryDirectory() as home:
        print(live(Path(home)))


if __name__ == '__main__':
    main()
