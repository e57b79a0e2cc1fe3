"""An action client that may send its goals from any thread."""

import time
from typing import Any

from rclpy.action import ActionClient
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation

RCLError = rclpy_implementation.RCLError
WAIT_S = 1.0
LOOK_S = 0.0005


class ThreadedActionClient(ActionClient):
    """
    rclpy's, without two races.

    rclpy notes a goal only after it was sent. When another thread takes the answer before that,
    it is thrown away as unexpected and the goal's future never ends. Here it waits for the note.

    When one thread destroys the client while another takes what has come for it, rclpy's
    executor never again calls anything of the client's callback group. Here nothing has come.
    """

    _gone = False

    def destroy(self) -> None:
        """Let go of it; another thread may be at it."""
        self._gone = True
        super().destroy()

    def take_data(self) -> dict[str, Any]:
        """Return what has come; see the class."""
        try:
            return dict(super().take_data())
        except (InvalidHandle, RCLError):
            if not self._gone:
                raise
            return {}

    async def execute(self, taken_data: dict[str, Any]) -> None:
        """Take what has come; see the class."""
        if 'goal' in taken_data:
            number = taken_data['goal'][0]
            end_s = time.monotonic() + WAIT_S
            while (number not in self._goal_sequence_number_to_goal_id
                   and time.monotonic() < end_s):
                time.sleep(LOOK_S)
        await super().execute(taken_data)
