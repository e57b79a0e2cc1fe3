"""
Services and actions: calls of other nodes with timeouts, and answers of this one.

Calls block the calling thread, so they must not be made from the executor's thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from typing import Any

from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from arena_robot.core.errors import ArenaError, DriverError

RCLError = rclpy_implementation.RCLError
log = logging.getLogger(__name__)

FIND_S = 2.0      # the ROS graph shows a running node within a second
ATTEMPTS = 3      # the first answer of a node that has just started can be lost
LOOK_S = 0.5      # how often a waiting caller asks whether the other node was started again
LATE_S = 1.5      # how long a node that was started again may take to answer an earlier call
STORED_S = 1.0    # rclpy stores a sent goal within microseconds; a busy machine may take longer
STORED_LOOK_S = 0.0005    # short: the executor's thread waits


def uncounted() -> int:
    """Return the same number always, for a node whose restarts nobody counts."""
    return 0


class ServiceClients:
    """
    Clients of the services of one other node, by name.

    ``find_s`` is the timeout of finding a service, ``error`` the class that is raised.
    ``restarts`` returns a number that grows when the other node is started again: what was asked
    before is lost.
    """

    def __init__(self, node: Node, other: str, kinds: dict[str, type], *, find_s: float = FIND_S,
                 error: type[ArenaError] = DriverError,
                 restarts: Callable[[], int] = uncounted) -> None:
        self._node, self.other, self._find_s, self._error = node, other, find_s, error
        self._restarts = restarts
        group = ReentrantCallbackGroup()
        self._clients: dict[str, Client] = {
            name: node.create_client(kind, f'{other}/{name}', callback_group=group)
            for name, kind in kinds.items()}

    def present(self, timeout_s: float = FIND_S) -> bool:
        """Return whether the other node offers all of them."""
        return all(client.wait_for_service(timeout_s) for client in self._clients.values())

    def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Return the answer; the error when there is no service or no answer in time."""
        client, what, begun = self._clients[name], f'{self.other}/{name}', self._restarts()
        try:
            if not client.wait_for_service(min(self._find_s, timeout_s)):
                raise self._error(f'no service {what}: its program does not run')
            future = client.call_async(request)
        except InvalidHandle:
            raise self._error(f'{what} was not asked: this node is being closed') from None
        try:
            return result(future, timeout_s, what, self._error,
                          lambda: self._restarts() != begun)
        finally:
            client.remove_pending_request(future)

    def trigger(self, name: str, timeout_s: float) -> str:
        """Call a Trigger service and return its message; the error when it says that it failed."""
        reply = self.call(name, Trigger.Request(), timeout_s)
        if not reply.success:
            raise self._error(f'{self.other}/{name}: {reply.message}')
        return str(reply.message)

    def close(self) -> None:
        """Destroy the clients; can be called twice."""
        while self._clients:
            self._node.destroy_client(self._clients.popitem()[1])


def send_goal(action: ActionClient, goal: Any, timeout_s: float, what: str, *,
              feedback: Callable[[Any], None] | None = None, find_s: float = FIND_S,
              error: type[ArenaError] = DriverError, refused: str = '') -> ClientGoalHandle:
    """
    Send a goal and return its handle.

    Raises ``error`` when there is no server, no answer in time, or the goal is not accepted
    (with the words of ``refused``).
    """
    find_action(action, find_s, what, error)
    handle: ClientGoalHandle = result(
        action.send_goal_async(goal, feedback), timeout_s, what, error)
    if not handle.accepted:
        raise error(refused or f'{what} refused the goal')
    return handle


def find_action(action: ActionClient, find_s: float, what: str,
                error: type[ArenaError] = DriverError) -> None:
    """Return once an action has a server; ``error`` after ``find_s``."""
    if not action.wait_for_server(find_s):
        raise error(f'no action {what}: its program does not run')


def result(future: Future, timeout_s: float, what: str, error: type[ArenaError] = DriverError,
           lost: Callable[[], bool] = lambda: False) -> Any:
    """
    Return a future's result from outside the executor.

    Raises ``error`` after ``timeout_s``, and soon after ``lost`` says that nobody will answer.
    """
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    end_s = time.monotonic() + timeout_s
    while not done.wait(max(0.0, min(LOOK_S, end_s - time.monotonic()))):
        if time.monotonic() >= end_s:
            raise error(f'{what} did not answer within {timeout_s:g} s: its program hangs, or was '
                        'ended')
        # The new node may have been asked; then it answers.
        if lost() and not done.wait(LATE_S):
            raise error(f'{what} was asked before the node was started again; repeat it')
    return future.result()


