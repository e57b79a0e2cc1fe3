"""
Six 720p image streams of another package's nodes, as the session node receives them.

A process for each of three stereo cameras publishes at 15 Hz, raw (bgra8, as the ZED wrapper does)
or as JPEGs; this process receives them as the session node does. Measured: its processor time and
that of the cameras' processes, the rate of each camera, and how old a frame is when it is ready.
Raw images are also sent with this package's Fast DDS profile in the cameras' processes, and
received with it and with Fast DDS's own queue of 512 messages.

In the last row the cameras are nodes of the receiving process, as components would be, with Fast
DDS's delivery inside of a process. What a raw image costs is also shown in copies: the processor
time of all processes for one that is sent, over that of copying its bytes once.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.camera import RemoteCamera

RATE_HZ, SECONDS = 15.0, 15.0
ROLES = ('left', 'right', 'wrist')
WIDTH, HEIGHT = 1280, 720
OWN = Path(__file__).parents[1] / 'arena_robot' / 'nodes' / 'fastdds.xml'
HERE = 'here'    # in the place of the senders' profile: they are nodes of this process
PROFILES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')


def picture():
    """Return a picture as detailed as a table with objects: about 100 kB as JPEG."""
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (HEIGHT // 16, WIDTH // 16, 3), np.uint8)
    fine = np.kron(coarse, np.ones((16, 16, 1), np.uint8)).astype(np.int16)
    return np.clip(fine + rng.integers(-12, 12, fine.shape), 0, 255).astype(np.uint8)


def send(transport, role):
    """Publish in a process of its own until the process that began it has ended."""
    import rclpy
    rclpy.init()
    parent = os.getppid()
    publish(rclpy.create_node('vendor'), transport, role, lambda: os.getppid() != parent)


def publish(node, transport, role, over):
    """Publish as other packages' nodes do, with rclpy as it is; the size of an image first."""
    from sensor_msgs.msg import CompressedImage, Image

    from arena_robot.core.jpeg import to_jpeg
    pixels = picture()
    if transport == 'raw':
        whole = np.dstack([pixels, np.full((HEIGHT, WIDTH), 255, np.uint8)])
        message, suffix = Image(height=HEIGHT, width=WIDTH, encoding='bgra8', step=4 * WIDTH,
                                data=array('B', whole.tobytes())), ''
    else:
        data = to_jpeg(pixels, 80)
        message, suffix = CompressedImage(format='bgra8; jpeg compressed bgr8',
                                          data=array('B', data)), '/compressed'
    made = [node.create_publisher(type(message), f'{role}/zed_node/{eye}/color/rect/image{suffix}',
                                  10) for eye in ('left', 'right')]
    print(len(message.data), flush=True)
    due_s = time.monotonic()
    while not over():
        message.header.stamp = node.get_clock().now().to_msg()
        for one in made:
            one.publish(message)
        due_s = max(due_s + 1.0 / RATE_HZ, time.monotonic())
        time.sleep(max(due_s - time.monotonic(), 0.0))


@contextmanager
def cameras(transport, profile, spin):
    """Let the cameras publish, in processes or HERE; give an image's size, and the processes."""
    environment = {k: v for k, v in os.environ.items() if k not in PROFILES}
    if profile:
        environment[PROFILES[0]] = str(profile)
    over = threading.Event()
    senders = [] if profile == HERE else [
        subprocess.Popen([sys.executable, __file__, 'send', transport, role], env=environment,
                         stdout=subprocess.PIPE, text=True) for role in ROLES]
    threads = [] if senders else [
        threading.Thread(target=publish, args=(Listening(f'vendor_{role}', context=spin.context),
                                               transport, role, over.is_set)) for role in ROLES]
    for thread in threads:
        thread.start()
    try:
        yield (max((int(sender.stdout.readline()) for sender in senders),
                   default=4 * WIDTH * HEIGHT), [sender.pid for sender in senders])
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for sender in senders:
            sender.kill()
            sender.wait()


