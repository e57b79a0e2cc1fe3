"""Counts of what the server did, kept in memory and read by the metrics page."""

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

# Of the histogram: a call of the database takes milliseconds, a policy seconds.
BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
MOST_ROWS = 1000    # a fault in a label must not fill the memory

Labels = tuple[str, ...]


@dataclass
class Duration:
    """Durations of one kind: how many fell into each class of ``BOUNDS_S``, and their sum."""

    counts: list[int]
    sum_s: float = 0.0


class Counters:
    """
    Counters and durations by name and labels; any thread may call.

    Labels come from fixed lists. Rows beyond ``MOST_ROWS`` are not added.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = {}
        self._durations: dict[tuple[str, Labels], Duration] = {}

    def add(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        key = (name, labels)
        with self._lock:
            if key in self._counts or len(self._counts) < MOST_ROWS:
                self._counts[key] = self._counts.get(key, 0.0) + by

    def took(self, name: str, *labels: str, seconds: float) -> None:
        """Note how long something took."""
        key = (name, labels)
        with self._lock:
            duration = self._durations.get(key)
            if duration is None:
                if len(self._durations) >= MOST_ROWS:
                    return
                duration = self._durations[key] = Duration([0] * (len(BOUNDS_S) + 1))
            duration.counts[bisect_left(BOUNDS_S, seconds)] += 1
            duration.sum_s += seconds

    def count(self, name: str, *labels: str) -> float:
        """Return a counter."""
        with self._lock:
            return self._counts.get((name, labels), 0.0)

    def counts(self, name: str) -> Iterator[tuple[Labels, float]]:
        """Yield the rows of a counter: labels and value."""
        with self._lock:
            rows = [(labels, value) for (counter, labels), value in self._counts.items()
                    if counter == name]
        yield from rows

    def durations(self, name: str) -> Iterator[tuple[Labels, Duration]]:
        """Yield the rows of a duration: labels, and counts by class."""
        with self._lock:
            rows = [(labels, Duration(list(value.counts), value.sum_s))
                    for (kind, labels), value in self._durations.items() if kind == name]
        yield from rows
