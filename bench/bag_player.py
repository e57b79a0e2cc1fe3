"""
Play a bag onto the topics that it names: a stand-in for `ros2 bag play` without rosbag2.

    python bench/bag_player.py DIR [--rate 2.0] [--remap /old:=/new ...]

It has the name of rosbag2's player, offers the recorded QoS, and sends the recorded bytes at the
recorded pace. Unlike `arena episode replay` it keeps nothing away from a live station: it is there
to show that the station itself refuses.
"""

import argparse
import sys
import threading
from pathlib import Path

from rclpy.node import Node

from arena_robot.nodes.lib.endpoints import PLAYER, message_class
from arena_robot.nodes.lib.qos import to_profile
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.replay import remap_rules
from arena_robot.recording.bag.base import Qos
from arena_robot.recording.bag.playback import Playing, play
from arena_robot.recording.bag.reader import BagReader

FOUND_S, SENT_S = 1.0, 0.5    # until subscribers are known; until the last messages are out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--rate', type=float, default=1.0)
    parser.add_argument('--remap', nargs='+', default=[])
    given = parser.parse_args()
    names, over = remap_rules(given.remap), threading.Event()
    with Spin([]) as spin, BagReader(given.folder) as bag:
        node = Node(PLAYER, context=spin.context)
        spin.add(node, threads=1)
        made = {topic.name: node.create_publisher(
            message_class(topic.type), names.get(topic.name, topic.name),
            to_profile(topic.qos[0] if topic.qos else Qos())) for topic in bag.topics.values()}
        over.wait(FOUND_S)
        play(bag, Playing(rate=given.rate), lambda m: made[m.topic].publish(m.data), stop=over)
        over.wait(SENT_S)


if __name__ == '__main__':
    sys.exit(main())
