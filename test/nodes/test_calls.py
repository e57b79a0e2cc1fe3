"""Calls of services and actions: an answer, or an error that says what is missing."""

import threading
import time
import uuid

import pytest
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient, ActionServer, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future
from std_msgs.msg import Empty
from std_srvs.srv import Trigger
from waiting import until

from arena_msgs.action import MoveToJoints
from arena_robot.core.errors import DriverError, SessionError
from arena_robot.core.verdict import Extras
from arena_robot.nodes.lib.calls import ServiceClients, ThreadedActionClient, send_goal
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.desk import Presence
from arena_robot.nodes.remote.pictures import session_views

KINDS = dict.fromkeys(('works', 'fails', 'hangs'), Trigger)


@pytest.fixture(scope='module')
def pair():
    """A node that offers services and one that calls them, and the end of its patience."""
    released = threading.Event()

    def hang(_, answer):
        released.wait(30.0)
        return answer

    def fail(_, answer):
        answer.message = 'the arm is in REFLEX'
        return answer

    def work(_, answer):
        answer.success, answer.message = True, 'done'
        return answer

    name = f'station_{uuid.uuid4().hex[:8]}'
    with Spin() as spin:
        offers = Node(name, context=spin.context)
        group = ReentrantCallbackGroup()
        for service, callback in (('works', work), ('fails', fail), ('hangs', hang)):
            offers.create_service(Trigger, f'{name}/{service}', callback, callback_group=group)
        ActionServer(offers, MoveToJoints, f'{name}/go_home', lambda goal: None,
                     goal_callback=lambda goal: GoalResponse.REJECT, callback_group=group)
        asks = Node(f'{name}_asks', context=spin.context)
        spin.add(offers, threads=3)
        spin.add(asks, threads=2)
        yield name, asks
        released.set()


@pytest.fixture
def services(pair):
    name, asks = pair
    made = ServiceClients(asks, name, KINDS, find_s=10.0)
    yield made
    made.close()
    made.close()


def test_an_answer_is_returned(services):
    assert services.present(10.0)
    assert services.trigger('works', 10.0) == 'done'
    assert services.call('works', Trigger.Request(), 10.0).success


def test_a_failure_is_an_error_with_its_reason(services):
    with pytest.raises(DriverError, match=r'station_\w+/fails: the arm is in REFLEX'):
        services.trigger('fails', 10.0)


def test_a_call_that_the_node_lost_when_it_was_started_again_is_an_error_soon(pair):
    name, asks = pair
    runs = [1]
    services = ServiceClients(asks, name, KINDS, find_s=10.0, restarts=lambda: runs[0])
    again = threading.Timer(0.3, lambda: runs.__setitem__(0, 2))
    try:
        assert services.present(10.0)
        begun_s = time.monotonic()
        again.start()
        with pytest.raises(DriverError, match=r'/hangs was asked before the node was started ag'):
            services.call('hangs', Trigger.Request(), 30.0)
        assert time.monotonic() - begun_s < 10.0
        assert services.trigger('works', 10.0) == 'done', 'only what was asked before is lost'
    finally:
        again.cancel()
        services.close()


def test_restarts_are_counted_by_the_publishers_of_the_state(pair):
    _, asks = pair
    session = f'session_{uuid.uuid4().hex[:8]}'
    presence = Presence(asks, session)
    assert presence.restarts() == 0
    for runs in (1, 2):
        publisher = asks.create_publisher(Empty, f'{session}/state', 1)
        until(lambda runs=runs: presence.restarts() == runs, f'start {runs} is counted')
        asks.destroy_publisher(publisher)
        until(lambda: not asks.count_publishers(f'{session}/state'), 'it has ended')
    assert presence.restarts() == 2


def test_no_answer_in_time_is_an_error_and_its_request_is_forgotten(services):
    assert services.present(10.0)
    with pytest.raises(DriverError, match=r'/hangs did not answer within 0\.2 s'):
        services.trigger('hangs', 0.2)
    assert not services._clients['hangs']._pending_requests
    assert services.trigger('works', 10.0) == 'done'


