"""The RealSense driver on a stand-in for librealsense, with its names, units and messages."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from bad_input import TOLD_S, told
from waiting import until

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, NotConnected, ReadTimeout, StaleData
from arena_robot.drivers import grabbing, realsense
from arena_robot.drivers.conformance.pytest_suite import CameraConformance
from arena_robot.drivers.conformance.rig import CameraRig
from arena_robot.drivers.realsense import RealsenseCamera

BUSY_S = 30.0
PERIOD_S = 0.01


class Library:
    """
    ``pyrealsense2``, as much as the driver uses; ``plugged`` are the cameras by serial.

    A D405 has no color sensor, but color in its Stereo Module. A sensor's exposure is in us in a
    Stereo Module, and in 100 us in one for color alone. With ``needs_reset``, as is, a
    camera that was lost is listed and opens, and sends nothing before hardware_reset, after which
    it is away for ``back_s``.
    """

    stream = SimpleNamespace(color='color', infrared='infrared', depth='depth')
    format = SimpleNamespace(rgb8='rgb8', y8='y8', z16='z16')
    camera_info = SimpleNamespace(serial_number='serial_number', name='name')
    timestamp_domain = SimpleNamespace(hardware_clock=0, system_time=1, global_time=2)
    option = SimpleNamespace(**{name: name for name in (
        'enable_auto_exposure', 'exposure', 'gain', 'emitter_enabled',
        'enable_auto_white_balance', 'white_balance')})

    def __init__(self):
        self.plugged = {'831612070000': 'Intel RealSense D435', '831612079999': 'D455'}
        self.busy, self.options, self.skip, self.domain = set(), {}, 0, 2
        self.needs_reset, self.back_s = True, 0.2
        self.lost, self.resets, self.away = set(), [], {}
        self.depth_scale = 0.001

    def context(self):
        return SimpleNamespace(query_devices=lambda: [
            self.device(serial) for serial in self.plugged
            if time.monotonic() >= self.away.get(serial, 0.0)])

    def device(self, serial):
        def sensor(*streams):
            ranges = {'exposure': (1.0, 165000.0) if 'depth' in streams else (1.0, 10000.0),
                      'gain': (0.0, 128.0), 'white_balance': (2800.0, 6500.0)}
            return SimpleNamespace(
                supports=lambda name: True, set_option=self.options.__setitem__,
                get_option=lambda name: self.options.get(name, 16.0),
                get_option_range=lambda name: SimpleNamespace(**dict(zip(
                    ('min', 'max'), ranges.get(name, (0.0, 1.0)), strict=True))),
                get_stream_profiles=lambda: [SimpleNamespace(stream_type=lambda kind=kind: kind)
                                             for kind in streams])

        def hardware_reset():
            self.resets.append(serial)
            self.lost.discard(serial)
            self.away[serial] = time.monotonic() + self.back_s
        model = self.plugged[serial]
        stereo = ('depth', 'infrared') + (('color',) if 'D405' in model else ())
        sensors = [sensor(*stereo), *([] if 'D405' in model else [sensor('color')])]
        return SimpleNamespace(
            get_info={'serial_number': serial, 'name': model}.get,
            hardware_reset=hardware_reset, query_sensors=lambda: sensors,
            first_depth_sensor=lambda: SimpleNamespace(get_depth_scale=lambda: self.depth_scale))

    def align(self, stream):
        """Return what gives depth the shape of the color picture; before that it has another."""
        assert stream == 'color'
        return SimpleNamespace(process=lambda frames: SimpleNamespace(
            get_color_frame=frames.get_color_frame,
            get_depth_frame=lambda: SimpleNamespace(get_data=lambda: np.full(
                frames.get_color_frame().get_data().shape[:2], 700, np.uint16))))

    def config(self):
        asked = SimpleNamespace(serial='', streams=[])
        asked.enable_device = lambda serial: setattr(asked, 'serial', serial)
        asked.enable_stream = lambda *stream: asked.streams.append(stream)
        return asked

    def pipeline(self):
        return Pipeline(self)


class Pipeline:
    def __init__(self, library):
        self.library, self.number = library, 0

    def start(self, config):
        self.config = config
        if config.serial in self.library.busy:
            raise RuntimeError('xioctl(VIDIOC_S_FMT) failed Last Error: Device or resource busy')
        *_, self.width, self.height, self.kind, fps = config.streams[0]
        if fps not in (15, 30, 60):
            raise RuntimeError("Couldn't resolve requests")
        self.library.busy.add(config.serial)
        return SimpleNamespace(
            get_stream=lambda kind, index=0: SimpleNamespace(
                as_video_stream_profile=lambda: Video(index, self.width, self.height)),
            get_device=lambda: self.library.device(config.serial))

    def stop(self):
        self.library.busy.discard(self.config.serial)
        if self.config.serial not in self.library.plugged:
            raise RuntimeError('stop() cannot be called before start()')

    def wait_for_frames(self, timeout_ms=5000):
        time.sleep(PERIOD_S)
        serial, library = self.config.serial, self.library
        if serial not in library.plugged and library.needs_reset:
            library.lost.add(serial)
        if serial not in library.plugged or serial in library.lost:
            raise RuntimeError(f"Frame didn't arrive within {timeout_ms}")
        self.number += 1 + self.library.skip
        stamp_ms = time.time() * 1e3 - 8.0
        return SimpleNamespace(get_color_frame=lambda: Frame(self, 0, stamp_ms),
                               get_infrared_frame=lambda index: Frame(self, index, stamp_ms))


class Video:
    def __init__(self, index, width, height):
        self.index, self.width, self.height = index, width, height

    def get_intrinsics(self):
        return SimpleNamespace(width=self.width, height=self.height, fx=640.0, fy=641.0,
                               ppx=639.5, ppy=358.0, coeffs=[0.0] * 5)

    def get_extrinsics_to(self, other):
        return SimpleNamespace(translation=[-0.05 * (other.index - self.index), 0.0, 0.0])


class Frame:
    def __init__(self, pipeline, index, stamp_ms):
        shape = (pipeline.height, pipeline.width) + ((3,) if pipeline.kind == 'rgb8' else ())
        self.data = np.full(shape, (pipeline.number + 50 * index) % 256, np.uint8)
        self.number, self.stamp_ms = pipeline.number, stamp_ms
        self.domain = pipeline.library.domain

    def get_data(self):
        return self.data

    def get_frame_number(self):
        return self.number

    def get_timestamp(self):
        return self.stamp_ms

    def get_frame_timestamp_domain(self):
        return self.domain


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setitem(sys.modules, 'pyrealsense2', library)
    monkeypatch.setattr(grabbing, 'AGAIN_S', 0.05)
    return library


def camera(**options):
    return RealsenseCamera('831612070000', **{'resolution': '424x240', **options})


class TestRealsense(CameraConformance):
    stream = 'infrared'

    @pytest.fixture
    def rig(self, library):
        there, part = dict(library.plugged), camera(stream=self.stream)

        def silence():
            library.plugged.clear()
            until(lambda: part._problem)    # frames from before are still under way
        return CameraRig(part, SystemClock(), silence=silence,
                         mend=lambda: library.plugged.update(there), max_age_s=1.0, rate_hz=4.0,
                         harmless=True, own_rate=True)


class TestRealsenseDepth(TestRealsense):
    stream = 'depth'


def test_the_color_camera_has_one_eye(library):
    with camera() as colour:
        frame = colour.wait_frame(BUSY_S)
        assert set(colour.info()) == {'left'}
    assert frame.left.pixels.shape == (240, 424, 3)
    assert frame.right.pixels.size == 0
    assert library.options == {'enable_auto_exposure': 1.0, 'enable_auto_white_balance': 1.0}


@pytest.mark.parametrize(('model', 'scale', 'mm'), [('D435', 0.001, 700), ('D405', 0.0001, 70)])
def test_depth_is_of_the_color_s_pixels_and_in_millimetres(library, model, scale, mm):
    library.plugged['831612070000'], library.depth_scale = model, scale
    with camera(stream='depth') as deep:
        frame = deep.wait_frame(BUSY_S)
        assert set(deep.info()) == {'left'}
    assert (frame.left.pixels.shape, frame.right.pixels.size) == ((240, 424, 3), 0)
    np.testing.assert_array_equal(frame.depth.millimetres, np.full((240, 424), mm, np.uint16))
    assert frame.depth.stamp_ns == frame.left.stamp_ns
    assert 'emitter_enabled' not in library.options, 'depth needs the dots'


def test_infrared_eyes_have_the_camera_s_geometry_and_no_dots(library):
    with camera(stream='infrared', exposure_us=8000.0, gain=16.0) as infrared:
        info = infrared.info()
    assert info['right'].baseline_m == pytest.approx(0.05)
    np.testing.assert_allclose(info['left'].k, [[640, 0, 639.5], [0, 641, 358], [0, 0, 1]])
    assert library.options == {'enable_auto_exposure': 0.0, 'exposure': 8000.0, 'gain': 16.0,
                               'emitter_enabled': 0.0}


AUTO = {'exposure_us': -1.0, 'gain': -1.0, 'white_balance': -1.0}


@pytest.mark.parametrize(('model', 'unit'), [('D435', 100.0), ('D405', 1.0)])
def test_exposure_changes_while_the_color_streams_in_the_unit_of_its_sensor(library, model, unit):
    library.plugged['831612070000'] = model
    with camera() as colour:
        colour.set_picture({**AUTO, 'exposure_us': 8000.0})
        assert library.options['exposure'] == 8000.0 / unit
        assert library.options['enable_auto_exposure'] == 0.0
        assert library.options['gain'] == 16.0          # as the camera had chosen it
        with told(ConfigError, f'exposure 2000000: RealSense 831612070000 has {unit:g} to '):
            colour.set_picture({**AUTO, 'exposure_us': 2e6, 'gain': 32.0})
        assert library.options['exposure'] == 8000.0 / unit
        colour.wait_frame(BUSY_S)
        colour.set_picture(AUTO)
        assert library.options['enable_auto_exposure'] == 1.0


def test_a_camera_that_is_out_refuses_settings_and_keeps_them_out_of_later_frames(
        library, monkeypatch):
    monkeypatch.setattr(grabbing, 'CHANGE_S', 0.3)
    with camera() as colour:
        there = dict(library.plugged)
        library.plugged.clear()
        until(lambda: colour._problem)
        with told(ReadTimeout, 'did not take the settings of its picture within 0.3 s'):
            colour.set_picture({**AUTO, 'exposure_us': 8000.0})
        library.plugged.update(there)
        colour.wait_frame(BUSY_S)
        colour.set_picture({**AUTO, 'white_balance': 4600.0})
        assert library.options['white_balance'] == 4600.0
        assert 'exposure' not in library.options


def test_lost_frames_are_counted_by_their_numbers(library):
    library.skip = 2
    with camera() as colour:
        first = colour.wait_frame(BUSY_S)
        later = colour.wait_frame(BUSY_S)
    assert later.dropped - first.dropped == 2 * (later.sequence - first.sequence)


@pytest.mark.parametrize(('domain', 'least_ms'), [(2, 8.0), (0, 0.0)], ids=['global', 'camera'])
def test_stamps_of_the_camera_s_own_clock_are_not_taken_for_time(library, domain, least_ms):
    library.domain = domain
    source = camera()._source
    source.connect()
    age_s = source.grab().age_s
    source.disconnect()
    assert age_s * 1e3 >= least_ms
    assert age_s == 0.0 or domain == 2


def test_a_cable_is_pulled_and_plugged_in_again(library):
    with camera() as colour:
        gone = library.plugged.pop('831612070000')
        end_s, said = time.monotonic() + TOLD_S, ''
        while 'no RealSense with serial number 831612070000 is plugged in' not in said:
            assert time.monotonic() < end_s, said
            try:
                colour.wait_frame(0.05)
            except (ReadTimeout, StaleData) as error:
                said = str(error)
        library.plugged['831612070000'] = gone
        until(lambda: library.resets, 'the reset')
        with told(StaleData, 'is reset, because it was lost; it comes back within seconds'):
            while True:
                colour.frame(0.0)
        colour.wait_frame(BUSY_S)
        assert library.resets == ['831612070000']       # once


def test_a_camera_without_a_sensor_for_color_has_its_color(library):
    """A D405 has a Stereo Module only: "Could not find requested sensor type!"."""
    library.plugged['831612070000'] = 'Intel RealSense D405'
    with camera() as colour:
        assert colour.wait_frame(BUSY_S).left.pixels.shape == (240, 424, 3)
    assert library.options['enable_auto_exposure'] == 1.0


def test_faults_say_what_to_do(library, monkeypatch):
    def refusal(camera, kind=NotConnected):
        with told(kind, '.') as caught:
            camera.open()
        return str(caught.value)

    assert 'found: 831612070000 (Intel RealSense D435), 831612079999 (D455)' in refusal(
        RealsenseCamera('1'))
    assert 'set serial_number to one of them' in refusal(RealsenseCamera())
    assert 'USB 3 port' in refusal(camera(fps=7))
    with camera():
        assert 'another program uses it (realsense-viewer' in refusal(camera())
    assert 'is not WIDTHxHEIGHT' in refusal(camera(resolution='HD720'), ConfigError)
    assert "Did you mean 'color'" in refusal(camera(stream='colour'), ConfigError)
    library.plugged.clear()
    assert 'no RealSense is plugged in' in refusal(RealsenseCamera())
    monkeypatch.setitem(sys.modules, 'pyrealsense2', None)
    assert 'pip install pyrealsense2' in refusal(camera())
    assert realsense.COLOR == 'color'
