"""Audits of finished sessions, as the station's audit_node publishes them."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from std_msgs.msg import String

from arena_robot.nodes import qos
from arena_robot.nodes.remote.desk import RemoteDesk

log = logging.getLogger(__name__)


class RemoteAudits:
    """Returns the newest audits when it is called; none where no audit_node runs."""

    def __init__(self, desk: RemoteDesk, name: str = 'audit_node') -> None:
        self._newest: Sequence[Mapping[str, Any]] = ()
        desk.hear(String, f'{name}/report', self._on_report, qos.LATCHED)

    def __call__(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest audits, of up to twenty sessions."""
        return self._newest

    def _on_report(self, message: String) -> None:
        try:
            found = json.loads(message.data)
        except ValueError as error:
            log.warning('the audits cannot be read: %s', error)
            return
        self._newest = found if isinstance(found, list) else ()