def test_a_missing_service_is_an_error_of_the_callers_kind(pair):
    nobody = ServiceClients(pair[1], 'nobody', {'works': Trigger}, find_s=0.1,
                            error=SessionError)
    assert not nobody.present(0.0)
    with pytest.raises(SessionError, match='no service nobody/works: its program'):
        nobody.trigger('works', 5.0)
    nobody.close()


def test_a_goal_that_is_refused_or_that_nobody_takes_is_an_error(pair):
    name, asks = pair
    group = ReentrantCallbackGroup()
    there, nowhere = (ThreadedActionClient(asks, MoveToJoints, f'{node}/go_home',
                                           callback_group=group) for node in (name, 'nobody'))
    with pytest.raises(DriverError, match='go_home refused the goal'):
        send_goal(there, MoveToJoints.Goal(), 10.0, 'go_home', find_s=10.0)
    with pytest.raises(SessionError, match='somebody else is in control'):
        send_goal(there, MoveToJoints.Goal(), 10.0, 'go_home', error=SessionError,
                  refused='somebody else is in control')
    with pytest.raises(DriverError, match='no action go_home'):
        send_goal(nowhere, MoveToJoints.Goal(), 10.0, 'go_home', find_s=0.1)
    for client in (there, nowhere):
        client.destroy()


def test_a_goal_that_is_answered_before_it_is_listed_is_no_error(pair, monkeypatch):
    class AnsweredFirst(Future):
        def add_done_callback(self, callback):
            end_s = time.monotonic() + 5.0
            while not self.done() and time.monotonic() < end_s:
                time.sleep(0.001)
            super().add_done_callback(callback)

    name, asks = pair
    client = ThreadedActionClient(asks, MoveToJoints, f'{name}/go_home',
                                  callback_group=ReentrantCallbackGroup())
    client.wait_for_server(10.0)
    monkeypatch.setattr('rclpy.action.client.Future', AnsweredFirst)
    with pytest.raises(DriverError, match='go_home refused the goal'):
        send_goal(client, MoveToJoints.Goal(), 10.0, 'go_home', find_s=10.0)
    assert not client._futures
    client.destroy()


def test_the_actions_of_a_node_end_with_it():
    with Spin() as spin:
        node = Node('acts', context=spin.context)
        client = ActionClient(node, MoveToJoints, 'acts/go_home')
        ActionServer(node, MoveToJoints, 'acts/go_home', lambda goal: MoveToJoints.Result())
        spin.add(node)
        assert client.wait_for_server(10.0)
    assert not list(node.waitables)
    with pytest.raises(InvalidHandle), client._client_handle:
        pass


def test_a_lost_first_answer_of_a_session_node_is_asked_for_again(pair, monkeypatch):
    lost = [True, True]
    call = ServiceClients.call

    def losing(self, name, request, timeout_s):
        if lost:
            lost.pop()
            raise SessionError(f'{name} did not answer')
        return call(self, name, request, timeout_s)

    name, asks = pair
    made = [Parameter(name, value=value) for name, value in (
        ('roles', ['left']), ('cameras', ['left_camera']), ('eyes', ['left']),
        ('topic_style', 'zed5'), ('topic_styles', ['mono']), ('consent', 'ask Ada'),
        ('ask', ['success']), ('stages', ['reach']), ('failure_tags', ['lost']),
        ('arena', 'arena.example.org:50061'), ('site', 'https://arena.example.org'))]
    with Spin() as spin:
        session = Node(f'{name}_session', context=spin.context, parameter_overrides=made,
                       automatically_declare_parameters_from_overrides=True)
        spin.add(session)
        clients = ServiceClients(asks, session.get_name(), {'get_parameters': GetParameters})
        assert clients.present(10.0)
        monkeypatch.setattr(ServiceClients, 'call', losing)
        views, consent, extras, site = session_views(asks, session.get_name(), 20.0)
        assert (views, consent, site) == (
            {'left_left': 'left_camera/image_raw'}, 'ask Ada', 'https://arena.example.org')
        assert extras == Extras(('success',), ('reach',), ('lost',))
        session.set_parameters([Parameter('arena', value='local')])
        assert session_views(asks, session.get_name(), 20.0)[3] is None, 'no server'
        lost += [True] * 3
        with pytest.raises(SessionError, match='did not answer'):
            session_views(asks, session.get_name(), 5.0)
