"""Checks of what a policy answers: to ordinary queries, after a reset, with a seed."""

import time

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.conformance import CheckFailed, CheckSkipped, CheckWarned
from arena_robot.core.errors import PolicyError
from arena_robot.core.observation import Floats
from arena_robot.policy.conformance.probe import (
    Nature,
    Probe,
    advice,
    ask,
    forget,
    gap,
    same,
    told,
)
from arena_robot.robots.action_spaces import SpaceRow
from arena_robot.robots.arms import DOF, ROBOTS

JOINT_MARGIN = 0.1    # rad beyond the hardware's range that a network may overshoot
JOINT_MIN = np.min([r.limits.hardware_lower for r in ROBOTS.values()], axis=0) - JOINT_MARGIN
JOINT_MAX = np.max([r.limits.hardware_upper for r in ROBOTS.values()], axis=0) + JOINT_MARGIN
REACH_M = 1.2          # of a Franka's flange, with some room
SLACK = 1e-3           # for rounding to float32
GRIPPER_SLACK = 0.1    # regression heads overshoot 0 and 1 by some hundredths
LONG_PROMPT = 'pick up the naïve 红色 block and then ' * 50
SEED_HINT = ('seed every random generator per episode and renew it in reset; a policy that '
             'samples on purpose says samples=True in its PolicySpec')
DRAWS = 16         # answers per side that are compared
SHUFFLES = 999     # the smallest p-value is 1/1000
ALIKE_P = 0.002    # so rarely are two groups of one distribution taken for different ones


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
    if probe.spec.layout:
        raise CheckSkipped(f'what is in range in {probe.spec.layout} its embodiment says')
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
    low, high, change = _expected(space, arm.shape[1])
    outside = (arm < low - SLACK) | (arm > high + SLACK)
    if outside.any():
        row, k = np.argwhere(outside)[0]
        raise CheckFailed(
            'four normal queries', f'{space.value}: {_row(space, arm.shape[1]).names[k]} is '
            f'{arm[row, k]:.3g}, '
            f'expected {low[k]:.3g} to {high[k]:.3g}', change)


def _row(space: ActionSpace, numbers: int) -> SpaceRow:
    return space.row.sized(('rad',) * numbers)


def _expected(space: ActionSpace, numbers: int) -> tuple[Floats, Floats, str]:
    """Return lowest and highest arm numbers that a policy should answer, and what to change."""
    row = _row(space, numbers)
    largest = np.array(row.largest)
    if space is ActionSpace.JOINT_POSITION and numbers == DOF:
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
    return -largest, largest, f'send {row.meaning}'


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


def repeats_after_reset(probe: Probe) -> str:
    """The same episode, after a reset, gets the same answers again."""
    if probe.nature is not Nature.UNDECLARED:
        probe.need_repeats()
    first, second = probe.rollout('repeat'), probe.rollout('repeat')
    for index, (before, after) in enumerate(zip(first, second, strict=True)):
        if not same(before, after, probe.limits.tolerance):
            raise CheckFailed(
                f'the same three queries before and after a reset, query {index}',
                gap(before, after), f'drop all state of the episode in reset; {SEED_HINT}')
    return 'three queries, twice'


def reset_begins_anew(probe: Probe) -> str:
    """A reset within a connection restarts the episode."""
    with probe.connect() as policy:
        forget(policy, 'anew')
        first = ask(policy, probe.observation(), 'anew').actions
        ask(policy, probe.observation(1), 'anew')
        forget(policy, 'anew')
        again = ask(policy, probe.observation(), 'anew').actions
        forget(policy, 'anew')
    probe.need_repeats()
    if not same(first, again, probe.limits.tolerance):
        raise CheckFailed('query, query, reset, the first query again', gap(first, again),
                          f'drop all state of the episode in reset; {SEED_HINT}')
    return 'back to the first answer'


def reset_is_harmless(probe: Probe) -> str:
    """Resets of episodes that never began, or twice in a row, are accepted."""
    with probe.connect() as policy:
        for _ in range(2):
            forget(policy, 'never-seen')
        ask(policy, probe.observation(), 'seen')
        for _ in range(2):
            forget(policy, 'seen')
    return 'accepted'