def parameters_of(node: Node, other: str, names: Sequence[str], timeout_s: float,
                  error: type[ArenaError] = DriverError) -> list[ParameterValue]:
    """
    Return parameters of another node; raises ``error`` when it does not answer.

    A node that has just started can lose a first answer, so it is asked ``ATTEMPTS`` times.
    """
    client = ServiceClients(node, other, {'get_parameters': GetParameters}, error=error)
    request = GetParameters.Request(names=list(names))
    try:
        for left in reversed(range(ATTEMPTS)):
            try:
                return list(client.call('get_parameters', request, timeout_s / 2).values)
            except error:
                if not left or not client.present(0.0):
                    raise
    finally:
        client.close()
    raise AssertionError('the last attempt returns or raises')


def answering(name: str, work: Callable[[Any, Any], str]) -> Callable[[Any, Any], Any]:
    """Return a service callback that answers with the message of ``work``, or of its error."""
    def serve(request: Any, response: Any) -> Any:
        try:
            response.message = work(request, response)
            response.success = True
        except (ArenaError, ValueError, OSError) as error:
            response.success, response.message = False, str(error)
            log.info('%s: %s', name, error)
        except Exception:
            # Always answer, so that a caller does not wait for ever.
            log.exception('%s failed', name)
            response.success, response.message = False, f'{name} failed; see the log'
        return response
    return serve


def create_deferred_service(node: Node, kind: Any, name: str,
                            begin: Callable[[], 'futures.Future[str]'],
                            group: CallbackGroup) -> None:
    """
    Offer ``~/name``; a call is answered when its future is done, with its message or its error.

    Calls that wait for their future take no thread of the executor.
    """
    service = node.create_service(kind, f'~/{name}', lambda request, _: request,
                                  callback_group=group)
    send = service.send_response

    def answer(request: Any, header: Any, done: 'futures.Future[str]') -> None:
        response = answering(name, lambda *_: done.result())(request, kind.Response())
        try:
            send(response, header)
        except InvalidHandle:
            log.info('%s: the node was closed before the answer', name)

    def send_later(request: Any, header: Any) -> None:
        begin().add_done_callback(lambda done: answer(request, header, done))

    # rclpy sends what a callback returns; here that is the request, and the answer comes later.
    service.send_response = send_later  # type: ignore[method-assign,assignment]


class ThreadedActionClient(ActionClient):
    """
    rclpy's action client without three race conditions.

    rclpy stores a goal only after sending it. If another thread takes the answer before that, the
    answer is discarded as unexpected and the goal's future never completes. Here taking waits for
    the store.

    rclpy lists a goal's future after the goal can be answered, and raises ValueError when it takes
    an answered one from the list before it is in it: the goal is under way and the call fails.
    Here that is not an error.

    If one thread destroys the client while another takes its data, rclpy's executor never calls
    the client's callback group again. Here no data is returned then.
    """

    _gone = False

    def destroy(self) -> None:
        """Destroy the client; another thread may be using it."""
        self._gone = True
        super().destroy()

    def add_future(self, future: Future) -> None:
        """List a future unless it is done already; see the class."""
        super().add_future(future)
        if future.done():
            self.remove_future(future)

    def remove_future(self, future: Future) -> None:
        """Take a future from the list if it is there; see the class."""
        with suppress(ValueError):
            super().remove_future(future)

    def take_data(self) -> dict[str, Any]:
        """Return the received data; see the class."""
        try:
            return dict(super().take_data())
        except (InvalidHandle, RCLError):
            if not self._gone:
                raise
            return {}

    async def execute(self, taken_data: dict[str, Any]) -> None:
        """Process the received data; see the class."""
        if 'goal' in taken_data:
            number = taken_data['goal'][0]
            end_s = time.monotonic() + STORED_S
            while (number not in self._goal_sequence_number_to_goal_id
                   and time.monotonic() < end_s):
                time.sleep(STORED_LOOK_S)
        await super().execute(taken_data)
