"""USB cameras through V4L2, on files and pipes that the same code reads, and on a drawn /sys."""

import errno
import os
import struct
import threading
import time

import cv2
import numpy as np
import pytest
from bad_input import TOLD_S, told
from waiting import until

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, NotConnected, ReadTimeout, StaleData
from arena_robot.drivers import grabbing
from arena_robot.drivers import uvc as uvc_camera
from arena_robot.drivers.conformance.any_part import newest_reading_is_of_now
from arena_robot.drivers.conformance.camera import eyes_have_one_stamp_and_the_promised_size
from arena_robot.drivers.conformance.pytest_suite import CameraConformance
from arena_robot.drivers.conformance.rig import CameraRig
from arena_robot.drivers.uvc import UvcCamera, rectification, video_devices

SERIAL, SIZE = '20000001', (672, 376)
BUSY_S = 30.0
CONF = """
[LEFT_CAM_VGA]
fx=264.9
fy=264.8
cx=334.6
cy=189.3
k1=-0.0412
k2=0.0108
p1=0.0003
p2=-0.0002
k3=-0.0051
[RIGHT_CAM_VGA]
fx=265.7
fy=265.5
cx=337.1
cy=187.4
k1=-0.0405
k2=0.0099
p1=0.0002
p2=0.0001
k3=-0.0048
[STEREO]
Baseline=119.905
TY=-3.5
TZ=0.31
CV_VGA=0.0535
RX_VGA=0.0081
RZ_VGA=-0.0128
"""


def yuyv(number):
    """Return a frame of both eyes side by side: ramps, brighter with each frame, and right."""
    y = np.add.outer(np.arange(SIZE[1]), np.arange(2 * SIZE[0])) // 8 % 120 + 20 + number * 10
    y[:, SIZE[0]:] += 40
    frame = np.full((SIZE[1], 2 * SIZE[0], 2), 128, np.uint8)
    frame[:, :, 0] = y
    return frame


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp('uvc')
    (folder / 'SN.conf').write_text(CONF)
    (folder / 'frames.yuyv').write_bytes(b''.join(yuyv(n).tobytes() for n in range(4)))
    return folder


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A lost camera is looked for more often; this machine's own cameras are left alone."""
    monkeypatch.setattr(grabbing, 'AGAIN_S', 0.05)
    monkeypatch.setattr(uvc_camera, 'video_devices', list)


def camera(place, **options):
    return UvcCamera(SERIAL, **{'device': str(place / 'frames.yuyv'), 'resolution': 'VGA',
                                'fps': 60, 'calibration': str(place / 'SN.conf'), **options})


class TestUvc(CameraConformance):
    @pytest.fixture
    def rig(self, place):
        frames, away, part = place / 'frames.yuyv', place / 'away.yuyv', camera(place)

        def silence():
            frames.rename(away)
            until(lambda: part._problem)    # frames from before are still under way

        def mend():
            if away.exists():
                away.rename(frames)
        return CameraRig(part, SystemClock(), silence=silence, mend=mend, max_age_s=1.0,
                         rate_hz=4.0, harmless=True, own_rate=True)


class TestOneEye(CameraConformance):
    checks = (eyes_have_one_stamp_and_the_promised_size, newest_reading_is_of_now)

    @pytest.fixture
    def rig(self, place):
        return CameraRig(camera(place, side_by_side=False, resolution='1344x376', focal=0.8),
                         SystemClock(), max_age_s=1.0, rate_hz=4.0, harmless=True, own_rate=True)


@pytest.fixture
def controls(monkeypatch):
    """A camera behind the kernel's calls: manual or by-aperture exposure, and gain alone."""
    values, ranges = {}, {0x009A0901: (0, 3), 0x009A0902: (3, 2047), 0x00980913: (0, 100)}

    def ioctl(device, request, buffer):
        control = struct.unpack_from('=I', buffer)[0]
        if control not in ranges:
            raise OSError(errno.EINVAL, 'Invalid argument')
        if request == 0xC0445624:
            struct.pack_into('=ii', buffer, 40, *ranges[control])
            return
        value = struct.unpack('=Ii', buffer)[1]
        if (control, value) == (0x009A0901, 0):
            raise OSError(errno.EINVAL, 'Invalid argument')
        values[control] = value
    monkeypatch.setattr(uvc_camera.fcntl, 'ioctl', ioctl)
    return values


