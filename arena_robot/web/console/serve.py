"""Runs the evaluator console in a thread: on this machine only, unless an address is given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arena_robot.core.tuning import switch_threads_soon
from arena_robot.session.evaluator.desk import Desk
from arena_robot.web.console.app import create_app
from arena_robot.web.page_server import PageServer


class ConsoleServer(PageServer):
    """
    Serves a desk at ``http://host:port``; ``port`` 0 uses a free one.

    On any host but this machine's own a token is required: ``token``, or a random one. ``names``
    are further names under which the page may be opened, such as the station's. ``audits`` returns
    the audits of finished sessions, as audit_node publishes them.
    """

    def __init__(self, desk: Desk, host: str = '127.0.0.1', port: int = 8600, token: str = '',
                 names: tuple[str, ...] = (),
                 audits: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> None:
        super().__init__(lambda given, hosts: create_app(desk, given, hosts, audits), host, port,
                         token, names, 'console')

    def open(self) -> None:
        """Start serving; NotConnected when the address is in use."""
        switch_threads_soon()    # STOP passes several
        super().open()
