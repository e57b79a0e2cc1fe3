"""Subscriptions that one thread per node serves: in order, past failures, until they are gone."""

import subprocess
import sys
import threading
import uuid

import pytest
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Int64
from std_srvs.srv import Trigger
from waiting import until

from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin

DESTROYED_MEANWHILE = """
import threading, time
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from std_msgs.msg import String
from arena_robot.nodes.lib.listener import take_events
from arena_robot.nodes.lib.spin import Spin

def take(context, handlers):
    try:
        while True:
            take_events(context, handlers)
    except InvalidHandle:
        return

with Spin() as spin:
    node = Node('events', context=spin.context)
    for _ in range(300):
        one = node.create_subscription(String, 'x', print, 10)
        thread = threading.Thread(target=take, args=(spin.context, list(one.event_handlers)))
        thread.start()
        time.sleep(0.002)
        node.destroy_subscription(one)
        thread.join()
"""

HANGS = """
import ctypes, sys
from rclpy.node import Node
from arena_robot.nodes.lib import spin

class Stuck(Node):
    def destroy_node(self):
        ctypes.PyDLL(None).sleep(60)    # as Fast DDS, it holds the interpreter

def build(running):
    running.add(Stuck('stuck', context=running.context))
    running.stop()

spin.DDS_S = 0.5
sys.exit(spin.run_with(build, []))
"""


@pytest.fixture
def pair():
    """Return a listening node and a plain one, both spinning in a namespace of their own."""
    space = f'listen_{uuid.uuid4().hex[:6]}'
    with Spin() as spin:
        listening = Listening('ear', context=spin.context, namespace=space)
        plain = Node('mouth', context=spin.context, namespace=space)
        spin.add(listening)
        spin.add(plain)
        yield listening, plain


def test_a_listening_node_hears_in_order_in_one_thread(pair):
    ear, mouth = pair
    heard, threads = [], set()

    def on_number(message):
        threads.add(threading.get_ident())
        heard.append(message.data)

    subscription = ear.create_subscription(Int64, 'numbers', on_number, 500)
    publisher = mouth.create_publisher(Int64, 'numbers', 500)
    until(publisher.get_subscription_count, 'nobody listens')
    for number in range(300):
        publisher.publish(Int64(data=number))
    until(lambda: len(heard) == 300, heard)
    assert heard == list(range(300))
    assert len(threads) == 1
    assert ear.destroy_subscription(subscription)
    until(lambda: not publisher.get_subscription_count(), 'it listens on')


def test_a_callback_that_fails_is_logged_and_the_next_message_is_heard(pair, caplog):
    ear, mouth = pair
    heard = []

    def on_number(message):
        heard.append(message.data)
        raise ValueError(message.data)

    ear.create_subscription(Int64, 'numbers', on_number, 10)
    publisher = mouth.create_publisher(Int64, 'numbers', 10)
    until(publisher.get_subscription_count, 'nobody listens')
    publisher.publish(Int64(data=1))
    publisher.publish(Int64(data=2))
    until(lambda: heard == [1, 2], heard)
    assert 'numbers: a callback failed' in caplog.text


def test_a_listening_node_takes_services_and_parameters_as_ever(pair):
    ear, mouth = pair
    ear.create_service(Trigger, 'ping', lambda _, answer: answer)
    client = mouth.create_client(Trigger, 'ping')
    assert client.wait_for_service(5.0)
    future = client.call_async(Trigger.Request())
    until(future.done, 'no answer')
    assert len(ear.set_parameters([Parameter('use_sim_time', value=True)])) == 1


def test_a_subscription_may_go_while_its_events_are_looked_at():
    done = subprocess.run([sys.executable, '-X', 'faulthandler', '-c', DESTROYED_MEANWHILE],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_process_ends_and_says_where_it_was_if_fast_dds_hangs():
    done = subprocess.run([sys.executable, '-c', HANGS], capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode == 1, done.stderr[-3000:]
    assert 'in destroy_node' in done.stderr