def test_a_device_takes_exposure_and_gain_and_refuses_what_it_does_not_have(controls):
    def take(exposure_us, gain):
        uvc_camera.set_controls('/dev/null', {'exposure_us': exposure_us, 'gain': gain})

    take(8000, 30)
    assert controls == {0x009A0901: 1, 0x009A0902: 80, 0x00980913: 30}
    with told(ConfigError, 'exposure_us 100: /dev/null has 300 to 204700; -1: automatic'):
        take(100, 40)
    with told(ConfigError, 'gain 101: /dev/null has 0 to 100; -1: automatic'):
        take(9000, 101)
    assert controls == {0x009A0901: 1, 0x009A0902: 80, 0x00980913: 30}
    take(-1, -1)            # it has no automatic gain
    assert controls == {0x009A0901: 3, 0x009A0902: 80, 0x00980913: 30}
    with told(NotConnected, '/dev/none does not take'):
        uvc_camera.set_controls('/dev/none', {})


def test_exposure_changes_between_two_frames_of_a_camera_but_not_of_a_file(place, controls):
    with camera(place) as opened:
        with told(ConfigError, 'frames.yuyv is no camera: it has neither exposure_us nor gain'):
            opened.set_picture({'exposure_us': 8000, 'gain': -1})
        opened._source._is_live = True
        opened.set_picture({'exposure_us': 8000, 'gain': 30})
    assert controls[0x009A0902] == 80
    assert opened._source._settings.gain == 30      # set again when it is connected again


def test_eyes_are_split_and_rectified(place):
    stereo = rectification(place / 'SN.conf', SIZE)
    with camera(place) as opened:
        frame, info = opened.wait_frame(BUSY_S), opened.info()
        assert opened.serial == SERIAL
    rgbs = [cv2.cvtColor(yuyv(n), cv2.COLOR_YUV2RGB_YUY2) for n in range(4)]
    for eye, image, half in (('left', frame.left, slice(0, SIZE[0])),
                             ('right', frame.right, slice(SIZE[0], None))):
        assert any(np.array_equal(image.pixels, stereo.apply(eye, rgb[:, half])) for rgb in rgbs)
        np.testing.assert_allclose(info[eye].k, stereo.k)
    assert info['right'].p()[0, 3] == pytest.approx(-stereo.k[0, 0] * stereo.baseline_m)


def test_rectified_eyes_see_a_point_in_the_same_row(place):
    """Points are projected by OpenCV with the file's numbers, and found again after rectifying."""
    stereo = rectification(place / 'SN.conf', SIZE)
    assert stereo.baseline_m == pytest.approx(0.119956, rel=1e-4)
    points = np.random.default_rng(1).uniform((-900, -500, 1500), (900, 500, 3000), (40, 3))
    turn, shift = np.array([0.0081, 0.0535, -0.0128]), np.array([119.905, -3.5, 0.31])
    lenses = {'left': (264.9, 264.8, 334.6, 189.3, (-0.0412, 0.0108, 3e-4, -2e-4, -0.0051)),
              'right': (265.7, 265.5, 337.1, 187.4, (-0.0405, 0.0099, 2e-4, 1e-4, -0.0048))}
    rows = {}
    for eye, (fx, fy, cx, cy, lens) in lenses.items():
        at = (turn, shift) if eye == 'right' else (np.zeros(3), np.zeros(3))
        seen = cv2.projectPoints(points, *at, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]),
                                 np.array(lens))[0].reshape(-1, 2)
        # The map says where each rectified pixel is taken from: the nearest to what was seen.
        first, second = stereo.maps[eye]
        x, y = cv2.convertMaps(first, second, cv2.CV_32FC1)[:2]
        rows[eye] = np.array([np.unravel_index(
            np.argmin((x - u) ** 2 + (y - v) ** 2), x.shape)[0] for u, v in seen])
    assert np.abs(rows['left'] - rows['right']).max() <= 1


def test_a_pipe_gives_every_frame_as_it_was_written(place, tmp_path):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    done = threading.Event()

    def write():
        with pipe.open('wb', buffering=0) as out:
            for number in range(8):
                out.write(yuyv(number).tobytes())
            done.wait(BUSY_S)

    writer = threading.Thread(target=write)
    writer.start()
    closed = UvcCamera(SERIAL, device=str(pipe), resolution='VGA', focal=0.4, baseline_m=0.12)
    source, grabs = closed._source, []
    source.connect()
    try:
        grabs = [source.grab() for _ in range(8)]
    finally:
        done.set()
        writer.join(BUSY_S)
        source.disconnect()
    for number, grab in enumerate(grabs):
        rgb = cv2.cvtColor(yuyv(number), cv2.COLOR_YUV2RGB_YUY2)
        np.testing.assert_array_equal(np.hstack([grab.left, grab.right]), rgb)


