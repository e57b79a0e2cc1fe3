"""Targets at 15 Hz settle through the real libraries as at the simulated station."""

import functools
import importlib.util
from pathlib import Path

import pytest
from franka_rig import LONG, needs

from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm

SPEC = importlib.util.spec_from_file_location(
    'bench_franka', Path(__file__).parents[2] / 'bench' / 'bench_franka.py')
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)
JOINTS = (0, 2, 4, 6)


@functools.cache
def station():
    return [settled for _, settled in bench.simulated(JOINTS)]


@LONG
@pytest.mark.parametrize(('arm_class', 'options'), [
    pytest.param(FrankaRsArm, {}, marks=needs('franka_rs'), id='franka_rs'),
    pytest.param(LibfrankaArm, {}, marks=needs('libfranka'), id='libfranka'),
    pytest.param(LibfrankaArm, {'torques': True}, marks=needs('libfranka'),
                 id='libfranka with torques'),
])
def test_a_step_settles_as_at_the_simulated_station(arm_class, options):
    seconds = [settled for _, settled in bench.driven(arm_class, JOINTS, **options)]
    assert seconds == pytest.approx(station(), rel=0.1)
