"""Background work of a conductor: report that a motion runs, call a function periodically."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar('T')
SOON_S = 0.05


def announced(work: Callable[[], T], changed: Callable[[], None]) -> T:
    """Return what ``work`` returns; ``changed`` is called soon after it begins, and at its end."""
    timer = threading.Timer(SOON_S, changed)
    timer.start()
    try:
        return work()
    finally:
        timer.cancel()
        changed()


def repeated(look: Callable[[], bool], period_s: float, name: str) -> threading.Event:
    """Call ``look`` every ``period_s`` in a thread until it returns False or the event is set."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(period_s):
            if not look():
                return
    threading.Thread(target=run, name=name, daemon=True).start()
    return over
