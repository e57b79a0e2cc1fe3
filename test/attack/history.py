"""
What clients asked of servers and were answered, and whether one order of the calls explains it.

Each call of a history has the time when it was asked and the time of its answer. An order explains
the history when it puts no call before one that was answered before it was asked, and when every
answer is right at its place (Wing and Gong, Testing and Verifying Concurrent Objects, 1993). A
call without an answer may have been carried out at any time after it was asked, or never.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

State = TypeVar('State')
NO_ANSWER = 'no answer'
TAKEN, REFUSED, WAITS = 'taken', 'refused', 'waits'


@dataclass(frozen=True)
class Call:
    """One call about ``subject``: what was asked and answered, and when (s)."""

    subject: str
    name: str
    asked: Any
    answer: Any
    begin_s: float
    end_s: float


class History:
    """Calls of many threads."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._lock = threading.Lock()

    def add(self, subject: str, name: str, asked: Any, answer: Any, begin_s: float) -> None:
        """Add a call that was answered now, or that nothing will be heard of."""
        end_s = math.inf if answer is NO_ANSWER else time.monotonic()
        with self._lock:
            self.calls.append(Call(subject, name, asked, answer, begin_s, end_s))

    def unexplained(self) -> list[list[Call]]:
        """Return the calls of each subject that no order explains."""
        subjects: dict[str, list[Call]] = {}
        for call in self.calls:
            subjects.setdefault(call.subject, []).append(call)
        return [calls for calls in subjects.values() if not explained(calls, Known(), after)]


class Known(NamedTuple):
    """
    What is settled about a request for a pair, a session, or the log.

    ``pair`` was drawn for the request, ``verdict`` and ``names`` are the session's; the session
    ``counts``, or is ``final``: it never will. The log has so many ``entries``.
    """

    pair: Any = None
    verdict: Any = None
    counts: bool = False
    final: bool = False
    names: Any = None
    entries: int = 0


def after(known: Known, call: Call) -> list[Known]:
    """Return what may be settled after a call, nothing when its answer is wrong here."""
    name, asked, answer = call.name, call.asked, call.answer
    settled: tuple[bool, Known]
    if name == 'judge' and answer in (TAKEN, NO_ANSWER):
        settled = known.verdict in (None, asked), known._replace(verdict=asked)
    elif answer is NO_ANSWER:
        return [known]
    elif name == 'judge':
        settled = known.verdict not in (None, asked), known
    elif name == 'draw':
        settled = known.pair in (None, answer), known._replace(pair=answer)
    elif name == 'reveal' and answer == WAITS:
        settled = not known.counts, known
    elif name == 'reveal' and answer == REFUSED:
        settled = not known.counts, known._replace(final=True)
    elif name == 'reveal':    # it counts from some time before
        settled = (known.verdict is not None and not known.final
                   and known.names in (None, answer)), known._replace(counts=True, names=answer)
    elif name == 'look':
        verdict, counts = answer
        settled = verdict == known.verdict and (counts or not known.counts) and not (
            counts and known.final), known._replace(counts=counts)
    else:
        assert name == 'log', name
        settled = answer >= known.entries, known._replace(entries=answer)
    return [settled[1]] if settled[0] else []


def explained(calls: Sequence[Call], state: State,
              after: Callable[[State, Call], Iterable[State]]) -> bool:
    """Tell whether some order of the calls explains every answer, from ``state`` on."""
    begun = frozenset(range(len(calls))), state
    seen, waiting = {begun}, [begun]
    while waiting:
        left, now = waiting.pop()
        soonest_s = min((calls[k].end_s for k in left), default=math.inf)
        if soonest_s == math.inf:
            return True    # what is left was perhaps never carried out
        for k in left:
            if calls[k].begin_s <= soonest_s:
                steps = {(left - {k}, then) for then in after(now, calls[k])} - seen
                seen |= steps
                waiting += steps
    return False
