"""Values that take long to compute: the last one is given at once, a newer one made meanwhile."""

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from arena_robot.core.errors import ArenaError, NotComputed

log = logging.getLogger(__name__)

LOOK_S = 1.0      # a reader of the site sees a new verdict within seconds
REST = 4.0        # a fifth of one processor at most is used for it
MOST = 500        # values in memory; the one that was asked for longest ago goes
CLOSE_S = 10.0    # a value that takes longer is left to end with the process
FIRST_S = 0.02    # what takes no longer is given to who asks first; a page waits for four at most
MOST_WAIT = 8    # who wait for that at once; a web server has 40 threads for all its readers
_T = TypeVar('_T')


class RenewedValues:
    """
    Values by key, made of data whose ``version`` changes with them.

    After ``open`` a thread looks at the version every ``LOOK_S`` seconds and after ``look``. When
    it changed, the thread makes again what the calls of ``always`` get, and what was asked for
    since it was made, one after another. After each the thread rests ``REST`` times as long as
    the processor worked for it. What comes ``first`` is also renewed in the rest after any other
    value, once the data have changed: it waits for one value at most. What is ``late`` comes last,
    and only the next late value waits for its rest; once the data have changed again, no further
    one is begun before the others are renewed. One that raises NotComputed has a part of its work
    done and goes on after the next look: the past days of a large arena never hold up the newest
    standings. So only who is the first to ask for a value waits for it, one that is ``slow`` for
    ``FIRST_S`` at most, and pages and stations have the processor in between. What is prepared is
    made last.
    Without ``open``, ``get`` makes a value again when the version changed.
    """

    def __init__(self, version: Callable[[], Hashable]) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._values: dict[Hashable, _Value] = {}
        self._always: list[tuple[Callable[[], object], bool]] = []
        self._first: list[Callable[[], object]] = []
        self._wake, self._stop = threading.Event(), threading.Event()
        self._waiters = threading.BoundedSemaphore(MOST_WAIT)
        self._thread: threading.Thread | None = None
        self._seen: Hashable = None
        self._round: Hashable = None
        self._first_seen: Hashable = None
        self._others_turn = False
        self._done: Hashable = None
        self._late_done: Hashable = None
        self._first_done = threading.Event()
        self._late_from_s = 0.0
        self._looks = 0
        self._owed_s = 0.0

    def always(self, call: Callable[[], object], late: bool = False, first: bool = False) -> None:
        """Renew what ``call`` gets whether anybody asks for it or not; before ``open``."""
        if first:
            self._first.append(call)
        else:
            self._always.append((call, late))

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name='renewed values', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after what it is making; can be called twice."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def version(self) -> Hashable:
        """Return the version that all values have but those that are late."""
        return self._version() if self._thread is None else self._done

    def look(self) -> None:
        """Have the thread look at the version now, or as soon as it has rested."""
        self._wake.set()

    def ready(self, timeout_s: float) -> bool:
        """Wait until what is always renewed, but what is late, is there; False after that time."""
        return self._first_done.wait(timeout_s)

    def settle(self, timeout_s: float = 30.0) -> bool:
        """Wait until what was asked for is as new as the data; False after the timeout."""
        until_s, enough = time.monotonic() + timeout_s, self._looks + 2
        while self._thread is not None and self._looks < enough:
            if time.monotonic() > until_s:
                return False
            self.look()
            time.sleep(0.01)
        return True

    def get(self, key: Hashable, make: Callable[[], _T], longest_s: float = math.inf, *,
            slow: bool = False, late: bool = False) -> _T:
        """
        Return the value of a key, or raise the ArenaError that making it raised.

        ``make`` reads the data itself, or values that it gets here: the one of the first call is
        kept. After ``longest_s`` it makes the value again although the version is the same.
        A ``slow`` value is made by the thread alone; NotComputed until then, at once where it is
        late too. A ``late`` one is renewed when all others are.
        """
        value = self._value(key, make, longest_s, late)
        thread, renewing = self._thread, threading.current_thread() is self._thread
        if not renewing:
            value.asked, value.asked_s = True, time.monotonic()
        if thread is None:
            value.renew(self._version())
        elif renewing:
            value.renew(self._seen)
        elif slow and not value.made:
            self._await_first(value)
        elif not value.made:
            # Others that it is made of may be of before: the thread makes it again.
            value.make_first(self._done)
        result: _T = value.result()
        return result

    def prepare(self, key: Hashable, make: Callable[[], object]) -> None:
        """Have the thread make a late value, or renew it, after those that somebody asked for."""
        self._value(key, make, math.inf, True).asked = True

    def _value(self, key: Hashable, make: Callable[[], Any], longest_s: float,
               late: bool) -> '_Value':
        with self._lock:
            if key not in self._values:
                self._drop_oldest()
                self._values[key] = _Value(make, longest_s, late)
            return self._values[key]

    def _await_first(self, value: '_Value') -> None:
        """Wait a moment for the thread to make a value; NotComputed says how long it may take."""
        self._wake.set()
        if not value.late and self._waiters.acquire(blocking=False):
            try:
                if value.first.wait(FIRST_S):
                    return
            finally:
                self._waiters.release()
        with self._lock:
            longest_s = max(one.took_s for one in self._values.values())
            waiting = sum(one.asked_s > 0 and not one.made for one in self._values.values())
        about = 'some minutes' if not longest_s else \
            f'about {max(1, math.ceil((1 + REST) * longest_s * waiting))} s'
        raise NotComputed(f'this is being computed in the background, which takes {about}; ask '
                          'for it again')

    def _drop_oldest(self) -> None:
        if len(self._values) >= MOST:
            del self._values[min(self._values, key=lambda key: self._values[key].asked_s)]

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self._renew_all()
            except Exception:
                log.exception('not all results were renewed; it is tried again')
            self._looks += 1
            self._rest()
            self._wake.wait(LOOK_S)

    def _renew_all(self) -> None:
        self._renew_first()
        self._round = self._seen
        if self._renew_part(False, self._round != self._done):
            self._done = self._round
            self._first_done.set()
        if self._renew_part(True, self._round != self._late_done):
            self._late_done = self._round

    def _renew_first(self) -> None:
        """Renew what comes first if the data changed; then another value has its turn."""
        self._seen = self._version()
        if self._seen == self._first_seen:
            return
        self._others_turn = True
        for call in self._first:
            if not self._stop.is_set():
                self._call(call, False)
        self._first_seen = self._seen

    def _renew_part(self, late: bool, changed: bool) -> bool:
        """Make again what is late, or all else; False when some of it has to wait."""
        for call in [call for call in tuple(self._always) if changed and call[1] is late]:
            if not self._renew(call[0], late):
                return False
            if late:
                self._always.remove(call)   # the next round begins where this one ends
                self._always.append(call)
        with self._lock:
            asked = [value for value in self._values.values()
                     if value.asked and value.late is late and value.is_old(self._seen)]
        # What is prepared comes last, and of each kind what was made longest ago first.
        asked.sort(key=lambda value: (value.asked_s == 0.0, value.made_s))
        for value in asked:
            value.asked = False
            if not self._renew(partial(self._renew_value, value), late):
                value.asked = True
                return False
        return not self._stop.is_set()

    def _renew_value(self, value: '_Value') -> None:
        value.renew(self._seen)

    def _renew(self, call: Callable[[], object], late: bool) -> bool:
        """Make one value; False when it is late and has to wait, or to go on later."""
        if late:
            rest_s = self._late_from_s - time.monotonic()
            if rest_s > LOOK_S:
                return False
            self._owed_s = max(self._owed_s, rest_s)
        self._rest()
        if self._stop.is_set() or (late and self._version() != self._round):
            return False
        self._others_turn = False
        return self._call(call, late)

    def _call(self, call: Callable[[], object], late: bool) -> bool:
        """Call, and owe a rest for it; False when it is late and has to go on later."""
        started_s, made = time.thread_time(), True
        try:
            call()
        except NotComputed:
            made = not late
        except ArenaError as error:    # kept, and raised where somebody asks
            log.debug('a value cannot be made: %s', error)
        finally:
            rest_s = REST * (time.thread_time() - started_s)
            if late:    # what is not late does not wait for this rest
                self._late_from_s = time.monotonic() + rest_s
            else:
                self._owed_s += rest_s
        return made

    def _rest(self) -> None:
        """Rest; meanwhile renew what comes first, once, where the data have changed."""
        while self._owed_s > 0.0 and not self._stop.is_set():
            part_s = min(self._owed_s, LOOK_S)
            self._owed_s -= part_s
            self._stop.wait(part_s)
            if not self._others_turn:
                self._renew_first()
        self._owed_s = 0.0


