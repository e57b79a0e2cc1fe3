"""What a person is told while a rollout waits for a part, or for a stop after a failure."""

from test_rollout import Bench

from arena_robot.core.episode import EndReason
from arena_robot.core.errors import DriverError, StaleData
from arena_robot.session.loop import parts as parts_module


def test_a_part_that_is_waited_for_is_told_while_it_lasts(monkeypatch):
    monkeypatch.setattr(parts_module, 'SILENT_S', 0.0)
    bench, sentences = Bench(steps=8), []
    state = bench.arm.state

    def stale(max_age_s=0.1):
        bench.arm.state = state
        raise StaleData('too old')

    def waited(timeout_s):
        sentences.append(bench.rollout.waiting())
        return state()
    bench.arm.wait_state = waited
    bench.sink.at[3] = lambda: setattr(bench.arm, 'state', stale)
    assert bench.rollout.run().end is EndReason.TIMEOUT
    assert sentences == ['The arm has sent nothing new for half a second; the arm holds.']
    assert bench.rollout.waiting() == ''


def test_a_failure_is_told_before_the_arm_has_taken_the_stop():
    bench, sentences = Bench(steps=100), []
    stop = bench.arm.stop

    def take_long():
        sentences.append(bench.rollout.waiting())
        stop()
    bench.arm.stop = take_long
    bench.sink.at[3] = lambda: setattr(bench.arm, 'fail', DriverError('no route to the arm'))
    assert bench.rollout.run().end is EndReason.DRIVER_ERROR
    assert sentences == ['no route to the arm. The arm has not confirmed yet that it is at rest.']
