"""The Robotiq driver on an emulated gripper: the contract, the frames, and what can go wrong."""

import time

import pytest
from bad_input import TOLD_S, told

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import DriverError, NotConnected, ReadTimeout, StaleData
from arena_robot.core.observation import ObjectStatus
from arena_robot.drivers.conformance.gripper import command_is_clipped_and_returned
from arena_robot.drivers.conformance.pytest_suite import GripperConformance
from arena_robot.drivers.conformance.rig import GripperRig
from arena_robot.drivers.emulators.robotiq import EmulatedFingers, RobotiqEmulator
from arena_robot.drivers.robotiq import (
    NOT_ACTIVATED,
    FrameError,
    Outputs,
    RobotiqGripper,
    crc,
    read_reply,
    read_request,
    write_request,
)

pytest.importorskip('serial', reason='pyserial is missing: make setup')

BUSY_S = 5.0      # how long a busy machine may take to see a change


@pytest.fixture
def emulator():
    with RobotiqEmulator(activated=True) as emulator:
        yield emulator


@pytest.fixture
def gripper(emulator):
    with RobotiqGripper(emulator.path) as gripper:
        yield gripper


def until(gripper, condition, timeout_s=BUSY_S):
    """Return the first new state that fulfils a condition."""
    end_s = time.monotonic() + timeout_s
    while True:
        state = gripper.wait_state(timeout_s)
        if condition(state):
            return state
        assert time.monotonic() < end_s, state


def until_stale(gripper):
    """Read until it is said why there is nothing new."""
    end_s = time.monotonic() + BUSY_S
    while time.monotonic() < end_s:
        try:
            gripper.state(0.3)
        except StaleData as error:
            if 'is being read' not in str(error):
                raise
        time.sleep(0.01)


class TestRobotiq(GripperConformance):
    @pytest.fixture
    def rig(self, emulator):
        def mend():
            emulator.faults.mute = 0
            emulator.fingers.fault = 0

        def trip():
            emulator.fingers.fault = 0xE
            part.wait_state(BUSY_S)
            part.wait_state(BUSY_S)

        def mute():
            emulator.faults.mute = 10**6
        part = RobotiqGripper(emulator.path)
        return GripperRig(part, SystemClock(), silence=mute, trip=trip, mend=mend,
                          max_age_s=1.0, rate_hz=4.0, harmless=True)


def test_the_check_of_the_page_activates_a_gripper_that_was_without_power():
    with RobotiqEmulator() as fresh:
        rig = GripperRig(RobotiqGripper(fresh.path), SystemClock(), max_age_s=1.0, rate_hz=4.0,
                         harmless=True)
        with rig.opened() as gripper:
            assert gripper.state(rig.max_age_s).fault == NOT_ACTIVATED
        assert command_is_clipped_and_returned(rig) == 'clipped'


# Frames that a 2F-85's manual and other clients show.
@pytest.mark.parametrize(('sent', 'manual'), [
    (write_request(9, Outputs(activate=False)), '09 10 03E8 0003 06 000000000000 7330'),
    (write_request(9, Outputs()), '09 10 03E8 0003 06 010000000000 72E1'),
    (write_request(9, Outputs(go=True, position=255, speed=255, force=255)),
     '09 10 03E8 0003 06 090000FFFFFF 4229'),
    (write_request(9, Outputs(go=True, speed=255, force=255)),
     '09 10 03E8 0003 06 09000000FFFF 7219'),
    (read_request(9), '09 03 07D0 0003 040E'),
])
def test_requests_are_those_of_the_manual(sent, manual):
    assert sent == bytes.fromhex(manual)


@pytest.mark.parametrize(('frame', 'status', 'position', 'requested'), [
    ('090306 3900 00FF 0E0A F78B', 0, 0x0E, 0xFF),
    ('090306 B900 00FF BD00 1D7C', 2, 0xBD, 0xFF),
    ('090306 F900 0000 0D00 564C', 3, 0x0D, 0x00),
])
def test_replies_are_read_as_the_manual_says(frame, status, position, requested):
    inputs = read_reply(9, bytes.fromhex(frame))
    assert inputs.object_status == status
    assert (inputs.position, inputs.requested) == (position, requested)
    assert inputs.activated
    assert inputs.status == 3
    assert inputs.current_a == pytest.approx(0.1 if status == 0 else 0.0)


