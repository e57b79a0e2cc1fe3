"""
A camera of another package with one eye: a simulated camera's images, some time later.

    python late_camera.py NAMESPACE    (Float64 on NAMESPACE/delay: seconds)
"""

import sys
import threading
import time

from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Float64

from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin

ZED, MONO = 'left_camera/left/color/rect', 'lab_camera'


def main(namespace):
    with Spin() as spin:
        spin.catch_signals()
        node = Listening('lab_camera', namespace=namespace, context=spin.context)
        delay_s = [0.0]
        qos.subscription(node, Float64, 'delay', lambda m: delay_s.__setitem__(0, m.data),
                         qos.LATCHED)   # one that is sent before the two have met is not lost
        for kind, theirs, ours in (
                (Image, f'{ZED}/image', f'{MONO}/image_raw'),
                (CompressedImage, f'{ZED}/image/compressed', f'{MONO}/image_raw/compressed'),
                (CameraInfo, f'{ZED}/camera_info', f'{MONO}/camera_info')):
            relay(spin, node, delay_s, kind, theirs, ours)
        spin.add(node, threads=3)
        spin.wait()


def relay(spin, node, delay_s, kind, theirs, ours):
    publisher = qos.publisher(node, kind, ours)

    def pass_on(message):
        time.sleep(delay_s[0])
        if not spin.stopped.is_set():
            publisher.publish(message)

    def receive(message):
        threading.Thread(target=pass_on, args=(message,), daemon=True).start()
    qos.subscription(node, kind, theirs, receive)


if __name__ == '__main__':
    main(sys.argv[1])