class _Value:
    """One value, or why there is none, and of which version of the data it is."""

    def __init__(self, make: Callable[[], Any], longest_s: float, late: bool) -> None:
        self._make, self._longest_s, self.late = make, longest_s, late
        self._version: Hashable = None
        self.made_s = self.took_s = 0.0
        self._lock = threading.RLock()
        self._found: Any = None
        self._error: ArenaError | None = None
        self.made = self.asked = False
        self.first = threading.Event()
        self.asked_s = 0.0

    def is_old(self, version: Hashable) -> bool:
        """Tell whether the value is of another version, or of too long ago."""
        return (not self.made or self._version != version
                or time.monotonic() - self.made_s > self._longest_s)

    def renew(self, version: Hashable) -> None:
        """Make the value if it is old."""
        with self._lock:
            if not self.is_old(version):
                return
            self.made_s = time.monotonic()
            try:
                self._found, self._error = self._make(), None
            except NotComputed:
                raise    # another value that it is made of comes later: this one does too
            except ArenaError as error:
                self._error = error
            self._version, self.made = version, True
            self.took_s = time.monotonic() - self.made_s
            self.first.set()

    def make_first(self, version: Hashable) -> None:
        """Make the value if there is none."""
        with self._lock:
            if not self.made:
                self.renew(version)

    def result(self) -> Any:
        """Return the value; raise what making it raised."""
        error, result = self._error, self._found
        if error is not None:
            raise error.with_traceback(None)
        return result