@pytest.mark.parametrize(('frame', 'said'), [
    (b'', 'no answer from slave address 9'),
    (bytes.fromhex('090306F90000000D00564D'), 'damaged'),
    (bytes.fromhex('090306F90000'), '6 bytes of a reply came, expected 11'),
    (bytes.fromhex('0903065555'), '5 bytes'),
    (bytes.fromhex('098302') + crc(bytes.fromhex('098302')), 'does not have the register'),
    (bytes.fromhex('090304F90000000D00') + crc(bytes.fromhex('090304F90000000D00')), '4 bytes'),
    (bytes.fromhex('080306F90000000D00') + crc(bytes.fromhex('080306F90000000D00')),
     'slave address 8 answered'),
    (bytes.fromhex('091006F90000000D00') + crc(bytes.fromhex('091006F90000000D00')),
     'function 16'),
])
def test_a_malformed_reply_is_never_a_reading(frame, said):
    with pytest.raises(FrameError, match=said):
        read_reply(9, frame)


def test_every_flipped_bit_of_a_reply_is_noticed():
    good = bytes.fromhex('090306B90000FFBD001D7C')
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            read_reply(9, bytes(bad))


def test_position_speed_and_force_are_written_as_counts(emulator, gripper):
    gripper.command(GripperCommand(1.0, 0, speed=0.05, force=0.0))
    until(gripper, lambda state: state.is_moving)
    assert emulator.fingers._outputs == bytes([9, 0, 0, 230, 13, 0])
    gripper.command(GripperCommand(0.0, 0, speed=1.0, force=1.0))
    until(gripper, lambda state: not state.is_moving and state.position == 0.0)
    assert emulator.fingers._outputs == bytes([9, 0, 0, 3, 255, 255])


def test_the_same_command_is_written_once(emulator, gripper, caplog):
    written = []
    write = emulator.fingers.write
    emulator.fingers.write = lambda data, now_s: (written.append(data), write(data, now_s))
    for stamp_ns in range(20):
        gripper.command(GripperCommand(0.5, stamp_ns, speed=1.0))
        gripper.wait_state(BUSY_S)
    lost = caplog.text.count('answers again')    # on a busy machine: then it is written again
    assert 1 <= len(written) <= 1 + lost


def test_an_object_is_told_with_width_and_current(emulator, gripper):
    emulator.fingers.object_m = 0.040
    gripper.command(GripperCommand(1.0, 0, speed=0.5))
    moving = until(gripper, lambda state: state.is_moving and state.current_a > 0)
    assert moving.current_a == pytest.approx(0.12)
    held = until(gripper, lambda state: not state.is_moving)
    assert held.object_status is ObjectStatus.GRIPPED_CLOSING
    assert held.width_m == pytest.approx(0.040, abs=0.0005)
    assert held.requested_position == 1.0


def test_a_gripper_after_power_up_wants_activation_and_moves_only_then():
    with RobotiqEmulator() as emulator, RobotiqGripper(emulator.path) as gripper:
        assert gripper.state(BUSY_S).fault == 7
        with told(DriverError, r'not activated; activate\(\) it \(the fingers'):
            gripper.command(GripperCommand(1.0, 0))
        gripper.activate()
        assert gripper.state(BUSY_S).fault == 0
        begin = emulator.requests
        gripper.activate()      # active already: nothing moves
        assert emulator.fingers.status == 3
        assert emulator.requests - begin < 20
        gripper.command(GripperCommand(0.2, 0, speed=1.0))
        until(gripper, lambda state: not state.is_moving and abs(state.position - 0.2) < 0.01)


@pytest.mark.parametrize(('fault', 'said'), [
    (0x8, 'too hot'), (0xA, '21.6 V'), (0xC, 'internal fault'), (0xE, 'too much current')])
def test_faults_are_told_in_words(emulator, gripper, fault, said):
    emulator.fingers.fault = fault
    assert until(gripper, lambda state: state.fault).fault == fault
    with pytest.raises(DriverError, match=f'gripper fault {fault}: .*{said}'):
        gripper.command(GripperCommand(1.0, 0))


