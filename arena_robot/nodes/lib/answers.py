"""How services answer: always, with success and a message, at once or later."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node

from arena_robot.core.errors import ArenaError

log = logging.getLogger(__name__)


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


def create_deferred_service(node: Node, kind: Any, name: str, begin: Callable[[], 'Future[str]'],
                            group: CallbackGroup) -> None:
    """
    Offer ``~/name``; a call is answered when its future is done, with its message or its error.

    Calls that wait for their future take no thread of the executor.
    """
    service = node.create_service(kind, f'~/{name}', lambda request, _: request,
                                  callback_group=group)
    send = service.send_response

    def answer(request: Any, header: Any, done: 'Future[str]') -> None:
        response = answering(name, lambda *_: done.result())(request, kind.Response())
        try:
            send(response, header)
        except InvalidHandle:
            log.info('%s: the node was closed before the answer', name)

    def send_later(request: Any, header: Any) -> None:
        begin().add_done_callback(lambda done: answer(request, header, done))

    # rclpy sends what a callback returns; here that is the request, and the answer comes later.
    service.send_response = send_later  # type: ignore[method-assign,assignment]
