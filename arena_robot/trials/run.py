"""Many trials: one after the other here, or at once in several processes or on a cluster."""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator, Sequence

from arena_robot.core.parallel import Done, Workers, nothing
from arena_robot.trials.trial import Course, Trial, TrialOutcome

STDOUT, STDERR = 1, 2

# A worker of a cluster may have several threads, and pictures are drawn by one at a time.
_turn = threading.Lock()


def run_all(trials: Sequence[Trial], workers: Workers,
            done: Done[TrialOutcome] = nothing) -> list[TrialOutcome]:
    """
    Return the outcomes in the order of ``trials``; the same for all ``workers``.

    ``done`` is called with each one as it arrives. Raises what a trial raised.
    """
    try:
        return workers.map(run_here, trials, done)
    finally:
        _close()


def run_here(trial: Trial) -> TrialOutcome:
    """Run one trial in this process, which keeps its policies; what they print is no result."""
    with _turn, printing_elsewhere():
        return _course().run(trial)


@contextlib.contextmanager
def printing_elsewhere() -> Iterator[None]:
    """Send what this process prints to standard error, also what C libraries print."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        libc.fflush(None)   # C keeps what it prints until its buffer is full
        os.dup2(kept, STDOUT)
        os.close(kept)


@functools.cache
def _course() -> Course:
    return Course()


def _close() -> None:
    """Close the policies of this process."""
    with _turn:
        _course().close()
        _course.cache_clear()