# One reply that is lost, damaged or doubled is asked for again; nobody notices.
@pytest.mark.parametrize('fault', ['mute', 'damaged', 'cut', 'doubled', 'noisy', 'late'])
def test_a_fault_of_one_reply_is_mended(emulator, gripper, fault):
    setattr(emulator.faults, fault, 1)
    before = gripper.wait_state(BUSY_S)
    until(gripper, lambda state: not getattr(emulator.faults, fault))
    assert gripper.wait_state(BUSY_S).position == before.position
    gripper.command(GripperCommand(0.3, 0, speed=1.0))
    until(gripper, lambda state: not state.is_moving and abs(state.position - 0.3) < 0.01)


def test_silence_is_said_within_a_second_and_the_gripper_comes_back(emulator, gripper):
    emulator.faults.mute = 10**6
    with pytest.raises(StaleData, match='no answer from slave address 9'):
        until_stale(gripper)
    with pytest.raises(ReadTimeout, match='are power, cable, slave_address and baudrate right'):
        gripper.wait_state(0.05)
    with pytest.raises(DriverError):
        gripper.command(GripperCommand(1.0, 0))
    emulator.faults.mute = 0
    until(gripper, lambda state: True)
    gripper.command(GripperCommand(0.1, 0, speed=1.0))
    until(gripper, lambda state: not state.is_moving and abs(state.position - 0.1) < 0.01)


def test_a_command_from_before_the_silence_is_not_carried_out_later(emulator, gripper):
    emulator.faults.deaf = 10**6
    gripper.command(GripperCommand(1.0, 0, speed=1.0))
    with pytest.raises(StaleData, match='no answer'):
        until_stale(gripper)
    emulator.faults.deaf = 0
    for _ in range(5):
        assert gripper.wait_state(BUSY_S).position == 0.0


def test_a_cable_that_is_pulled_and_plugged_in_again(tmp_path):
    link = tmp_path / 'ttyUSB0'
    with RobotiqEmulator(activated=True, link=link) as emulator, \
            RobotiqGripper(str(link)) as gripper:
        emulator.unplug()
        with pytest.raises(ReadTimeout, match=r'connection is lost|cannot be opened|$'):
            gripper.wait_state(0.3)
        begin_s = time.monotonic()
        while True:
            try:
                gripper.state(0.2)
            except StaleData as error:
                if 'there is no such port' in str(error) or 'connection is lost' in str(error):
                    break
            assert time.monotonic() - begin_s < TOLD_S
        emulator.start()
        until(gripper, lambda state: True)


def test_a_wrong_slave_address_is_an_error_at_open(emulator):
    with told(NotConnected, 'no answer from slave address 12; are power, cable'):
        RobotiqGripper(emulator.path, slave_address=12).open()


def test_a_device_that_is_no_gripper_is_an_error_at_open(emulator):
    emulator.faults.refused = 10**6
    with told(NotConnected, 'is it a Robotiq 2F gripper'):
        RobotiqGripper(emulator.path).open()


def test_a_port_that_is_not_there_is_an_error_at_open(tmp_path):
    with told(NotConnected, 'there is no such port'):
        RobotiqGripper(str(tmp_path / 'ttyUSB7')).open()


def test_a_port_that_another_driver_uses_is_an_error_at_open(emulator, gripper):
    with told(NotConnected, 'another program uses it'):
        RobotiqGripper(emulator.path).open()
    gripper.wait_state(BUSY_S)


def test_stop_says_when_it_did_not_reach_the_gripper(emulator, gripper):
    gripper.command(GripperCommand(1.0, 0, speed=0.0))
    until(gripper, lambda state: state.is_moving)
    emulator.faults.mute = 10**6
    with pytest.raises(DriverError):
        gripper.stop()
    emulator.faults.mute = 0


def test_the_emulated_fingers_keep_their_speed_and_their_faults():
    fingers = EmulatedFingers(0.0, activated=True)
    fingers.write(bytes([9, 0, 0, 230, 255, 0]), 0.0)
    fingers.advance(0.2)      # 150 mm/s
    assert (fingers.position - 3) / 227 * 0.085 == pytest.approx(0.030)
    fingers.fault = 0xE
    fingers.advance(1.0)
    assert fingers.position == pytest.approx(3 + 0.030 / 0.085 * 227)
    fingers.write(bytes(6), 1.0)
    fingers.write(bytes([1, 0, 0, 0, 0, 0]), 1.0)
    assert fingers.read(1.5)[0] >> 4 & 3 == 1
    assert fingers.read(2.1)[0] >> 4 & 3 == 3
    assert fingers.read(2.1)[2] == 0
