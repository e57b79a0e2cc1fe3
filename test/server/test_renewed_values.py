"""Values made in the background: who asks gets the last one, and soon a newer one."""

import threading
import time
from functools import partial

import pytest

from arena_robot.core.errors import NotComputed, RankingError
from arena_robot.server import renewed_values
from arena_robot.server.renewed_values import LOOK_S, RenewedValues


class Data:
    """Data with a version, and a value made of it that a test can hold up."""

    def __init__(self):
        self.version, self.made = 0, []
        self.go_on = threading.Event()
        self.go_on.set()

    def value(self):
        now = self.version
        assert self.go_on.wait(20.0)
        self.made.append(now)
        if now < 0:
            raise RankingError('nothing to compare')
        return f'of {now}'


@pytest.fixture
def data():
    return Data()


@pytest.fixture
def values(data):
    renewed = RenewedValues(lambda: data.version)
    yield renewed
    data.go_on.set()
    renewed.close()
    assert not [t for t in threading.enumerate() if t.name == 'renewed values']


def eventually(tell, timeout_s=10.0):
    until_s = time.monotonic() + timeout_s
    while not tell():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_nobody_waits_for_a_value_that_was_there(data, values):
    values.open()
    assert values.get('x', data.value) == 'of 0'
    data.go_on.clear()
    data.version = 1
    values.look()
    eventually(lambda: values._seen == 1)
    assert values.get('x', data.value) == 'of 0', 'the newer one is not made yet'
    data.go_on.set()
    eventually(lambda: values.get('x', data.value) == 'of 1')


def test_what_is_first_made_of_older_values_during_a_renewal_is_made_again(data, values):
    values.always(lambda: values.get('x', data.value))
    values.open()
    assert values.settle()
    data.go_on.clear()
    data.version = 1
    values.look()
    eventually(lambda: values._seen == 1)

    def drawn():
        return f"a plot {values.get('x', data.value)}"
    assert values.get('plot', drawn) == 'a plot of 0'
    data.go_on.set()
    eventually(lambda: values.get('plot', drawn) == 'a plot of 1')


def test_waiting_is_no_work_to_rest_from(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'REST', 4.0)    # the site's tests have none

    def slow():
        time.sleep(1.0)
        return data.value()
    values.always(lambda: values.get('slow', slow))
    values.open()
    assert values.settle()
    waits = values._stop.wait
    rests = []
    values._stop.wait = lambda timeout_s: rests.append(timeout_s) or waits(timeout_s)
    data.version = 1
    values.look()
    eventually(lambda: rests and data.made == [0, 1])
    assert max(rests) < 0.5


def test_a_change_that_nobody_told_of_is_seen_within_the_period(data, values):
    values.open()
    values.get('x', data.value)
    assert values.settle()
    data.version, changed_s = 1, time.monotonic()
    eventually(lambda: values.get('x', data.value) == 'of 1')
    assert time.monotonic() - changed_s < LOOK_S + 1.0


def test_without_a_thread_a_value_is_always_of_the_newest_version(data, values):
    assert values.get('x', data.value) == 'of 0'
    data.version = 1
    assert values.get('x', data.value) == 'of 1'
    values.get('x', data.value)
    assert data.made == [0, 1]


def test_only_what_was_asked_for_is_made_again_but_always_what_is_named(data, values):
    unasked = Data()
    values.always(lambda: values.get('always', data.value))
    values.open()
    values.get('once', unasked.value)
    assert values.settle()
    for data.version in (1, 2, 3):
        assert values.settle()
    assert data.made == [0, 1, 2, 3]
    assert len(unasked.made) == 2, 'renewed once, and then nobody asked for it'


def test_a_value_made_of_another_is_made_of_its_newest(data, values):
    def outer():
        return f'outer {values.get("inner", data.value)}'
    values.open()
    assert values.get('outer', outer) == 'outer of 0'
    data.version = 1
    assert values.settle()
    assert values.get('outer', outer) == 'outer of 1'


def test_why_there_is_none_is_kept_too(data, values):
    data.version = -1
    values.open()
    for _ in range(3):
        with pytest.raises(RankingError, match='nothing to compare'):
            values.get('x', data.value)
    assert len(data.made) <= 2
    data.version = 1
    assert values.settle()
    assert values.get('x', data.value) == 'of 1'


def test_a_fault_while_renewing_keeps_the_last_value_and_the_thread(data, values, caplog):
    def broken():
        if data.version == 1:
            raise ZeroDivisionError
        return data.version
    values.open()
    assert values.get('x', broken) == 0
    data.version = 1
    assert values.settle()
    assert values.get('x', broken) == 0
    assert 'not all results were renewed' in caplog.text
    data.version = 2
    assert values.settle()
    assert values.get('x', broken) == 2


def test_a_value_may_also_grow_old(data, values):
    values.open()
    values.get('x', data.value, 0.0)
    values.get('x', data.value, 0.0)
    assert values.settle()
    assert len(data.made) >= 2