def episodes_are_isolated(probe: Probe) -> str:
    """Two interleaved episodes get the same answers as each one alone."""
    probe.need_repeats()
    alone = [probe.rollout(name, first=shift) for name, shift in (('one', 10), ('two', 20))]
    with probe.connect() as first, probe.connect() as second:
        for step in range(3):
            for index, (policy, name, shift) in enumerate(
                    ((first, 'one', 10), (second, 'two', 20))):
                answer = ask(policy, probe.observation(shift + step), name).actions
                if not same(answer, alone[index][step], probe.limits.tolerance):
                    raise CheckFailed(
                        f"episodes 'one' and 'two' in turns, query {step} of '{name}'",
                        f'not what the episode gets alone: {gap(answer, alone[index][step])}',
                        'keep state in a dictionary by the episode argument (openpi: by session '
                        'id or connection), never on the policy itself')
        forget(first, 'one')
        forget(second, 'two')
    return 'two episodes, three queries each'


def reset_spares_the_others(probe: Probe) -> str:
    """The reset of one episode does not change another one."""
    probe.need_repeats()
    alone = probe.rollout('kept', first=30)
    with probe.connect() as kept, probe.connect() as ended:
        ask(kept, probe.observation(30), 'kept')
        ask(ended, probe.observation(40), 'ended')
        forget(ended, 'ended')
        answer = ask(kept, probe.observation(31), 'kept').actions
        forget(kept, 'kept')
    if not same(answer, alone[1], probe.limits.tolerance):
        raise CheckFailed("a reset of episode 'ended' between two queries of 'kept'",
                          f'the second answer changed: {gap(answer, alone[1])}',
                          'reset only the episode that is named')
    return 'untouched'


def seed_repeats(probe: Probe) -> str:
    """Two episodes with the same episode_seed get the same answers."""
    nature = probe.nature
    if nature is Nature.UNDECLARED:
        raise CheckSkipped("the spec does not say that it samples, see 'repeats after reset'")
    if nature is Nature.DRAWS and probe.is_openpi:
        return 'samples (found by asking twice); this protocol has no seed'
    if nature is Nature.DRAWS:
        raise CheckWarned(
            'the same query in two episodes with the same episode_seed', 'two different answers',
            'seed the random generator of an episode with observation.episode_seed, so that a '
            'rollout can be repeated: jax.random.key(seed), torch.Generator().manual_seed(seed)')
    return str(nature.value)


def samples_are_alike(probe: Probe) -> str:
    """What a policy samples in a new episode does not depend on the episodes before."""
    if probe.nature is not Nature.DRAWS:
        return 'compared exactly'
    observation, name = probe.observation(), 'drawn again'
    before = [probe.rollout(f'drawn {number}', 1)[0] for number in range(DRAWS)]
    with probe.connect() as busy, probe.connect() as policy:
        for seed in range(3):
            ask(busy, probe.observation(seed), 'busy')
        after = []
        for _ in range(DRAWS):
            after.append(ask(policy, observation, name).actions)
            ask(policy, probe.observation(1), name)
            forget(policy, name)
        forget(busy, 'busy')
    p = alike(_flat(before), _flat(after))
    if p <= ALIKE_P:
        raise CheckFailed(
            f'a query in {DRAWS} new episodes, and the same after others, one of them reset',
            f'answers of another distribution (p {p:.3g})',
            'drop all state of an episode in reset, and keep none that episodes share but the '
            'model')
    return f'{DRAWS} answers before and after other episodes (p {p:.2g})'


def alike(first: np.ndarray, second: np.ndarray) -> float:
    """
    Return the p-value that rows of ``first`` (N, D) and ``second`` (M, D) are drawn alike.

    A permutation test of the energy distance, every column in units of its standard deviation.
    """
    rows = np.concatenate([first, second]).astype(np.float64)
    spread = rows.std(axis=0)
    rows = rows[:, spread > 0.0] / spread[spread > 0.0]
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    # With these weights w the energy distance is -w D w.
    weights = np.concatenate([np.full(len(first), 1.0 / len(first)),
                              np.full(len(second), -1.0 / len(second))])
    shuffled = np.random.default_rng(0).permuted(np.tile(weights, (SHUFFLES, 1)), axis=1)
    own, *shares = -((np.vstack([weights, shuffled]) @ distances)
                     * np.vstack([weights, shuffled])).sum(axis=1)
    return float(1 + np.sum(np.array(shares) >= own - 1e-12)) / (1 + SHUFFLES)


def _flat(chunks: list[np.ndarray]) -> np.ndarray:
    length = min(len(chunk) for chunk in chunks)
    return np.stack([chunk[:length].ravel() for chunk in chunks])
