"""How long an arm waited for its policy, from the relay's record against a simulated executor."""

import math

import pytest

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.inferences import Inference, waited_steps

STEPS = 60


def rolled(chunk, took_s, lead=0):
    """Return the inferences of a cadenced rollout and in how many steps it held; 0: no lead."""
    made, held, left, asked = [], 0, 0, None
    late = max(0, math.ceil((took_s - 0.04) * CONTROL_RATE_HZ))
    for step in range(STEPS):
        if asked is None and (left == 0 or (lead and left <= lead)):
            asked, passed = step, 0
            made.append(Inference(step, 0, took_s, chunk))
        if left == 0 and step >= asked + late:
            left = chunk - min(passed, chunk - 1)
            asked = None
        if left:
            left -= 1
            passed += 1
        else:
            held += 1
    return made, held


@pytest.mark.parametrize('chunk', [1, 8, 10, 15])
@pytest.mark.parametrize('took_s', [0.0, 0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize('ahead', [False, True])
def test_the_waits_are_those_of_the_executor(chunk, took_s, ahead):
    lead = min(chunk - 1, 1 + math.ceil(took_s * CONTROL_RATE_HZ)) if ahead else 0
    made, held = rolled(chunk, took_s, lead)
    assert waited_steps(made, STEPS) == held


def test_a_chunk_that_covers_the_wait_leaves_none_but_the_first():
    for took_s in (0.05, 0.15, 0.3):
        made, _ = rolled(15, took_s, 1 + math.ceil(took_s * CONTROL_RATE_HZ))
        assert waited_steps(made, STEPS) == math.ceil((took_s - 0.04) * CONTROL_RATE_HZ)


def test_a_rollout_that_ends_during_its_first_inference_only_waited():
    assert waited_steps([Inference(0, 0, 5.0, 8)], 20) == 20
    assert waited_steps([], 20) == 0
