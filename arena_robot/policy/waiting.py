"""Waiting for a policy server that is still loading its model."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from arena_robot.core.errors import PolicyTimeout, PolicyUnavailable

log = logging.getLogger(__name__)

PAUSE_S = 1.0
Opened = TypeVar('Opened')
Tell = Callable[[float, str], None]


def wait_for(call: Callable[[], Opened], wait_s: float, tell: Tell | None = None) -> Opened:
    """
    Return what ``call`` returns, called again while no server answers, for ``wait_s`` in all.

    ``tell`` gets the seconds waited and the error after each attempt. Errors of a server that
    answers, such as a token that does not fit, are raised at once; PolicyUnavailable with the last
    error when the time is over.
    """
    began_s = time.monotonic()
    while True:
        try:
            return call()
        except (PolicyUnavailable, PolicyTimeout) as error:
            waited_s = time.monotonic() - began_s
            if waited_s + PAUSE_S > wait_s:
                if not wait_s:
                    raise
                raise PolicyUnavailable(f'waited {waited_s:.0f} s: {error}') from error
            log.info('no policy server yet, waiting: %s', error)
            if tell is not None:
                tell(waited_s, str(error))
            time.sleep(PAUSE_S)
