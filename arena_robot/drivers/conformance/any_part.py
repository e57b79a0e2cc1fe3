"""Checks of what all parts promise: opening, reading, waiting. None of them moves anything."""

import threading
import time
from typing import TypeVar

import numpy as np

from arena_robot.core.errors import NotConnected, ReadTimeout, StaleData
from arena_robot.core.extensions import broken_members
from arena_robot.drivers.base import Part
from arena_robot.drivers.conformance.rig import Rig, hold, needed, refused

P = TypeVar('P', bound=Part)
_SHORT_S = 0.001    # shorter than the period of any driver
_SLACK_S = 0.02     # of the machine: a thread that wakes late


def protocol_is_kept(rig: Rig[P]) -> str:
    """The part has every member of its protocol, with the protocol's arguments."""
    broken = broken_members(rig.part, rig.protocol)
    hold(f'a look at {type(rig.part).__name__}', not broken, f'it lacks {", ".join(broken)}',
         f'add what the protocol {rig.protocol.__name__} in arena_robot.drivers.base has')
    return rig.protocol.__name__


def reading_before_open_is_refused(rig: Rig[P]) -> str:
    """A part that is not open says so, and what to do."""
    refused('a reading before open()', rig.newest_ns, NotConnected, 'open')
    return 'NotConnected'


def opens_and_closes_twice(rig: Rig[P]) -> str:
    """It can be opened again after it was closed, and closed twice."""
    for _ in range(2):
        with rig.opened():
            rig.newest_ns()
        rig.part.close()
    refused('a reading after close()', rig.newest_ns, NotConnected, 'open')
    return 'twice'


def waiting_gives_newer_readings(rig: Rig[P]) -> str:
    """Each wait returns a reading that is newer than the one before."""
    with rig.opened():
        stamps = [rig.next_ns() for _ in range(4)]
    steps = np.diff(stamps)
    hold('four waits in a row', bool(np.all(steps > 0)),
         f'stamps that are {", ".join(f"{step / 1e6:.1f}" for step in steps)} ms apart',
         'return only a reading that came after the call began, with its own capture time')
    return f'{np.mean(steps) / 1e6:.1f} ms apart'


def newest_reading_is_of_now(rig: Rig[P]) -> str:
    """The newest reading's stamp is in the past, by at most two periods."""
    with rig.opened():
        rig.next_ns()
        age_s = (rig.clock.now_ns() - rig.newest_ns()) * 1e-9
    most_s = 2 / rig.rate_hz
    hold('the newest reading', 0.0 <= age_s <= most_s,
         f'one of {age_s:.3f} s ago, accepted are 0 to {most_s:.3f} s',
         "stamp readings with their capture time on the station's clock, in ns, and keep reading "
         'in the background')
    return f'{age_s * 1e3:.1f} ms old'


def limit_on_age_is_kept(rig: Rig[P]) -> str:
    """A reading that is older than the limit that was given is refused."""
    with rig.opened():
        for _ in range(5):
            rig.advance(0.003)
            before_ns = rig.clock.now_ns()
            try:
                age_s = (before_ns - rig.newest_ns(0.0)) * 1e-9
            except StaleData:
                return 'StaleData'
            hold('the newest reading with max_age_s=0', age_s <= 0.0,
                 f'a reading of {age_s:.4f} s before the call',
                 'compare the age of the reading with max_age_s and raise StaleData')
    return 'readings are taken at the call'


def timeout_is_kept(rig: Rig[P]) -> str:
    """A wait ends in time when nothing new has come, with ReadTimeout."""
    spent = []
    with rig.opened():
        for _ in range(10):
            began_ns = rig.clock.now_ns()
            try:
                rig.next_ns(_SHORT_S)
            except ReadTimeout:
                return 'ReadTimeout'
            spent.append((rig.clock.now_ns() - began_ns) * 1e-9)
    hold(f'ten waits of {_SHORT_S} s', min(spent) < _SHORT_S + _SLACK_S,
         f'answers after {min(spent):.3f} s and more, no ReadTimeout',
         'give up after timeout_s and raise ReadTimeout')
    return 'readings come as fast as they are waited for'


def silence_is_stale_then_times_out(rig: Rig[P]) -> str:
    """A part that gives nothing new raises StaleData, and ReadTimeout to those who wait."""
    silence = needed(rig.silence, 'take the readings away')
    try:
        with rig.opened():
            rig.newest_ns()
            silence()
            rig.advance(0.3)
            refused('the newest reading after 0.3 s without one', lambda: rig.newest_ns(0.2),
                    StaleData, 'old')
            began = time.monotonic()
            refused('a wait of 0.1 s', lambda: rig.next_ns(0.1), ReadTimeout, '0.1')
            spent_s = time.monotonic() - began
            hold('a wait of 0.1 s', spent_s < 2.0, f'an answer after {spent_s:.1f} s',
                 'give up after timeout_s')
    finally:
        rig.mend()
    return 'StaleData, then ReadTimeout'


def other_threads_may_read(rig: Rig[P]) -> str:
    """Methods may be called from any thread."""
    errors: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(5):
                rig.newest_ns(1.0)
        except Exception as error:  # shown in the report
            errors.append(error)

    with rig.opened():
        rig.next_ns()
        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(3):
                rig.next_ns()
        finally:
            thread.join(10.0)
        hold('readings in a second thread', not thread.is_alive(), 'none within 10 s',
             'do not wait for the thread that opened the part')
    hold('readings in a second thread', not errors, '; '.join(repr(e) for e in errors),
         'guard what is shared with a lock, and bind nothing to the thread that opened the part')
    return 'two threads'


CHECKS = (protocol_is_kept, reading_before_open_is_refused, opens_and_closes_twice,
          waiting_gives_newer_readings, newest_reading_is_of_now, limit_on_age_is_kept,
          timeout_is_kept, silence_is_stale_then_times_out, other_threads_may_read)
