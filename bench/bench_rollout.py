"""
What one rollout through a server costs in the default configuration.

The policy answers after 50 ms with a chunk of eight and takes two pictures. Printed: bytes that
the station sends and gets, calls of the relay, processor time of the station's loop and of the
server.
"""

import argparse
import contextlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
from bench_server import end, prepared, start_servers
from server_site import line, processor_s

from arena_robot.core.action import ActionSpace, Chunk, SafeCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.observation import ArmState, GripperState, Image
from arena_robot.drivers.base import ArmDescription, StereoFrame
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.robots.arms import PANDA
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.store.database import Database
from arena_robot.server.store.relayed import of_session
from arena_robot.session.arena.contract import PROMPT
from arena_robot.session.base import StationInfo
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

TAKES_S, PICTURES = 0.05, 30


class Slow:
    """Answers late with a chunk of eight."""

    spec = PolicySpec(ActionSpace.JOINT_POSITION, (224, 224), chunk_length=8)

    def infer(self, observation, episode=''):
        time.sleep(TAKES_S)
        return Chunk(np.zeros((8, 8), np.float32), ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        pass


class Still:
    """Arm, gripper, and a camera whose pictures change."""

    serial = '1'
    noise = np.random.default_rng(0).integers(0, 256, (PICTURES, 45, 80, 3), np.uint8)
    frames = noise.repeat(8, axis=1).repeat(8, axis=2)

    def state(self, max_age_s=0.1):
        zeros = np.zeros(7)
        return ArmState(time.time_ns(), zeros, zeros, zeros, zeros, np.zeros(6), zeros)

    wait_state = state

    def command(self, command):
        return command

    def stop(self):
        pass

    def frame(self, max_age_s=0.2):
        image = Image(self.frames[time.time_ns() // 66_000_000 % PICTURES], time.time_ns())
        return StereoFrame(image, image, 0)

    wait_frame = frame

    def arrivals(self):
        return []

    def description(self):
        return ArmDescription(PANDA, 'still', (0.0,) * 7)

    def act(self, action, stamp_ns):
        accepted = Future()
        accepted.set_result(SafeCommand(action.values[:7]))
        return accepted

    def chunk(self, *_):
        pass

    step = chunk


class StillGripper(Still):
    """The same as a gripper."""

    def state(self, max_age_s=0.1):
        return GripperState(time.time_ns(), 0.0, 0.085, 0.0)

    wait_state = state


def forwarder(target):
    """Pass connections on; prints its port, at the end of its input the bytes up and down."""
    counts, host = [0, 0], target.rpartition(':')
    entry = socket.create_server(('127.0.0.1', 0))
    print(entry.getsockname()[1], flush=True)

    def copy(source, sink, way):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                counts[way] += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept():
        while True:
            near = entry.accept()[0]
            far = socket.create_connection((host[0], int(host[2])))
            for pair in ((near, far, 0), (far, near, 1)):
                pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    for _ in sys.stdin:
        print(*counts, flush=True)


def started(stack, *arguments):
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    stack.callback(end, process)
    return process, process.stdout.readline().strip()


def policy():
    with GrpcPolicyServer(Slow()) as server:
        print(server.address.replace('0.0.0.0', '127.0.0.1'), flush=True)
        server.wait()


def rollout(arena, session_id, steps):
    """Run one; seconds, and processor seconds of this process."""
    camera = Still()
    parts = Parts(camera, StillGripper(), {'left': camera, 'wrist': camera})
    job = RolloutRequest(session_id, Slot.A, PROMPT)
    run = Rollout(job, parts, arena.policy(session_id, Slot.A), SystemClock(), camera,
                  RolloutConfig(max_steps=steps))
    began_s, used_s = time.perf_counter(), processor_of_this()
    episode = run.run()
    if episode.steps != steps:
        raise SystemExit(f'the rollout ended: {episode}')
    return time.perf_counter() - began_s, processor_of_this() - used_s


def processor_of_this():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(stack, folder, steps):
    url = f'sqlite:///{folder}/arena.db'
    addresses = {name: started(stack, '--policy')[1] for name in ('one', 'two')}
    token, = prepared(url, addresses, 1)
    (server, text), = start_servers(folder, url, 1)
    stack.callback(end, server)
    target = next(word.rstrip(',') for word in text.split() if ':' in word)
    between, port = started(stack, '--forward', target)

    def passed():
        between.stdin.write('\n')
        between.stdin.flush()
        return [int(one) for one in between.stdout.readline().split()]

    arena = RemoteArena(ServerAddress(f'127.0.0.1:{port}', token), SystemClock())
    stack.callback(arena.close)
    pair = arena.assign(StationInfo('s0', 'fr3'), 'ada', PROMPT)
    arena.policy(pair.session_id, Slot.A)
    before, server_s = passed(), processor_s(server.pid)
    seconds, station_s = rollout(arena, pair.session_id, steps)
    up, down = (now - then for now, then in zip(passed(), before, strict=True))
    server_s = processor_s(server.pid) - server_s
    arena.close()
    with Database(url) as database, database.read() as connection:
        queries = of_session(connection, pair.session_id)['A'].queries
    print(f'a rollout of {steps} steps, {steps / CONTROL_RATE_HZ:.0f} s at {CONTROL_RATE_HZ:g} Hz')
    line('it took', seconds, 's')
    line('sent to the server', up * 8e-6 / seconds, 'Mbit/s')
    line('received', down * 8e-6 / seconds, 'Mbit/s')
    line('calls of the relay', queries / seconds, '/s')
    line("processor of the station's loop", station_s, 's')
    line('processor of the server', server_s, 's')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', type=int, default=300)
    parser.add_argument('--policy', action='store_true', help='(used by the bench itself)')
    parser.add_argument('--forward', help='(used by the bench itself)')
    args = parser.parse_args()
    if args.policy:
        policy()
    elif args.forward:
        forwarder(args.forward)
    else:
        bench(args.steps)


def bench(steps):
    folder = Path(tempfile.mkdtemp(prefix='arena-bench-'))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        measure(stack, folder, steps)


if __name__ == '__main__':
    main()
