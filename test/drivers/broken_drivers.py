"""Drivers that break one promise each, by the check that must find it."""

import dataclasses
import threading

import numpy as np
import pytest
from lab_drivers import LabArm, LabCamera, LabGripper

from arena_robot.core.action import ArmCommand
from arena_robot.core.observation import Image

MAIN = threading.main_thread()


BROKEN = []


def breaks(check):
    """Mark a driver with the name of the check that must fail."""
    def mark(driver):
        BROKEN.append(pytest.param(driver, check, id=f'{driver.__name__}'))
        return driver
    return mark


@breaks('protocol_is_kept')
class NoRecovery(LabArm):
    recover = None


@breaks('reading_before_open_is_refused')
class AlwaysOpen(LabArm):
    def _require_open(self, what):
        pass


@breaks('opens_and_closes_twice')
class ClosesOnce(LabGripper):
    def close(self):
        if not self._open:
            raise RuntimeError('not open')
        super().close()


@breaks('waiting_gives_newer_readings')
class WaitsForNothing(LabArm):
    def wait_state(self, timeout_s):
        return self.state(1.0)


@breaks('newest_reading_is_of_now')
class StampsInMilliseconds(LabGripper):
    def reading(self, stamp_ns):
        return super().reading(stamp_ns // 1_000_000)


@breaks('limit_on_age_is_kept')
class AnyAgeWillDo(LabCamera):
    def frame(self, max_age_s=0.2):
        return super().frame(1e9)


@breaks('timeout_is_kept')
class WaitsAsLongAsItTakes(LabCamera):
    def wait_frame(self, timeout_s):
        return super().wait_frame(1.0)


@breaks('silence_is_stale_then_times_out')
class RepeatsTheLastReading(LabArm):
    def sample_ns(self, max_age_s):
        return super().sample_ns(1e9 if max_age_s > 0.0 else 0.0)


@breaks('other_threads_may_read')
class OneThreadOnly(LabGripper):
    def state(self, max_age_s=0.2):
        assert threading.current_thread() is MAIN
        return super().state(max_age_s)


@breaks('state_has_its_shapes')
class Degrees(LabArm):
    def reading(self, stamp_ns):
        state = super().reading(stamp_ns)
        return dataclasses.replace(state, q=np.degrees(state.q))


@breaks('state_has_its_shapes')
class PoseWithQuaternion(LabArm):
    def reading(self, stamp_ns):
        return dataclasses.replace(super().reading(stamp_ns), pose=np.zeros(7))


@breaks('states_do_not_share_memory')
class OneArray(LabArm):
    def reading(self, stamp_ns):
        return dataclasses.replace(super().reading(stamp_ns), q=self.q)


@breaks('opening_moves_nothing')
class MovesOnOpen(LabArm):
    def open(self):
        super().open()
        self.q = self.goal = self.q + 0.1


@breaks('stop_always_works')
class StopsOnlyWhenOpen(LabArm):
    def stop(self):
        self._require_open('the arm')
        super().stop()


@breaks('command_returns_what_is_tracked')
class ForgetsTheStamp(LabArm):
    def command(self, command):
        return ArmCommand(super().command(command).q, 0)


@breaks('command_returns_what_is_tracked')
class SaysWhatWasAsked(LabArm):
    def clipped(self, q):
        return q + 0.01

    def command(self, command):
        super().command(command)
        return command


@breaks('far_target_is_clipped')
class GoesAnywhere(LabArm):
    def clipped(self, q):
        return q


@breaks('bad_targets_are_refused')
class TakesNan(LabArm):
    def check(self, q):
        super().check(np.zeros(7) if np.shape(q) == (7,) else q)


@breaks('stop_ends_a_motion')
class FinishesFirst(LabArm):
    def stop(self):
        if self.motion is None:
            super().stop()


@breaks('moves_and_says_how_long_it_takes')
class SaysHalfTheTime(LabArm):
    def move_to(self, q, duration_s=None):
        return super().move_to(q, duration_s) / 2


@breaks('moves_and_says_how_long_it_takes')
class MovesForever(LabArm):
    def reading(self, stamp_ns):
        state = super().reading(stamp_ns)
        return dataclasses.replace(state, mode=type(state.mode).MOVE)


@breaks('holds_when_commands_end')
class DriftsOn(LabArm):
    hold_s = 1e9

    def follow(self, now_ns, dt):
        if (now_ns - self.told_ns) > 3e8:
            self.goal = self.goal + 0.3 * dt
        super().follow(now_ns, dt)


@breaks('tracks_a_stream')
class JointsBackwards(LabArm):
    def command(self, command):
        sent = super().command(ArmCommand(command.q, command.stamp_ns))
        self.goal = self.q + (self.goal - self.q)[::-1]
        return ArmCommand(self.goal.copy(), sent.stamp_ns)


@breaks('tripped_arm_wants_recovery')
class IgnoresTheUserStop(LabArm):
    def trip(self):
        pass


@breaks('state_is_in_range')
class OneIsOpen(LabGripper):
    def width(self):
        return 0.085 * self.position


@breaks('opening_moves_nothing')
class ActivatesOnOpen(LabGripper):
    def open(self):
        super().open()
        self.position = self.goal = 0.0 if self.position > 0.5 else 1.0


@breaks('nan_is_refused')
class TakesAnyPosition(LabGripper):
    def command(self, command):
        return super().command(dataclasses.replace(
            command, position=float(np.nan_to_num(command.position))))


@breaks('command_is_clipped_and_returned')
class ReturnsWhatWasAsked(LabGripper):
    def command(self, command):
        super().command(command)
        return command


@breaks('closes_and_opens')
class NeverMoving(LabGripper):
    def reading(self, stamp_ns):
        return dataclasses.replace(super().reading(stamp_ns), is_moving=False)


@breaks('stop_ends_a_motion')
class ClosesAnyway(LabGripper):
    def stop(self):
        self.step()


@breaks('fault_wants_activation')
class HidesFaults(LabGripper):
    def reading(self, stamp_ns):
        return dataclasses.replace(super().reading(stamp_ns), fault=0)


@breaks('eyes_have_one_stamp_and_the_promised_size')
class EyesApart(LabCamera):
    def grab(self, stamp_ns):
        frame = super().grab(stamp_ns)
        return dataclasses.replace(frame, right=Image(frame.right.pixels, stamp_ns + 5_000_000))


@breaks('eyes_have_one_stamp_and_the_promised_size')
class HalfSize(LabCamera):
    def grab(self, stamp_ns):
        frame = super().grab(stamp_ns)
        return dataclasses.replace(frame, left=Image(frame.left.pixels[::2, ::2], stamp_ns))


@breaks('eyes_differ_by_the_baseline')
class OneEye(LabCamera):
    def grab(self, stamp_ns):
        frame = super().grab(stamp_ns)
        return dataclasses.replace(frame, right=frame.left)


@breaks('sequence_counts_up')
class CountsNothing(LabCamera):
    def grab(self, stamp_ns):
        return dataclasses.replace(super().grab(stamp_ns), sequence=1)


@breaks('arrivals_tell_when_frames_came')
class NewestFirst(LabCamera):
    def arrivals(self):
        return super().arrivals()[::-1]


@breaks('has_a_serial')
class NumberAsSerial(LabCamera):
    serial = 4711
