"""A process whose port in shared memory was deleted gets no requests: it ends, and says why."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from arena_robot.nodes.port_watch import LOCK, PortWatch, lost_ports

NODE = """
import sys
from rclpy.node import Node
from std_msgs.msg import Empty
from arena_robot.nodes.spin import run_node

def make(spin):
    node = Node('one', context=spin.context)
    node.create_subscription(Empty, 'topic', print, 1)
    print('started', flush=True)
    return node

sys.exit(run_node(make))
"""
HOME = Path('/dev/shm')


@pytest.fixture
def node():
    with subprocess.Popen([sys.executable, '-c', NODE], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == 'started\n'
        yield process
        process.kill()


def ports(pid):
    """Return the ports in which a process listens, waiting for the first."""
    for _ in range(100):
        files = [os.readlink(file) for file in Path(f'/proc/{pid}/fd').iterdir()]
        if found := sorted({match[1] for file in files if (match := LOCK.search(file))}):
            return found
        time.sleep(0.05)
    raise AssertionError('it listens in no port')


def test_a_node_whose_port_is_deleted_ends_with_an_error(node):
    lost = ports(node.pid)[0]
    assert lost_ports(HOME, Path(f'/proc/{node.pid}')) == set()
    (HOME / lost).unlink()
    assert lost_ports(HOME, Path(f'/proc/{node.pid}')) == {lost}
    assert node.wait(30) == 1
    said = node.stderr.read()
    assert f'its {lost} in shared memory was deleted' in said
    assert 'Traceback' not in said


def test_a_port_that_another_process_has_made_in_its_place_is_lost_too(node):
    lost = ports(node.pid)[0]
    (HOME / lost).rename(HOME / f'{lost}_before')
    (HOME / lost).write_bytes((HOME / f'{lost}_before').read_bytes())
    (HOME / f'{lost}_before').unlink()
    assert node.wait(30) == 1
    assert 'gets no requests' in node.stderr.read()


def test_a_node_with_its_ports_stays_until_a_signal(node):
    ports(node.pid)
    time.sleep(4.5)    # more looks than it takes
    assert node.poll() is None
    node.send_signal(signal.SIGTERM)
    assert node.wait(30) == 0


def test_a_port_that_is_found_again_is_not_lost():
    seen = iter([{'a'}, {'a', 'b'}, {'b'}, {'a', 'b'}, {'a', 'b'}, {'a'}])
    watch = PortWatch(lambda: next(seen))
    assert [watch.look() for _ in range(6)] == [[], [], [], ['b'], ['b'], ['a']]
