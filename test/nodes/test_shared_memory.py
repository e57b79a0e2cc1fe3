"""Half-made ports of Fast DDS in shared memory: no process may wait in one for ever."""

import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from own_shm import OWN_SHM, needs_own_shm

from arena_robot.nodes.lib import shared_memory
from arena_robot.nodes.lib.shared_memory import BROKEN, READY, mend_ports

NODE = """
from rclpy.node import Node
from std_msgs.msg import Empty
from arena_robot.nodes.lib.spin import Spin
with Spin() as spin:
    node = Node('one', context=spin.context)    # a node that is collected takes its ports along
    node.create_subscription(Empty, 'topic', print, 1)
    print('started', flush=True)
    input()
"""
PROGRAM = """
import subprocess, sys, time
from pathlib import Path

HOME = Path('/dev/shm')

def start():
    return subprocess.Popen([sys.executable, '-c', sys.argv[1]], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

first, made, end_s = start(), [], time.monotonic() + 30
while not made and time.monotonic() < end_s:
    made = [path for path in HOME.glob('fastrtps_port*') if path.name[-1].isdigit()]
    time.sleep(0.1)
first.kill()
first.wait()
for path in HOME.iterdir():
    path.unlink()
for path in made:
    path.touch()
second = start()
try:
    said, _ = second.communicate('go on', timeout=30)
except subprocess.TimeoutExpired:
    second.kill()
    said = 'waits'
print(len(made), said.strip())
"""


def port(home: Path, name: str, state: int) -> Path:
    """Make a port's file with the first bytes of a segment in ``state``."""
    path = home / name
    path.write_bytes(struct.pack('<i', state) + bytes(60))
    return path


def test_only_what_is_half_made_is_deleted(tmp_path):
    ready = port(tmp_path, 'fastrtps_port7411', READY)
    others = [tmp_path / name for name in ('fastrtps_port7411_el', 'fastrtps_07eff763', 'sem.a')]
    for path in others:
        path.touch()
    port(tmp_path, 'fastrtps_port7413', 1)
    (tmp_path / 'fastdds_port7012').touch()
    waiting = (tmp_path / 'fastdds_port7012').open('rb')
    assert mend_ports(tmp_path, 0.1) == ['fastdds_port7012', 'fastrtps_port7413']
    assert {*tmp_path.iterdir()} == {ready, *others}
    with waiting:
        assert struct.unpack('<i', waiting.read(4)) == (BROKEN,)
    assert mend_ports(tmp_path, 60.0) == []


def test_a_port_that_is_being_made_is_left(tmp_path, monkeypatch):
    path = tmp_path / 'fastrtps_port7012'
    path.touch()
    monkeypatch.setattr('arena_robot.nodes.lib.shared_memory.time.sleep',
                        lambda _: port(tmp_path, path.name, READY))
    assert mend_ports(tmp_path, 60.0) == []
    assert path.exists()


def test_a_port_that_another_node_has_made_meanwhile_is_left(tmp_path, monkeypatch):
    path, seen = tmp_path / 'fastrtps_port7012', []
    path.touch()

    def look(home):
        """Return what there is; after the last look another node mends it and makes its own."""
        ports = list(unready(home))
        seen.append(ports)
        if len(seen) == 2:
            path.rename(tmp_path / 'deleted')
            port(tmp_path, path.name, READY)
        return ports

    unready = shared_memory._unready
    monkeypatch.setattr(shared_memory, '_unready', look)
    assert mend_ports(tmp_path, 0.01) == []
    assert seen[-1], 'it was half made at the last look'
    assert path.read_bytes()[:4] == struct.pack('<i', READY)


def test_nodes_that_start_together_delete_it_once(tmp_path):
    path = tmp_path / 'fastrtps_port7012'
    path.touch()
    with ThreadPoolExecutor(8) as nodes:
        mended = list(nodes.map(lambda _: mend_ports(tmp_path, 0.2), range(8)))
    assert sorted(mended) == [*[[]] * 7, [path.name]]
    assert not path.exists()


@needs_own_shm
def test_a_process_starts_where_one_was_killed_while_it_made_a_port():
    done = subprocess.run([*OWN_SHM, sys.executable, '-c', PROGRAM, NODE], capture_output=True,
                          text=True, timeout=120, check=True)
    made, said = done.stdout.split()
    assert int(made) > 0
    assert said == 'started'