def receive(transport, profile):
    """Return CPU (cores) of this process and of the senders, rates (Hz) and ages (ms)."""
    with Spin() as spin, cameras(transport, profile, spin) as (size, senders):
        node = Listening('session_node', context=spin.context)
        spin.add(node, threads=1)
        remote = [RemoteCamera(node, f'{role}/zed_node', 20.0, transport=transport)
                  for role in ROLES]
        for camera in remote:
            camera.open()
        time.sleep(1.0)
        before, begin_s = [c.frame(60.0).sequence for c in remote], wall()
        cpu_s, ages = [cpu(p) for p in ([os.getpid()], senders)], []
        while wall() - begin_s < SECONDS:
            time.sleep(0.5)
            ages += [(came - stamp) * 1e-6 for c in remote for stamp, came in c.arrivals()]
        seconds = wall() - begin_s
        rates = [(c.frame(60.0).sequence - b) / seconds
                 for c, b in zip(remote, before, strict=True)]
        cores = [(cpu(p) - s) / seconds
                 for p, s in zip(([os.getpid()], senders), cpu_s, strict=True)]
        return size, cores, rates, ages, copy_s(size)


def cpu(pids):
    """Return the processor time of processes in seconds."""
    ticks = [Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[11:13]
             for pid in pids]
    return sum(int(word) for words in ticks for word in words) / os.sysconf('SC_CLK_TCK')


def copy_s(size):
    """Return the processor time of copying ``size`` bytes that no cache holds."""
    images = np.ones((40, size), np.uint8)
    begin_s = time.thread_time()
    images[:20] = images[20:]
    return (time.thread_time() - begin_s) / 20


def wall():
    """Return steady seconds."""
    return time.monotonic()


def received(transport, sender, receiver):
    """Return what :func:`receive` does, from a process with a profile of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in PROFILES}
    done = subprocess.run(
        [sys.executable, __file__, 'receive', transport, str(sender or '')], text=True,
        env={**environment, PROFILES[0]: str(receiver)}, stdout=subprocess.PIPE, check=False,
        timeout=60.0 + SECONDS)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def show(name, transport, result):
    """Print a row."""
    if result is None:
        print(f'  {name:<42} a camera sent nothing that arrived whole  MISSED', flush=True)
        return
    size, (cores, sending), rates, ages, once_s = result
    p50, p99 = np.percentile(ages, (50, 99))
    good = min(rates) >= 14.8 and (transport == 'raw' or cores < 0.5)
    copies = (cores + sending) / (2 * len(ROLES) * RATE_HZ) / once_s
    cost = f'{copies:4.1f} copies a sent image' if transport == 'raw' else ''
    print(f'  {name:<42} {size / 1e3:5.0f} kB  {cores:5.2f} cores + {sending:4.2f} sending  '
          f'{cost:<24} slowest {min(rates):5.2f} Hz  age p50 {p50:4.0f} p99 '
          f'{p99:4.0f} ms  {"" if good else "MISSED"}', flush=True)


def main():
    os.environ.setdefault('ROS_DOMAIN_ID', '85')
    print(f'{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}')
    with tempfile.TemporaryDirectory() as folder:
        short, within = Path(folder, 'short.xml'), Path(folder, 'within.xml')
        short.write_text(re.sub(r'<port_queue_capacity>\d+', '<port_queue_capacity>512',
                                OWN.read_text()))
        within.write_text(OWN.read_text().replace('<intraprocess_delivery>OFF',
                                                  '<intraprocess_delivery>FULL'))
        for name, transport, sender, receiver in (
                ('JPEG', 'compressed', None, OWN), ('raw', 'raw', None, OWN),
                ('raw, our profile in the sender', 'raw', OWN, OWN),
                ('raw, our profile in the sender, queue 512', 'raw', OWN, short),
                ('raw, cameras in the receiving process', 'raw', HERE, within)):
            show(name, transport, received(transport, sender, receiver))


def measured(transport, sender):
    """Receive in this process, and print the result for :func:`received`."""
    print(json.dumps(receive(transport, sender)))


if __name__ == '__main__':
    {'send': send, 'receive': measured}.get(''.join(sys.argv[1:2]), main)(*sys.argv[2:])