def test_a_camera_that_goes_away_comes_back(place):
    frames, away = place / 'frames.yuyv', place / 'gone.yuyv'
    with camera(place) as opened:
        frames.rename(away)
        end_s = time.monotonic() + TOLD_S
        said = ''
        while 'there is no such device; is the camera plugged in?' not in said:
            assert time.monotonic() < end_s, said
            try:
                opened.wait_frame(0.2)
            except (ReadTimeout, StaleData) as error:
                said = str(error)
        away.rename(frames)
        opened.wait_frame(BUSY_S)


@pytest.mark.parametrize(('options', 'said'), [
    ({'device': '/dev/video77'}, 'there is no such device'),
    ({'calibration': '/none.conf'}, 'there is no file /none.conf'),
    ({'calibration': '', 'serial': 'none'}, r'save https://.*=none as ~/zed/settings/SNnone.conf'),
    ({'calibration': __file__}, 'is no calibration file of a ZED'),
    ({'resolution': 'HD720'}, 'is no calibration file of a ZED.*left_cam_hd'),
    ({'resolution': '640x480'}, 'no calibration for 640 x 480'),
    ({'device': ''}, 'no USB camera with serial number 20000001 is plugged in; found: none'),
    ({'side_by_side': False}, 'set driver.focal'),
])
def test_what_is_missing_is_named(place, options, said):
    options = dict(options)
    closed = camera(place, **{k: v for k, v in options.items() if k != 'serial'})
    if 'serial' in options:
        closed._source._asked = options['serial']
    with told(NotConnected, said):
        closed.open()


@pytest.mark.parametrize(('options', 'said'), [
    ({'resolution': 'HD7200'}, "Did you mean 'HD720'"),
    ({'pixel_format': 'mjpg'}, "Did you mean 'mjpeg'"),
    ({'fps': 0}, '1 to 240'),
])
def test_settings_that_no_camera_has_are_refused(place, options, said):
    with pytest.raises(ConfigError, match=said):
        camera(place, **options).open()


@pytest.fixture
def sys_folder(tmp_path):
    """Draw /sys with two ZED 2i (a hub with camera and sensors each), a webcam, and a card."""
    def usb(where, **files):
        folder = tmp_path / 'devices/usb1' / where
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(f'{text}\n')

    def video(number, where, name, index=0):
        node = tmp_path / f'class/video4linux/video{number}'
        node.mkdir(parents=True)
        (node / 'index').write_text(f'{index}\n')
        (node / 'name').write_text(f'{name}\n')
        target = tmp_path / 'devices/usb1' / where
        target.mkdir(parents=True, exist_ok=True)
        (node / 'device').symlink_to(target)

    for port, serial in (('1-2', '30000007'), ('1-3', '30000009')):
        usb(f'{port}/{port}.1', idVendor='2b03', idProduct='f880')
        usb(f'{port}/{port}.2', idVendor='2b03', idProduct='f881', serial=serial)
    usb('1-4', idVendor='046d', idProduct='0825', serial='8C2F')
    video(0, '1-3/1-3.1/1-3.1:1.0', 'ZED 2i: ZED 2i')
    video(1, '1-3/1-3.1/1-3.1:1.0', 'ZED 2i: ZED 2i', index=1)
    video(2, '1-2/1-2.1/1-2.1:1.0', 'ZED 2i: ZED 2i')
    video(4, '1-4/1-4:1.0', 'C270')
    video(6, '../pci', 'card')
    return tmp_path


def test_serial_numbers_of_zeds_are_those_of_their_sensors(sys_folder):
    serials = {device.path: device.serial for device in video_devices(sys_folder)}
    assert serials == {'/dev/video0': '30000009', '/dev/video2': '30000007',
                       '/dev/video4': '8C2F'}


def test_a_zed_without_sensors_is_named_by_its_port(sys_folder):
    (sys_folder / 'devices/usb1/1-2/1-2.2/serial').unlink()
    assert video_devices(sys_folder)[1].serial == 'usb-1-2.1'


def test_exchanged_cameras_are_refused(sys_folder, monkeypatch):
    monkeypatch.setattr(uvc_camera, 'video_devices', lambda: video_devices(sys_folder))
    with told(NotConnected, r'is the camera 30000009 .*asked for was 30000007; '
                            r'are two cameras exchanged'):
        UvcCamera('30000007', device='/dev/video0').open()
    with pytest.raises(NotConnected, match=r'found: 30000009 \(ZED 2i: ZED 2i, /dev/video0\), .*'
                                           'set serial_number'):
        UvcCamera().open()
    with pytest.raises(NotConnected, match=r'no USB camera with serial number 5 is plugged in; '
                                           r'found: 30000009'):
        UvcCamera('5').open()
