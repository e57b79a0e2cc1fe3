"""Checks of what a policy answers to ordinary queries."""

import time

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.conformance import CheckFailed
from arena_robot.core.errors import PolicyError
from arena_robot.core.observation import Floats
from arena_robot.policy.conformance.probe import Probe, advice, ask, forget, told
from arena_robot.robots.arms import ROBOTS

JOINT_MARGIN = 0.1
JOINT_MIN = np.min([r.limits.hardware_lower for r in ROBOTS.values()], axis=0) - JOINT_MARGIN
JOINT_MAX = np.max([r.limits.hardware_upper for r in ROBOTS.values()], axis=0) + JOINT_MARGIN
REACH_M = 1.2
SLACK = 1e-3
GRIPPER_SLACK = 0.1
LONG_PROMPT = 'pick up the naïve 红色 block and then ' * 50


def spec_is_sane(probe: Probe) -> str:
    """The policy's spec can be read and its values are valid."""
    try:
        spec = probe.spec
    except PolicyError as error:
        raise CheckFailed('the question what the policy wants (GetSpec, or the first frame)',
                          told(error), 'correct the spec the server announces'
                          if error.code == 'policy_bad_reply' else advice(error)) from error
    size = 'x'.join(map(str, spec.image_size)) if spec.image_size else 'native'
    views = ', '.join(spec.views()) or 'no cameras'
    return (f'{spec.action_space.value}, images {size}, {views}, '
            f'chunks of {spec.chunk_length or "any length"}')


def chunk_fits_the_spec(probe: Probe) -> str:
    """A normal query gets (N, size) finite float32 of the promised length."""
    with probe.connect() as policy:
        observation, started = probe.observation(), time.perf_counter()
        chunk = ask(policy, observation, 'shape')
        probe.first_s = time.perf_counter() - started
        forget(policy, 'shape')
    return f'{chunk.actions.shape[0]} actions of {chunk.actions.shape[1]}'


def values_are_in_range(probe: Probe) -> str:
    """Actions lie where a robot can follow them, the gripper between 0 and 1."""
    with probe.connect() as policy:
        chunks = [ask(policy, probe.observation(seed), 'range').actions for seed in range(4)]
        forget(policy, 'range')
    actions = np.concatenate(chunks)
    _check_gripper(actions[:, -1])
    _check_arm(actions[:, :-1], probe.spec.action_space)
    return f'arm {actions[:, :-1].min():.3g} to {actions[:, :-1].max():.3g}'


def _check_gripper(gripper: np.ndarray) -> None:
    if gripper.min() < -GRIPPER_SLACK or gripper.max() > 1.0 + GRIPPER_SLACK:
        raise CheckFailed(
            'four normal queries',
            f'gripper values from {gripper.min():.3g} to {gripper.max():.3g}',
            'the last number is the gripper position, 0 open to 1 closed; map -1..1 with '
            '(g + 1) / 2, and millimetres or widths likewise')


def _check_arm(arm: np.ndarray, space: ActionSpace) -> None:
    low, high, change = _expected(space)
    outside = (arm < low - SLACK) | (arm > high + SLACK)
    if outside.any():
        row, k = np.argwhere(outside)[0]
        raise CheckFailed(
            'four normal queries', f'{space.value}: {space.row.names[k]} is {arm[row, k]:.3g}, '
            f'expected {low[k]:.3g} to {high[k]:.3g}', change)


def _expected(space: ActionSpace) -> tuple[Floats, Floats, str]:
    """Return lowest and highest arm numbers that a policy should answer, and what to change."""
    largest = np.array(space.row.largest)
    if space is ActionSpace.JOINT_POSITION:
        return JOINT_MIN, JOINT_MAX, ('a Franka arm does not get there: send absolute joint '
                                      'angles in radians, not degrees, deltas or normalised '
                                      'values')
    if space is ActionSpace.CARTESIAN_POSITION:
        largest[:3] = REACH_M
        return -largest, largest, ('send the flange pose in the base frame: metres within '
                                   f'{REACH_M}, then roll pitch yaw in radians')
    if space.is_velocity:
        return -largest, largest, ('velocities are fractions of the fastest motion: clip to '
                                   '-1..1, or undo the normalisation of the training data')
    return -largest, largest, f'send {space.row.meaning}'


def prompts_are_accepted(probe: Probe) -> str:
    """An empty and a long prompt with other alphabets are answered."""
    with probe.connect() as policy:
        for prompt in ('', LONG_PROMPT):
            ask(policy, probe.observation(prompt=prompt), 'prompt')
        forget(policy, 'prompt')
    return f'0 and {len(LONG_PROMPT)} characters'


def black_images_are_answered(probe: Probe) -> str:
    """All-black images of the right size are answered like any other."""
    with probe.connect() as policy:
        try:
            policy.infer(probe.observation(black=True), 'black')
        except PolicyError as error:
            raise CheckFailed('all-black images', told(error),
                              'a covered lens happens: do not divide by the brightness or spread '
                              'of an image, and answer with something safe') from error
        forget(policy, 'black')
    return 'answered'
