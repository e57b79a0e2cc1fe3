"""Checks of a camera; nothing moves."""

import numpy as np

from arena_robot.core.conformance import Check, CheckSkipped
from arena_robot.core.observation import EYES
from arena_robot.drivers.conformance import any_part
from arena_robot.drivers.conformance.rig import CameraRig, hold


def eyes_have_one_stamp_and_the_promised_size(rig: CameraRig) -> str:
    """Both eyes of a frame were captured at once, in the size that info() tells."""
    with rig.opened() as camera:
        frame, info = camera.wait_frame(2.0), camera.info()
    hold('a frame', frame.left.stamp_ns == frame.right.stamp_ns,
         f'eyes {abs(frame.left.stamp_ns - frame.right.stamp_ns) / 1e6:.1f} ms apart',
         'give both eyes of a grab the same stamp')
    hold('info()', set(info) in (set(EYES), set(EYES[:1])), f'{sorted(info)}',
         "describe 'left' and 'right', or 'left' of a camera with one eye")
    for eye, image in (('left', frame.left), ('right', frame.right)):
        wanted = (info[eye].height, info[eye].width, 3) if eye in info else (0, 0, 3)
        hold(f'the {eye} eye', image.pixels.shape == wanted, f'{image.pixels.shape}',
             f'return {wanted}, as info() says')
        hold(f'the {eye} eye', image.pixels.dtype == np.uint8, f'{image.pixels.dtype}',
             'return uint8 RGB')
    if (depth := frame.depth) is not None:
        there, size = depth.millimetres, frame.left.pixels.shape[:2]
        fits = there.shape == size and there.dtype == np.uint16
        hold('the depth', fits and depth.stamp_ns == frame.left.stamp_ns,
             f'{there.shape} {there.dtype}',
             f"return {size} uint16 in mm, of the left eye's pixels and with its stamp")
    return f'{info["left"].width} x {info["left"].height}'


def eyes_differ_by_the_baseline(rig: CameraRig) -> str:
    """The eyes see different pictures, from as far apart as info() tells."""
    with rig.opened() as camera:
        frame, info = camera.wait_frame(2.0), camera.info()
    if set(info) == set(EYES[:1]):
        raise CheckSkipped('a camera with one eye')
    hold('a frame', not np.array_equal(frame.left.pixels, frame.right.pixels),
         'the same picture twice', 'return the left and the right picture')
    left, right = info['left'], info['right']
    hold('info()', left.baseline_m == 0.0 and right.baseline_m > 0.02,
         f'baselines {left.baseline_m} and {right.baseline_m} m',
         'tell 0 for the left eye and the distance in m for the right one')
    shift = right.p()[0, 3]
    hold('info()', bool(np.isclose(shift, -right.k[0, 0] * right.baseline_m)), f'P[3] {shift}',
         'P[3] is -fx * baseline')
    return f'{right.baseline_m * 1e3:.0f} mm'


def sequence_counts_up(rig: CameraRig) -> str:
    """Frames are numbered."""
    with rig.opened() as camera:
        numbers = [camera.wait_frame(2.0).sequence for _ in range(3)]
    hold('three frames', bool(np.all(np.diff(numbers) >= 1)), f'{numbers}',
         'count every grab in sequence')
    return ', '.join(str(number) for number in numbers)


def arrivals_tell_when_frames_came(rig: CameraRig) -> str:
    """The capture times of the newest frames are listed with the times when they came."""
    with rig.opened() as camera:
        stamps = [camera.wait_frame(2.0).left.stamp_ns for _ in range(4)]
        pairs = camera.arrivals()
    listed = {stamp for stamp, _ in pairs}
    own_rate = bool(pairs) if rig.own_rate is None else rig.own_rate
    if own_rate:
        hold('arrivals() after four frames', {*stamps[:-1]} <= listed,
             f'{len({*stamps} - listed)} of four are not listed', 'list every frame since open')
    else:
        hold('arrivals() of a camera without a rate of its own', not pairs, f'{len(pairs)} pairs',
             'return an empty list')
    late = [came - stamp for stamp, came in pairs]
    hold('arrivals()', all(0 <= delay_ns < 1e9 for delay_ns in late),
         f'frames that came {min(late, default=0) / 1e6:.0f} to {max(late, default=0) / 1e6:.0f} '
         'ms after their capture', 'pair the capture time with the time when the frame came')
    hold('arrivals()', bool(np.all(np.diff([stamp for stamp, _ in pairs]) > 0)),
         'stamps that do not grow', 'list the oldest first')
    return f'{len(pairs)} listed'


def has_a_serial(rig: CameraRig) -> str:
    """The serial names the device."""
    with rig.opened() as camera:
        serial = camera.serial
    hold('serial', isinstance(serial, str) and bool(serial), repr(serial),
         'return the serial number as a string')
    return serial


STILL: tuple[Check[CameraRig], ...] = (
    *any_part.CHECKS, eyes_have_one_stamp_and_the_promised_size, eyes_differ_by_the_baseline,
    sequence_counts_up, arrivals_tell_when_frames_came, has_a_serial)
