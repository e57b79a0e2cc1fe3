"""A process whose port in shared memory was deleted or damaged ends, and says why."""

import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_shm import OWN_SHM, needs_own_shm

from arena_robot.nodes.lib import shared_memory
from arena_robot.nodes.lib.listener import Wakes
from arena_robot.nodes.lib.shared_memory import LOCK, PortWatch

NODE = """
import sys
from rclpy.node import Node
from std_msgs.msg import Empty
from arena_robot.nodes.lib import spin as shipped

def make(spin):
    node = Node('one', context=spin.context)
    node.create_subscription(Empty, 'topic', print, 1)
    print('started', flush=True)
    return node

shipped.PORT_LOOK_S = 0.3    # so that a test takes less than the seconds of three looks
sys.exit(shipped.run_node(make))
"""
HEARS = """
import subprocess, sys
from std_msgs.msg import Float64
from arena_robot.nodes.lib import qos, spin as shipped
from arena_robot.nodes.lib.listener import Listening

def make(spin):
    node = Listening('hears', context=spin.context)
    qos.subscription(node, Float64, 'numbers', hear, qos.SENSOR)
    return node

def hear(message, heard=[]):
    heard.append(message)
    if len(heard) == 3:    # the first ones may be lost
        print('started', flush=True)

with subprocess.Popen([sys.executable, '-c', sys.argv[1]]) as sender:
    ended = shipped.run_node(make)
    sender.kill()
sys.exit(ended)
"""
SENDS = """
import itertools
from rclpy.node import Node
from std_msgs.msg import Float64
from arena_robot.nodes.lib.spin import Spin
with Spin() as spin:
    sender = Node('sends', context=spin.context).create_publisher(Float64, 'numbers', 10)
    number = itertools.count()
    while not spin.wait(0.02):
        if sender.get_subscription_count():
            sender.publish(Float64(data=float(next(number))))
"""
CELLS = struct.Struct('<4I')    # of a port's ring: written, free, all, listeners


@pytest.fixture(params=[(NODE,)])
def node(request):
    with subprocess.Popen([*OWN_SHM, sys.executable, '-c', *request.param], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == 'started\n'
            process.home = Path(f'/proc/{process.pid}/root/dev/shm')
            yield process
        finally:
            process.kill()


def a_port(node):
    """Return a port in which a process listens."""
    files = [os.readlink(file) for file in Path(f'/proc/{node.pid}/fd').iterdir()]
    return min(match[1] for file in files if (match := LOCK.search(file)))


@needs_own_shm
def test_a_node_whose_port_is_deleted_ends_with_an_error(node):
    lost, watch = a_port(node), PortWatch(node.home, Path(f'/proc/{node.pid}'))
    assert watch.lost() == set()
    (node.home / lost).unlink()
    assert watch.lost() == {lost}
    assert node.wait(30) == 1
    said = node.stderr.read()
    assert f'its {lost} in shared memory was deleted' in said
    assert 'Traceback' not in said


@needs_own_shm
def test_a_port_that_another_process_has_made_in_its_place_is_lost_too(node):
    path = node.home / a_port(node)
    before = path.read_bytes()
    path.unlink()
    path.write_bytes(before)
    assert node.wait(30) == 1
    assert 'gets no requests' in node.stderr.read()


@needs_own_shm
def test_a_node_with_its_ports_stays_until_a_signal(node):
    assert a_port(node)
    time.sleep(1.5)    # more looks than it takes
    assert node.poll() is None
    node.send_signal(signal.SIGTERM)
    assert node.wait(30) == 0


def test_a_port_that_is_found_again_is_not_lost(monkeypatch):
    seen = iter([{'a'}, {'a', 'b'}, {'b'}, {'a', 'b'}, {'a', 'b'}, {'a'}])
    watch = PortWatch()
    monkeypatch.setattr(watch, 'lost', lambda: next(seen))
    assert [watch.look() for _ in range(6)] == [[], [], [], ['b'], ['b'], ['a']]


@needs_own_shm
def test_what_is_mapped_is_read_only_when_a_port_has_changed(node, monkeypatch):
    watch, read = PortWatch(node.home, Path(f'/proc/{node.pid}')), []
    mapped = shared_memory._mapped
    monkeypatch.setattr(shared_memory, '_mapped',
                        lambda process: read.append(1) or mapped(process))
    assert [watch.lost() for _ in range(3)] == [set()] * 3
    assert len(read) == 1
    (node.home / a_port(node)).unlink()
    assert watch.lost()
    assert len(read) == 2


def lose_a_cell(path):
    """Leave a port's ring as a killed writer may, never empty again; False for several readers."""
    with path.open('r+b') as file, mmap.mmap(file.fileno(), 0) as memory:
        for at in range(0, len(memory) - CELLS.size, 4):
            written, free, every, listeners = CELLS.unpack_from(memory, at)
            if every == 8192 and every - 8 < free <= every and listeners == 1:
                CELLS.pack_into(memory, at, written, every - 1, every, listeners)
                return True
    return False


@needs_own_shm
@pytest.mark.parametrize('node', [(HEARS, SENDS)], indirect=True)
def test_a_node_in_whose_port_a_writer_was_killed_ends_with_an_error(node):
    locks = [LOCK.search(os.readlink(file)) for file in Path(f'/proc/{node.pid}/fd').iterdir()]
    lost = [lose_a_cell(node.home / name) for name in {lock[1] for lock in locks if lock}]
    assert any(lost)
    assert node.wait(60) == 1
    assert 'up to a third of a second late' in node.stderr.read()


@pytest.mark.parametrize(('gap_s', 'messages', 'late'), [
    (1 / 3, 5, True), (1 / 3, 1, False), (0.25, 5, False), (0.02, 5, False)])
def test_only_many_messages_at_each_look_are_late(gap_s, messages, late):
    wakes = Wakes()
    for look in range(12):
        for after_s in (0.0, 0.002):    # two topics
            wakes.heard(10.0 + look * gap_s + after_s, messages)
    assert wakes.late == late


def test_one_message_between_the_looks_is_in_time():
    wakes = Wakes()
    for look in range(40):
        wakes.heard(look / 3, 5)
        if look % 8 == 0:
            wakes.heard(look / 3 + 0.1, 1)
        assert not wakes.late
