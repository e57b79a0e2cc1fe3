"""An asyncio loop whose time does not pass by itself: it jumps to the next timer."""

import asyncio
import selectors


class _Selector(selectors.SelectSelector):
    """Waits for nothing: a wait is a jump of ``loop``."""

    loop = None

    def select(self, timeout=None):
        if timeout is None:
            raise AssertionError('the loop would wait for ever')
        self.loop.now_s += max(0.0, timeout)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """Starts at 0 seconds; ``run_until`` runs everything that is due until then."""

    def __init__(self):
        self.now_s = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self):
        return self.now_s

    def run_until(self, end_s):
        self.call_at(end_s, self.stop)
        self.run_forever()
