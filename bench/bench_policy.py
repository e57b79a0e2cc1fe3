"""
What asking a policy costs: from six camera frames in memory to the chunk received.

An echo policy runs in a process of its own on this machine; in one row it dialled out to an arena
server, and is called at the port that the server has for it. Our way (select, resize the two
images it wants, gRPC or openpi) is printed beside the reference client's way: all six images
LANCZOS-resized with Pillow at every step, then msgpack over a websocket.

Then how much of the time an arm stands still because its policy has not answered, at 15 Hz.
``--waits`` measures only that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgpack
import numpy as np
import PIL.Image
from stand_still import print_waits
from websockets.sync.client import connect as websocket

from arena_robot.core.clock import SystemClock
from arena_robot.core.observation import VIEWS, ArmState, GripperState, Image, Observation
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.connect import connect
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc import wire
from arena_robot.policy.openpi import wire as openpi_codec
from arena_robot.policy.openpi.wire import IMAGE_KEYS, request_of
from arena_robot.policy.options import CallOptions
from arena_robot.policy.resizing import Resizing, exact, fast, shown
from arena_robot.policy.timing import summarise
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import Role
from arena_robot.server.config import ServerConfig

TARGET_P50_MS, TARGET_P99_MS, TARGET_IDLE_MS = 10.0, 20.0, 1.0


def frames():
    """Return six 1280x720 frames of smooth noise."""
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (6, 45, 80, 3), np.uint8)
    return {name: np.asarray(PIL.Image.fromarray(pixels).resize((1280, 720), PIL.Image.BICUBIC))
            for name, pixels in zip(VIEWS, small, strict=True)}


def observation(images):
    """Return an observation of those frames, as a control loop makes one each step."""
    state, stamp_ns = np.zeros(7), time.time_ns()
    arm = ArmState(stamp_ns, state, state, state, state, np.zeros(6), state)
    return Observation(stamp_ns, arm, GripperState(stamp_ns, 0.0, 0.085, 0.0), 'tidy up', 0,
                       {name: Image(pixels, stamp_ns) for name, pixels in images.items()})


def serve(protocol, *options, **environment):
    """Start the echo policy in a process of its own; return it and its address."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'arena_robot.cli.main', 'policy', 'serve', 'echo', '--port', '0',
         '--protocol', protocol, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env={**os.environ, **environment})
    return process, process.stdout.readline().split(' at ')[1].split(';')[0]


def timed(call, count):
    """Return the latency of ``count`` calls after five more to warm up."""
    for _ in range(5):
        call()
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return summarise(seconds)


def line(name, found, note=''):
    """Print one row."""
    print(f'  {name:<46} p50 {found.p50_s * 1e3:8.3f} ms   p99 {found.p99_s * 1e3:8.3f} ms   '
          f'{note}'.rstrip())


def ours(images, protocol, options, count):
    """Measure our client, images and all."""
    process, address = serve(protocol)
    with process:
        try:
            with connect(address, options) as remote:
                policy = Resizing(remote)
                sent = shown(observation(images), remote.spec)
                size = len(wire.observation_to_bytes(sent) if protocol == 'grpc' else
                           openpi_codec.pack(request_of(sent, 'e', remote.spec)))
                return timed(lambda: policy.infer(observation(images), 'e'), count), size
        finally:
            process.terminate()


def joined(images, count):
    """Measure a policy whose process dialled out to an arena server, called at that server."""
    with tempfile.TemporaryDirectory() as folder, ArenaServer(
            ServerConfig(data=Path(folder), port=0), SystemClock(), lambda target: '',
            lambda target: '') as server:
        owner = server.accounts.add_account('owner', 'here', [Role.OWNER])
        process, _ = serve('grpc', '--join', f'127.0.0.1:{server.port}', '--name', 'echo',
                           ARENA_TOKEN=server.accounts.issue(owner))
        with process:
            try:
                assert process.stdout.readline().startswith('joined')
                port = server.joined.port(owner.id, 'echo.joined')
                with connect(f'grpc://127.0.0.1:{port}') as remote:
                    policy = Resizing(remote)
                    return timed(lambda: policy.infer(observation(images), 'e'), count)
            finally:
                process.terminate()