def test_the_oldest_is_dropped(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'MOST', 3)
    for name in 'abcad':
        values.get(name, data.value)
    assert set(values._values) == {'a', 'c', 'd'}


def test_who_asks_first_for_a_slow_value_is_told_to_ask_again(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'FIRST_S', 0.05)
    values.open()
    data.go_on.clear()
    for _ in range(2):
        with pytest.raises(NotComputed, match='ask for it again'):
            values.get('x', data.value, slow=True)
    assert values.get('y', lambda: 'at once') == 'at once'
    monkeypatch.setattr(renewed_values, 'FIRST_S', 60.0)
    for _ in range(renewed_values.MOST_WAIT):    # so many wait already
        assert values._waiters.acquire(blocking=False)
    with pytest.raises(NotComputed, match=r'which takes (about \d+ s|some minutes)'):
        values.get('z', data.value, slow=True)
    for _ in range(renewed_values.MOST_WAIT):
        values._waiters.release()
    with pytest.raises(NotComputed):    # it is there only when all others are: nobody waits
        values.get('late', data.value, slow=True, late=True)
    monkeypatch.setattr(renewed_values, 'FIRST_S', 0.05)
    with pytest.raises(NotComputed):
        values.get('of x', lambda: values.get('x', data.value, slow=True))
    data.go_on.set()
    eventually(lambda: data.made)
    eventually(lambda: values.get('x', data.value, slow=True) == 'of 0')
    assert values.get('of x', lambda: values.get('x', data.value, slow=True)) == 'of 0'


def test_what_is_late_is_made_after_all_others(data, values):
    order = []

    def value(name):
        return lambda: order.append(name)
    values.always(lambda: values.get('late', value('late'), late=True), late=True)
    values.always(lambda: values.get('first', value('first')))
    for name, late in (('late picture', True), ('picture', False)):
        values.get(name, value(name), late=late)
    values.open()
    assert values.settle()
    order.clear()
    for name, late in (('late picture', True), ('picture', False)):
        values.get(name, value(name), late=late)
    data.version = 1
    assert values.settle()
    assert order == ['first', 'picture', 'late', 'late picture']


def test_what_is_late_and_has_more_to_do_goes_on_after_the_newest(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'LOOK_S', 0.02)
    order = []

    def late():
        order.append('part')
        data.version += order.count('part') == 1
        if order.count('part') < 3:
            raise NotComputed('more to do')
    values.always(late, late=True)
    values.always(lambda: order.append('newest'))
    values.open()
    eventually(lambda: order.count('part') == 3)
    assert values.settle()
    assert order == ['newest', 'part', 'newest', 'part', 'part']


def test_the_rest_after_a_late_value_holds_up_no_other(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'REST', 1000.0)

    def work():
        end_s = time.thread_time() + 0.05
        while time.thread_time() < end_s:
            sum(range(1000))
    values.always(lambda: values.get('late', work, late=True), late=True)
    values.open()
    assert values.settle()
    begin_s = time.monotonic()
    data.version = 1
    while values.version() != 1:
        assert time.monotonic() < begin_s + 10.0, 'the rest of 50 s was waited for'
        time.sleep(0.01)


def test_late_values_hold_up_no_change_and_take_turns(data, values, monkeypatch):
    """The data change while the first late value is made: the newest comes before the others."""
    monkeypatch.setattr(renewed_values, 'LOOK_S', 0.02)
    monkeypatch.setattr(renewed_values, 'REST', 0.0)
    order = []

    def late(name):
        order.append(name)
        data.version += len(order) < 8
    for name in 'abc':
        values.always(partial(late, name), late=True)
    values.always(lambda: order.append('newest'))
    values.open()
    eventually(lambda: len(order) >= 10)
    assert order[:10] == ['newest', 'a', 'newest', 'b', 'newest', 'c', 'newest', 'a', 'b', 'c']


def test_what_comes_first_waits_for_no_rest_but_for_others(data, values, monkeypatch):
    monkeypatch.setattr(renewed_values, 'REST', 1000.0)
    monkeypatch.setattr(renewed_values, 'LOOK_S', 0.02)
    worked = threading.Event()

    def work():
        end_s = time.thread_time() + 0.05
        while data.version and time.thread_time() < end_s:
            worked.set()
    values.always(lambda: values.get('first', data.value), first=True)
    values.always(work)
    values.always(lambda: values.get('other', lambda: None))
    values.open()
    assert values.ready(10.0)
    data.version = 1
    assert worked.wait(10.0)    # a rest of 50 s begins
    data.version = 2
    eventually(lambda: values.get('first', data.value) == 'of 2')
    data.version = 3
    time.sleep(0.5)
    assert values.get('first', data.value) == 'of 2'
    assert values.version() == 0, 'what is not first waits for the rest'
