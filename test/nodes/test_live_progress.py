"""Live progress of a rollout, and the end of one that stands still, without a station."""

import threading

import numpy as np
import pytest
from waiting import until

from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import NotConnected, StaleData
from arena_robot.core.observation import Image
from arena_robot.drivers.base import StereoFrame
from arena_robot.nodes.audit import LiveProgress
from arena_robot.nodes.session import standstill
from arena_robot.nodes.session.standstill import Standstill


class Steady:
    """A judge that says a tenth more with every frame that it has not seen."""

    name, capabilities = 'steady', Capabilities()

    def __init__(self):
        self.asked = 0

    def progress(self, clip):
        self.asked += 1
        assert clip.instruction == 'lift the cup'
        return trace_of(clip, np.full(len(clip), min(self.asked / 10, 1.0)), self.name)

    def compare(self, pair):
        return None


class Lens:
    """A camera that is late at first."""

    def __init__(self, opens=True):
        self.opens, self.frames = opens, 0

    def open(self):
        if not self.opens:
            raise NotConnected('no camera')

    def frame(self, max_age_s):
        self.frames += 1
        if self.frames < 3:
            raise StaleData('nothing came yet')
        image = Image(np.zeros((2, 2, 3), np.uint8), 0)
        return StereoFrame(image, image, self.frames)


def test_a_rollout_is_followed_until_it_ends(caplog):
    values, enough = [], threading.Event()

    def tell(value):
        values.append(value)
        if len(values) == 3:
            enough.set()
    judge = Steady()
    live = LiveProgress(judge, {'left': Lens()}, 50.0, tell)
    live.start('lift the cup')
    live.start('lift the cup')
    assert enough.wait(20.0)
    live.stop()
    threads = [t for t in threading.enumerate() if t.name == 'live progress']
    for thread in threads:
        thread.join(20.0)
    count = len(values)
    assert values[:3] == pytest.approx([0.1, 1 / 6, 1.7 / 7]), 'averaged over the newest'
    live.start('lift the cup')    # the next rollout
    until(lambda: len(values) > count)
    live.stop()
    LiveProgress(judge, {'left': Lens(opens=False)}, 50.0, tell).start('x')
    until(lambda: 'no camera' in caplog.text)


def test_a_rollout_that_stands_still_is_ended_once(monkeypatch):
    heard, ended, now = {}, threading.Semaphore(0), [0.0]
    monkeypatch.setattr(standstill.qos, 'subscription',
                        lambda node, kind, topic, callback, profile: heard.update({
                            topic: callback}))
    slot, calls = [Slot.A], []

    def stop(reason, detail):
        calls.append((reason, detail))
        ended.release()
    Standstill(None, 'audit_node/progress', 5.0, lambda: slot[0], stop,
               lambda: now[0])
    say = heard['audit_node/progress']

    def values(count, value=0.3):
        for _ in range(count):
            now[0] += 1.0
            say(standstill.Float64(data=value))
    values(5)
    assert calls == []
    values(1)
    assert ended.acquire(timeout=20.0)
    values(9)
    slot[0] = None
    values(9)
    slot[0] = Slot.B
    values(5, 0.6)
    assert len(calls) == 1
    values(1, 0.6)
    assert ended.acquire(timeout=20.0)
    assert [reason for reason, _ in calls] == [EndReason.TIMEOUT] * 2
    assert 'no progress for 5 s' in calls[0][1]