def reference_array(value):
    """Encode an array as the reference client does."""
    return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
            b'shape': value.shape}


def reference_step(images, socket):
    """Do what the reference client does at a step whose query is due; return the payload size."""
    resized = {name: np.asarray(PIL.Image.fromarray(np.ascontiguousarray(pixels)).resize(
        (512, 288), PIL.Image.LANCZOS)) for name, pixels in images.items()}
    request = {
        'observation/joint_position': np.zeros(7), 'observation/cartesian_position': np.zeros(6),
        'observation/gripper_position': np.zeros(1), 'prompt': 'tidy up', 'endpoint': 'infer'}
    for name, pixels in resized.items():
        small = np.asarray(PIL.Image.fromarray(pixels).resize((224, 224), PIL.Image.LANCZOS))
        if name in ('left_left', 'wrist_left'):
            request[IMAGE_KEYS[name]] = small
    if socket is None:
        return 0
    data = msgpack.packb(request, default=reference_array)
    socket.send(data)
    assert 'actions' in msgpack.unpackb(socket.recv())
    return len(data)


def reference(images, count):
    """Measure the reference client's way."""
    process, address = serve('openpi')
    with process:
        try:
            with websocket(f'ws://{address.partition("://")[2]}', compression=None,
                           max_size=None) as socket:
                socket.recv()
                size = reference_step(images, socket)
                return timed(lambda: reference_step(images, socket), count), size
        finally:
            process.terminate()


def between_queries(images, count):
    """Measure control steps when no query is due, observation made and action taken."""
    executor = ChunkExecutor(Resizing(Echo(length=1000)))
    executor.step(observation(images))
    return timed(lambda: executor.step(observation(images)), min(count, 900))


def main():
    """Print the tables and whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=300)
    parser.add_argument('--waits', action='store_true', help='measure only the stand-still')
    parser.add_argument('--seconds', type=float, default=30.0, help='of each stand-still')
    options = parser.parse_args()
    if not options.waits:
        measure_queries(options.count)
    print_waits(options.seconds)


def measure_queries(count):
    """Print what a query costs, ours beside the reference's."""
    images = frames()
    print('six 1280x720 frames in memory -> two 224x224 images sent -> chunk of 8 received')
    found, size = ours(images, 'grpc', CallOptions(), count)
    line('arena gRPC', found, f'{size} bytes')
    streamed, size = ours(images, 'grpc', CallOptions(stream=True), count)
    line('arena gRPC, one stream', streamed, f'{size} bytes')
    dialled = joined(images, count)
    line('arena gRPC, the policy dialled out', dialled,
         f'{(dialled.p50_s - found.p50_s) * 1e3:+.2f} ms (p50)')
    websocketed, size = ours(images, 'openpi', CallOptions(), count)
    line('arena openpi', websocketed, f'{size} bytes')
    theirs, size = reference(images, max(10, count // 10))
    line("reference client's way", theirs, f'{size} bytes')
    print(f'  {theirs.p50_s / found.p50_s:.0f} times faster than the reference way (p50)')
    print('a control step when no query is due')
    idle = between_queries(images, count)
    line('arena', idle)
    line("reference client's way (resizes all the same)",
         timed(lambda: reference_step(images, None), max(10, count // 10)))
    print('one image, 1280x720 to 224x224')
    pixels = images['left_left']
    line('fast', timed(lambda: fast(pixels, 224, 224), count))
    line('exact (Pillow, bit for bit the reference)',
         timed(lambda: exact(pixels, 224, 224), count))
    good = (found.p50_s * 1e3 <= TARGET_P50_MS and found.p99_s * 1e3 <= TARGET_P99_MS
            and idle.p99_s * 1e3 <= TARGET_IDLE_MS)
    print(f'targets: p50 <= {TARGET_P50_MS:g} ms, p99 <= {TARGET_P99_MS:g} ms, idle step <= '
          f'{TARGET_IDLE_MS:g} ms: {"met" if good else "MISSED"}')


if __name__ == '__main__':
    main()
