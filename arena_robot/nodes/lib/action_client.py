"""Action client that can send goals from any thread."""

import time
from contextlib import suppress
from typing import Any

from rclpy.action import ActionClient
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.task import Future

RCLError = rclpy_implementation.RCLError
WAIT_S = 1.0
LOOK_S = 0.0005


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
            end_s = time.monotonic() + WAIT_S
            while (number not in self._goal_sequence_number_to_goal_id
                   and time.monotonic() < end_s):
                time.sleep(LOOK_S)
        await super().execute(taken_data)
