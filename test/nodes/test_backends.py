"""A driver of another package behind a node, from a parameter file."""

import uuid

import pytest
from installed_package import install
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from waiting import until

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.conformance.suite import driver_rig
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder
from arena_robot.nodes.camera import CameraNode
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import ShiftedTime
from arena_robot.nodes.station.processes import overrides_file

GRIPPER = """
from arena_robot.core.observation import GripperState
from arena_robot.drivers.part import Opened

class LabGripper(Opened):
    def __init__(self, clock, com_port, stroke_mm=85.0):
        self.clock, self.com_port, self.stroke_mm = clock, com_port, stroke_mm
    def state(self, max_age_s=0.2):
        return GripperState(self.clock.now_ns(), 0.0, self.stroke_mm / 1000.0, 0.0)
    def wait_state(self, timeout_s):
        return self.state()
    def command(self, command):
        return command
    def stop(self): pass
    def activate(self): pass

class Handless(Opened):
    def __init__(self, clock): pass

class Loose(LabGripper):
    def __init__(self, clock, com_port, **more): super().__init__(clock, com_port)

class Odd(LabGripper):
    def __init__(self, clock, com_port, table={'a': 1}): super().__init__(clock, com_port)

class Needy(LabGripper):
    def __init__(self, clock, com_port, stroke_mm, note=None, marks=[1.0, 2.0]):
        super().__init__(clock, com_port, stroke_mm)
        self.note, self.marks = note, marks
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch, 'lab_grippers', {'lab_grippers.py': GRIPPER},
                   '[arena_robot.drivers.gripper]\nlab = lab_grippers:LabGripper\n')


def gripper_node(values):
    """Return the node's driver, made as its parameter file says."""
    values = {**values, 'driver': {'com_port': '/dev/lab', **values.get('driver', {})}}
    path = overrides_file({'gripper_node': {'autostart': False, **values}})
    args = ['test', '--ros-args', '--params-file', str(path),
            '-r', f'__ns:=/backend_{uuid.uuid4().hex[:6]}']
    try:
        with Spin(args) as spin:
            node = GripperNode('gripper_node', context=spin.context)
            try:
                return node.build_part()
            finally:
                node.destroy_node()
    finally:
        path.unlink()


@pytest.mark.parametrize('backend', ['lab_grippers:LabGripper', 'lab'])
def test_a_parameter_file_names_a_driver_of_another_package(lab, backend):
    part = gripper_node({'backend': backend, 'driver': {'stroke_mm': 140.0}})
    assert type(part).__name__ == 'LabGripper'
    assert (part.com_port, part.stroke_mm) == ('/dev/lab', 140.0)
    with part:
        assert part.state().width_m == 0.14


def test_what_a_driver_lacks_is_said_before_anything_opens(lab):
    with pytest.raises(ConfigError, match=r'Handless does not keep the protocol Gripper of '
                                          'arena_robot.drivers.base; it lacks activate'):
        gripper_node({'backend': 'lab_grippers:Handless'})
    with pytest.raises(ConfigError, match=r"gripper_node: no gripper backend 'lap'. Did you mean"):
        gripper_node({'backend': 'lap'})


def by_check(values, backend):
    """Return the driver as `arena driver check` makes it."""
    with driver_rig('gripper', backend, {'com_port': '/dev/lab', **values}) as rig:
        return rig.part


def by_node(values, backend):
    return gripper_node({'backend': backend, 'driver': values} if values
                        else {'backend': backend})


BOTH = pytest.mark.parametrize('made', [by_check, by_node])


@BOTH
@pytest.mark.parametrize(('backend', 'values', 'words'), [
    ('lab_grippers:Loose', {}, r'Loose takes \*\*more, which no parameter can set'),
    ('lab_grippers:Odd', {}, r"Odd: table=\{'a': 1\} cannot be a parameter; a default is None"),
    ('lab_grippers:Needy', {}, 'Needy needs stroke_mm: '),
    ('lab_grippers:LabGripper', {'stroke_mm': 'wide'}, 'stroke_mm must be a float, found str')])
def test_check_and_node_refuse_the_same_drivers_with_the_same_words(lab, made, backend, values,
                                                                    words):
    with pytest.raises(ConfigError, match=words):
        made(values, backend)


@BOTH
def test_check_and_node_make_the_same_driver(lab, made):
    part = made({'stroke_mm': 140.0, 'note': 'left bench', 'marks': [3, 4]}, 'lab_grippers:Needy')
    assert (part.stroke_mm, part.note, part.marks) == (140.0, 'left bench', (3.0, 4.0))
    part = made({'stroke_mm': 140.0}, 'lab_grippers:Needy')
    assert (part.note, part.marks) in ((None, (1.0, 2.0)), (None, [1.0, 2.0]))


@pytest.fixture
def zed_node(tmp_path, monkeypatch):
    """Return the node of an emulated ZED."""
    make_folder(tmp_path / 'zed', {'7': EmulatedZed()})
    monkeypatch.syspath_prepend(str(tmp_path / 'zed'))
    given = {'autostart': False, 'backend': 'zed', 'driver.resolution': 'VGA', 'driver.fps': 30}
    with Spin() as spin:
        node = CameraNode(context=spin.context, parameter_overrides=[
            Parameter(name, value=value) for name, value in given.items()])
        yield node
        node.close()
        node.destroy_node()


def test_exposure_is_a_parameter_that_changes_while_the_camera_streams(zed_node):
    def brightness():
        return zed_node.part.wait_frame(20.0).left.pixels[8:].mean()

    def change(**values):
        return zed_node.set_parameters_atomically(
            [Parameter(f'driver.{name}', value=value) for name, value in values.items()])

    about = zed_node.describe_parameter('driver.exposure')
    assert (about.integer_range[0].from_value, about.integer_range[0].to_value) == (-1, 100)
    assert about.description.startswith('share of the frame time, 0 to 100; -1: automatic')
    assert about.additional_constraints == 'may change while running'
    assert zed_node.describe_parameter('driver.fps').read_only
    assert change(exposure=50, gain=50).successful          # before it is open
    assert zed_node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    bright = brightness()
    assert change(exposure=20).successful
    until(lambda: brightness() == pytest.approx(0.4 * bright, rel=0.02))
    refused = change(exposure=101).reason, change(white_balance=2700).reason
    assert 'driver.exposure out of range. Min: -1, Max: 100' in refused[0]
    assert refused[1] == 'white_balance 2700: a ZED has 2800 to 6500, or -1 for automatic'
    assert brightness() == pytest.approx(0.4 * bright, rel=0.02)
    assert zed_node.get_parameter('driver.white_balance').value == -1
    assert change(exposure=-1, gain=-1).successful
    until(lambda: brightness() == pytest.approx(bright, rel=0.02))


def test_a_part_that_is_simulated_alone_is_in_the_time_of_its_world():
    with Spin() as spin:
        node = GripperNode(context=spin.context,
                           parameter_overrides=[Parameter('autostart', value=False)])
        try:
            before = node.timeline
            assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
            assert isinstance(node.timeline, ShiftedTime)
            assert node.timeline is not before
            state = node.gripper.state(5.0)
            assert state.stamp_ns <= node.timeline.part.now_ns()
        finally:
            node.close()
            node.destroy_node()
        assert node.part is None
