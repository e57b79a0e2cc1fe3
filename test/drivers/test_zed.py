"""The ZED driver on the stand-in for the SDK: the contract, the picture, and what can go wrong."""

import importlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from bad_input import TOLD_S, in_time
from waiting import until

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, DriverError, NotConnected, StaleData
from arena_robot.drivers import grabbing
from arena_robot.drivers.conformance.pytest_suite import CameraConformance
from arena_robot.drivers.conformance.rig import CameraRig
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder, picture, plug_in
from arena_robot.drivers.sim.room_model import camera_info
from arena_robot.drivers.zed import ZedCamera, source_of

LEFT, WRIST = '20000001', '10000003'
# The devices of these tests come back sooner than real ones.
BACK_S = 0.3
PLUGGED = {LEFT: EmulatedZed('left', back_s=BACK_S), WRIST: EmulatedZed('wrist', back_s=BACK_S)}
BUSY_S = 30.0
START_S = 10.0      # of the SDK's process, on a busy machine


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Return the stand-in's folder, which is first on the path."""
    path = tmp_path_factory.mktemp('zed')
    make_folder(path, PLUGGED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield path
    forget()


@pytest.fixture(autouse=True)
def plugged(folder, monkeypatch):
    """Every test begins with both cameras, back long ago; a lost one is looked for more often."""
    for lost in folder.glob('*.lost'):
        lost.unlink()
    plug_in(folder, PLUGGED)
    monkeypatch.setattr(grabbing, 'AGAIN_S', 0.05)


def forget():
    for name in [name for name in sys.modules if name.split('.')[0] == 'pyzed']:
        del sys.modules[name]


def zed(serial=LEFT, **options):
    return ZedCamera(serial, **{'resolution': 'VGA', 'fps': 30, **options})


def refusal(camera, kind=NotConnected):
    """Return what open() says."""
    with in_time(START_S), pytest.raises(kind) as caught:
        camera.open()
    return str(caught.value)


def until_says(camera, text, seconds=START_S):
    """Read until it says why there is nothing new, in time."""
    said = ['']

    def says():
        try:
            camera.frame(0.2)
        except StaleData as error:
            said[0] = str(error)
        return text in said[0]
    until(says, lambda: said[0], seconds)


class TestZed(CameraConformance):
    stream = 'stereo'

    @pytest.fixture
    def rig(self, folder):
        def silence():
            plug_in(folder, {})
            until_says(part, 'no ZED')      # frames from before are still under way
        part = zed(fps=100, stream=self.stream)
        return CameraRig(part, SystemClock(), silence=silence,
                         mend=lambda: plug_in(folder, PLUGGED), max_age_s=1.0, rate_hz=4.0,
                         harmless=True, own_rate=True)


class TestZedDepth(TestZed):
    stream = 'depth'


def test_depth_is_of_the_left_eye_s_pixels_in_millimetres():
    with zed(stream='depth') as camera:
        kept = camera.wait_frame(BUSY_S)
        assert set(camera.info()) == {'left'}
        camera.wait_frame(BUSY_S)
    assert (kept.left.pixels.shape, kept.right.pixels.size) == ((376, 672, 3), 0)
    np.testing.assert_array_equal(kept.left.pixels[8:], picture(
        PLUGGED[LEFT], 'left', (672, 376))[8:, :, 2::-1])
    wanted = np.tile(np.arange(300, 972, dtype=np.uint16), (376, 1))
    wanted[:8, :8] = 0
    np.testing.assert_array_equal(kept.depth.millimetres, wanted)
    assert kept.depth.stamp_ns == kept.left.stamp_ns


def test_without_depth_the_sdk_computes_none(source):
    sl = importlib.import_module('pyzed.sl')
    both = source()
    assert both._camera._init.depth_mode is sl.DEPTH_MODE.NONE
    assert both.grab().depth is None
    with pytest.raises(DriverError, match='gives no depth: INVALID_FUNCTION_CALL'):
        both._depth(sl.Mat())


def test_both_eyes_are_rectified_rgb_with_the_calibration_of_the_camera():
    with zed(resolution='HD720', fps=15) as camera:
        frame, info = camera.wait_frame(BUSY_S), camera.info()
    for eye, image in (('left', frame.left), ('right', frame.right)):
        shown = picture(PLUGGED[LEFT], eye, (1280, 720))[8:, :, 2::-1]     # BGRA; a mark above
        np.testing.assert_array_equal(image.pixels[8:], shown)
        assert not np.shares_memory(image.pixels, shown)
    wanted = camera_info('left', 1280, 720)
    np.testing.assert_allclose(info['right'].k, wanted['right'].k)
    assert info['right'].baseline_m == pytest.approx(0.120)     # metres: the SDK's default is mm
    assert info['left'].extras['serial'] == LEFT
    assert info['left'].extras['model'] == 'ZED2'


def test_a_frame_that_is_kept_is_not_overwritten_by_the_next():
    with zed() as camera:
        kept = camera.wait_frame(BUSY_S)
        before = kept.left.pixels.copy()
        camera.wait_frame(BUSY_S)
        assert (camera.wait_frame(BUSY_S).left.pixels != before).any()
        np.testing.assert_array_equal(kept.left.pixels, before)


@pytest.fixture
def source():
    """Return the ZED's source in this process; close what it opened."""
    made = []

    def opened(**options):
        made.append(source_of(LEFT, **{
            'resolution': 'VGA', 'fps': 100, 'exposure': -1, 'gain': -1, 'white_balance': -1,
            'svo': '', 'open_timeout_s': 5.0, **options}))
        made[-1].connect()
        return made[-1]
    yield opened
    for one in made:
        one.disconnect()


def test_frames_that_came_too_fast_are_counted(source):
    zed_source = source()
    zed_source._camera._start_ns -= 10 ** 9         # a second in which nobody grabbed
    assert zed_source.grab().dropped >= 90
    assert importlib.import_module('pyzed.sl').Camera.get_sdk_version() == '5.1.0'


def test_picture_settings_are_set_or_set_back_to_automatic(source):
    sl = importlib.import_module('pyzed.sl')
    first = source(exposure=30, gain=40, white_balance=4600)
    values = [first._camera.get_camera_settings(setting)[1] for setting in sl.VIDEO_SETTINGS]
    assert values == [40, 30, 0, 4600, 0]
    first.disconnect()
    read = source()._camera.get_camera_settings    # another program's settings would stay in it
    assert read(sl.VIDEO_SETTINGS.AEC_AGC)[1] == 1
    assert read(sl.VIDEO_SETTINGS.WHITEBALANCE_AUTO)[1] == 1


def brightness(camera):
    return camera.wait_frame(BUSY_S).left.pixels[8:].mean()


def test_exposure_changes_while_the_process_streams(folder):
    auto = {'exposure': -1, 'gain': -1, 'white_balance': -1}
    with zed() as camera:
        bright = brightness(camera)
        camera.set_picture({**auto, 'exposure': 20})        # the gain stays what it was, 50
        until(lambda: brightness(camera) == pytest.approx(0.4 * bright, rel=0.02))
        with pytest.raises(ConfigError, match='gain 101: a ZED has 0 to 100, or -1'):
            camera.set_picture({**auto, 'exposure': 20, 'gain': 101})
        with pytest.raises(ConfigError, match='steps of 100 K'):
            camera.set_picture({**auto, 'white_balance': 4650})
        assert brightness(camera) == pytest.approx(0.4 * bright, rel=0.02)
        plug_in(folder, {})
        until(lambda: camera._problem, timeout_s=BUSY_S)
        plug_in(folder, PLUGGED)
        until(lambda: not camera._problem, timeout_s=BUSY_S)
        assert brightness(camera) == pytest.approx(0.4 * bright, rel=0.02)      # set again
        camera.set_picture(auto)
        until(lambda: brightness(camera) == pytest.approx(bright, rel=0.02))


@pytest.mark.parametrize(('options', 'said'), [
    ({'resolution': 'HD270'}, "no resolution 'HD270'. Did you mean 'HD720'"),
    ({'resolution': 'HD1080', 'fps': 60}, r'HD1080 has \(15, 30\) frames a second, found fps 60'),
    ({'stream': 'deph'}, "no driver.stream 'deph'. Did you mean 'depth'"),
    ({'exposure': 101, 'gain': 3}, 'exposure 101: a ZED has 0 to 100, or -1'),
    ({'exposure': 30}, 'exposure and gain are automatic together'),
    ({'white_balance': 4650}, 'steps of 100'),
])
def test_settings_that_no_zed_has_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        zed(**options).open()


def test_a_recording_is_played_in_a_loop(tmp_path):
    path = tmp_path / 'day.svo2'
    path.write_text(json.dumps({'serial_number': 7, 'frames': 3}))
    with zed('', svo=str(path), fps=100) as camera:
        stamps = [camera.wait_frame(BUSY_S).left.stamp_ns for _ in range(7)]
        assert camera.serial == '7'
    assert np.all(np.diff(stamps) > 0)
    assert 'there is no file' in refusal(zed('', svo=str(tmp_path / 'none.svo')))
    assert f'serial number 7, asked for was {LEFT}' in refusal(zed(svo=str(path)))
    path.write_text('no recording')
    assert 'INVALID_SVO_FILE' in refusal(zed('', svo=str(path)))


def test_a_wrong_serial_number_names_those_that_are_there():
    said = refusal(zed('20000009'))
    assert f'no ZED with serial number 20000009 is plugged in; found: {WRIST}, {LEFT}' in said
    assert "'SN1' is no ZED's" in refusal(zed('SN1'))


def test_without_a_serial_number_the_only_camera_is_taken(folder):
    assert f'ZEDs found: {WRIST}, {LEFT}; set serial_number' in refusal(zed(''))
    plug_in(folder, {WRIST: PLUGGED[WRIST]})
    with zed('') as camera:
        assert camera.serial == WRIST
    plug_in(folder, {})
    assert 'no ZED is plugged in' in refusal(zed(''))


def test_a_camera_is_open_once(folder):
    with zed() as first:
        assert 'two cameras of the station file have this serial number' in refusal(zed())
        first.wait_frame(BUSY_S)            # the first is not disturbed by it
    with importlib.import_module('pyzed.sl').Cameras(folder).holding(LEFT):
        assert 'already open in another program (ZED_Explorer' in refusal(zed())
    with zed() as camera:
        camera.wait_frame(BUSY_S)


@pytest.mark.parametrize(('fault', 'said'), [
    ('LOW_USB_BANDWIDTH', 'USB 3 controller of its own'),
    ('NO_GPU_COMPATIBLE', 'backend: uvc'),
    ('CANNOT_START_CAMERA_STREAM', 'another program may use the camera'),
    ('CALIBRATION_FILE_NOT_AVAILABLE', 'download'),
])
def test_an_error_of_the_sdk_says_what_to_do(folder, fault, said):
    plug_in(folder, {LEFT: EmulatedZed('left', fault=fault)})
    message = refusal(zed())
    assert said in message
    assert fault in message
    plug_in(folder, PLUGGED)
    with zed() as camera:                   # nothing was left open
        camera.wait_frame(BUSY_S)


def test_a_warning_is_no_error_and_a_damaged_frame_no_picture(folder):
    plug_in(folder, {LEFT: EmulatedZed('left', fault='POTENTIAL_CALIBRATION_ISSUE')})
    with zed() as camera:
        camera.wait_frame(BUSY_S)
        plug_in(folder, {LEFT: EmulatedZed('left', fault='CORRUPTED_FRAME')})
        until_says(camera, 'CORRUPTED_FRAME')
        plug_in(folder, PLUGGED)
        camera.wait_frame(BUSY_S)


@pytest.mark.parametrize(('when_lost', 'said'), [
    ('reboots', 'has stopped: CAMERA_REBOOTING'),
    ('blocks', 'its library did not return from the next picture for 1 s, and its process was'),
    ('crashes', 'the process of its library ended with -6'),
])
def test_a_cable_is_pulled_and_plugged_in_again(folder, when_lost, said):
    """Whatever the SDK's own recovery does, the camera is back when the device is."""
    there = {**PLUGGED, LEFT: replace(PLUGGED[LEFT], when_lost=when_lost)}
    plug_in(folder, there)
    with zed() as camera:
        before = camera.wait_frame(BUSY_S)
        pid = camera._source._process.pid
        plug_in(folder, {WRIST: PLUGGED[WRIST]})
        until_says(camera, said, TOLD_S)
        if when_lost != 'reboots':
            assert 'a ZED takes 10 to 30 s to come back; is its cable plugged' in camera._problem
        until_says(camera, f'no ZED with serial number {LEFT} is plugged in; found: {WRIST}')
        plug_in(folder, there)
        after = camera.wait_frame(BUSY_S)
        assert after.sequence > before.sequence
        assert after.left.stamp_ns - before.left.stamp_ns > BACK_S * 1e9
        assert camera._source._process.pid != pid
        np.testing.assert_array_equal(before.right.pixels[8:], camera.frame(
            BUSY_S).right.pixels[8:])    # pictures of a process that has ended can be read


def test_frames_that_are_kept_do_not_hold_the_camera_up():
    with zed(fps=100) as camera:
        kept = [camera.wait_frame(BUSY_S) for _ in range(3 * grabbing.SLOTS)]
        for frame in kept[1:]:
            assert (frame.left.pixels[:8] != kept[0].left.pixels[:8]).any()
        assert camera._source._lent < grabbing.SLOTS
        del kept, frame
        until(lambda: camera.wait_frame(BUSY_S) and camera._source._lent <= 2, 'returned slots')


def test_a_camera_leaves_no_process_behind(folder):
    camera = zed()
    camera.open()
    process = camera._source._process
    camera.close()
    assert process.code == 0        # it has closed the device itself
    assert 'ZEDs found' in refusal(zed(''))
    with pytest.raises(NotConnected):
        (refused := zed('20000009')).open()
    assert refused._source._process is None


def test_another_camera_on_the_cable_is_not_taken_for_the_first(folder):
    plug_in(folder, {LEFT: PLUGGED[LEFT]})
    with zed('') as camera:
        plug_in(folder, {WRIST: PLUGGED[WRIST]})
        until_says(camera, f'another camera ({WRIST}) is plugged in now')
        assert camera.serial == LEFT
        plug_in(folder, {LEFT: PLUGGED[LEFT]})
        camera.wait_frame(BUSY_S)


@pytest.mark.parametrize(('files', 'said'), [
    ({'pyzed.py': ''}, "not Stereolabs' pyzed: `pip install pyzed` installs another author"),
    ({'pyzed/__init__.py': '', 'pyzed/sl.py': 'raise ImportError("libsl_zed.so: cannot open")'},
     'libsl_zed.so: cannot open'),
    ({'pyzed/__init__.py': '', 'pyzed/sl.py': 'class Camera:\n    @staticmethod\n'
      '    def get_sdk_version():\n        return "3.8.2"'}, 'SDK is 3.8.2, needed is 4.0'),
], ids=['impostor', 'no library', 'old'])
def test_what_is_not_the_sdk_is_named(tmp_path, monkeypatch, files, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    forget()
    monkeypatch.syspath_prepend(str(tmp_path))
    message = refusal(zed())
    forget()
    assert said in message
    assert 'get_python_api.py' in message


def test_a_missing_sdk_is_named(monkeypatch):
    forget()
    monkeypatch.setattr(sys, 'path', [path for path in sys.path if 'zed' not in path])
    message = refusal(zed(), DriverError)
    assert 'there is no pyzed' in message
    assert 'never pip install pyzed' in message
