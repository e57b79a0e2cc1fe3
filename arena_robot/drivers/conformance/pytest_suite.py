"""
The checks as pytest classes, for the tests of a driver.

In a test file of yours::

    from arena_robot.drivers.conformance.pytest_suite import CameraConformance
    from arena_robot.drivers.conformance.suite import driver_rig

    class TestMyCamera(CameraConformance):
        @pytest.fixture
        def rig(self):
            with driver_rig('camera', 'my_lab.zed:ZedCamera', {'serial_number': '4711'}) as rig:
                yield rig

Every check is one test; what fails says what was sent, what came back, what to change. On an arm
or a gripper the checks move it: set ``checks = ARM.still`` for those that move nothing.
"""

from typing import Any

import pytest

from arena_robot.core.conformance import FAIL, SKIP, Check
from arena_robot.drivers.conformance.suite import ARM, CAMERA, GRIPPER, run_check


class _Conformance:
    checks: tuple[Check[Any], ...] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of every check."""
        if 'check' in metafunc.fixturenames:
            metafunc.parametrize('check', self.checks, ids=lambda check: check.__name__)

    def test_conformance(self, check: Check[Any], rig: Any) -> None:
        """One check."""
        result = run_check(check, rig)
        if result.outcome == SKIP:
            pytest.skip(result.detail)
        if result.outcome == FAIL:
            pytest.fail(f'sent {result.sent}; came back {result.received}; change: '
                        f'{result.change}', pytrace=False)


class ArmConformance(_Conformance):
    """Every check of an arm on the fixture ``rig``, an ArmRig."""

    checks = (*ARM.still, *ARM.moving)


class GripperConformance(_Conformance):
    """Every check of a gripper on the fixture ``rig``, a GripperRig."""

    checks = (*GRIPPER.still, *GRIPPER.moving)


class CameraConformance(_Conformance):
    """Every check of a camera on the fixture ``rig``, a CameraRig."""

    checks = CAMERA.still
