"""
Measure a camera frame's way from the library's hand-over to its publication.

    python bench/bench_camera.py [--frames 150] [--fps 15]

camera_node runs in this process, a subscriber of both eyes' raw images in another. The ZED's
library is the stand-in in a process of its own, which hands a frame over LATENCY_S after its
stamp; the frame is published when publish() of the second eye has returned, and received when the
subscriber's callback has that message. Prints a table; a figure above its limit says so, and the
exit code stays 0: on a busy machine it proves nothing. The processor time of the two threads on
the way in this process is what is left where nothing else runs.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_DOMAIN_ID', str(os.getpid() % 100 + 1))

from arena_robot.core.tuning import keep_what_exists  # noqa: E402
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder  # noqa: E402
from arena_robot.drivers.emulators.zed_sdk.pyzed.sl import LATENCY_S  # noqa: E402
from arena_robot.nodes.camera import CameraNode  # noqa: E402
from arena_robot.nodes.lib.spin import Spin, tune_process  # noqa: E402
from arena_robot.nodes.station.processes import overrides_file  # noqa: E402

SERIAL, LIMIT_MS, SKIPPED = '20000001', 5.0, 10
LISTENER = """
import json, signal, time, rclpy
from functools import partial
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
came = {'left': {}, 'right': {}}
def note(eye, message):
    stamp = message.header.stamp
    came[eye][stamp.sec * 10**9 + stamp.nanosec] = time.monotonic_ns()
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
node = Node('listener')
for eye in came:
    node.create_subscription(Image, f'/left_camera/{eye}/color/rect/image', partial(note, eye),
                             qos_profile_sensor_data)
while not ended:
    rclpy.spin_once(node, timeout_sec=0.2)
print(json.dumps(came))
"""


@contextlib.contextmanager
def listener():
    """Run a subscriber; fill the table that is handed over, when it has ended: stamp to ns."""
    came = {}
    process = subprocess.Popen([sys.executable, '-c', LISTENER], cwd=ROOT, stdout=subprocess.PIPE,
                               text=True)
    try:
        yield came
        process.terminate()
        eyes = json.loads(process.communicate(timeout=20.0)[0])
        came.update({int(stamp): max(at, eyes['right'][stamp])
                     for stamp, at in eyes['left'].items() if stamp in eyes['right']})
    finally:
        process.kill()
        process.wait()


class TimedPublisher:
    """A publisher that notes when a message has gone."""

    def __init__(self, publisher, gone):
        self._publisher, self._gone = publisher, gone

    def publish(self, message):
        """Publish, then note the message's stamp and the time."""
        self._publisher.publish(message)
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 10**9 + stamp.nanosec
        self._gone[stamp_ns] = (time.monotonic_ns(), time.thread_time_ns())

    def get_subscription_count(self):
        """Return how many listen."""
        return self._publisher.get_subscription_count()


def measure(frames, fps, **params):
    """Return ms from hand-over to publication, to reception, and of processor time by frame."""
    path = overrides_file({'left_camera': {
        'backend': 'zed', 'serial_number': SERIAL, 'pub_frame_rate': float(fps), 'driver.fps': fps,
        **params}})
    gone = {}
    args = ['bench', '--ros-args', '--params-file', str(path), '--log-level', 'error']
    with listener() as came, Spin(args) as spin:
        node = CameraNode('left_camera', context=spin.context)
        spin.add(node, threads=2)
        keep_what_exists()      # as the node's own process does
        until(lambda: node.active)
        part, taken, woken = node.part, {}, {}
        take, wait = part._take, part.wait_frame

        def noted(found, ended):
            begin_ns, before_ns = time.monotonic_ns(), time.thread_time_ns()
            take(found, ended)
            handed_ns = begin_ns - round((found.age_s - LATENCY_S) * 1e9)
            taken[part._frame.left.stamp_ns] = (handed_ns, time.thread_time_ns() - before_ns)

        def waited(timeout_s):
            frame = wait(timeout_s)
            woken[frame.left.stamp_ns] = time.thread_time_ns()
            return frame

        part._take, part.wait_frame = noted, waited
        last = node.eyes['right']
        node.eyes['right'] = type(last)(last.frame_id, TimedPublisher(last.image, gone),
                                        last.info, last.compressed, last.geometry)
        until(lambda: last.image.get_subscription_count() > 0)
        until(lambda: len(gone) >= frames + SKIPPED)
    path.unlink()
    both = [stamp for stamp in sorted(gone) if stamp in taken][SKIPPED:]
    return ([(gone[one][0] - taken[one][0]) / 1e6 for one in both],
            [(came[one] - taken[one][0]) / 1e6 for one in both if one in came],
            [(gone[one][1] - woken[one] + taken[one][1]) / 1e6 for one in both])


def until(condition, timeout_s=120.0):
    """Wait."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit('bench_camera: nothing came')
        time.sleep(0.01)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--frames', type=int, default=150)
    parser.add_argument('--fps', type=int, default=15)
    args = parser.parse_args()
    tune_process()      # as the node's own process is
    with tempfile.TemporaryDirectory() as name:
        make_folder(Path(name), {SERIAL: EmulatedZed()})
        sys.path.insert(0, name)
        print('zed at 1280 x 720, both eyes, from the SDK, ms:')
        for label, params in (('1280 x 720', {}), ('512 x 288', {'width': 512, 'height': 288})):
            spent, until_there, busy = measure(args.frames, args.fps, **params)
            show(f'published {label}', spent, LIMIT_MS,
                 f'   processor p50 {np.median(busy):6.2f}')
            show(f'received  {label}', until_there)
        print(f'load average {os.getloadavg()[0]:.1f}')


def show(label, spent, limit_ms=float('inf'), more=''):
    """Print a row."""
    p50, p99 = np.percentile(spent, (50, 99))
    note = '' if p99 <= limit_ms else f'   above the limit of {limit_ms:g}'
    print(f'  {label:<22} p50 {p50:6.2f}   p99 {p99:6.2f}   max {max(spent):6.2f}{more}{note}',
          flush=True)


if __name__ == '__main__':
    main()
