"""Checks of what is allowed and suspicious in answers, times and memory; they only warn."""

import dataclasses

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.conformance import CheckSkipped, CheckWarned
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.conformance.probe import PROMPT, Nature, Probe, ask, forget, same

OTHER_PROMPTS = ('open the drawer', 'push the blue cup away from you', 'do nothing')
EXACTLY = 1e-9
FAR_RAD, FAR_M = 0.5, 0.15    # of the first action from where the arm is
SMALL_FRACTION = 0.06
TIMES = 5.0              # slower than the median is no jitter of the machine
FIRST_EXTRA_S = 0.5      # a first query may take so much longer unnoticed
BLOCKS, BLOCK = 3, 20    # growth in every block of queries is a leak, in one a cache
GROWTH_BYTES = 50_000    # per query: 2.7 GB in an hour at 15 Hz


def output_varies(probe: Probe) -> str:
    """Different pictures, joint positions and prompts do not all get the same actions."""
    if probe.nature is Nature.DRAWS:
        return 'the policy samples'
    seen, answers = _varied(probe)
    probe.is_constant = _equal(answers)
    if probe.is_constant:
        raise CheckWarned(
            f'{len(seen)} queries with other pictures, joint positions and prompts',
            f'{len(seen)} times the same {len(answers[0])} actions, {_range(answers[0])}',
            'whether the checkpoint is loaded and the output is that of the model')
    return f'{len(seen)} queries'


def prompt_is_used(probe: Probe) -> str:
    """Another prompt in a new episode gets other actions."""
    _need_variation(probe)
    seen = [probe.observation(prompt=prompt) for prompt in (PROMPT, *OTHER_PROMPTS)]
    if _equal(_answers(probe, seen)):
        raise CheckWarned(
            f'the same observation in {len(seen)} episodes, each with another prompt',
            f'{len(seen)} times the same actions',
            'whether observation.prompt reaches the model, and whether the first prompt is kept '
            'from episode to episode; a policy of a single task may ignore it')
    return f'{len(seen)} prompts'


def prompt_is_followed(probe: Probe) -> str:
    """A prompt that changes within an episode changes the actions."""
    _need_variation(probe)
    first, other = probe.observation(0), probe.observation(1)
    changed = dataclasses.replace(other, prompt=OTHER_PROMPTS[0])
    if _equal(_answers(probe, [other, changed])):
        raise CheckSkipped('the prompt is not used')
    kept, followed = (probe.answers([first, second], 'prompt changes')[1].actions
                      for second in (other, changed))
    if same(kept, followed, EXACTLY):
        raise CheckWarned(
            f"the prompt '{PROMPT}', then '{changed.prompt}' in the same episode",
            'the actions of the first prompt, though a new episode follows the second one',
            'whether the tokens of the first prompt are kept; read observation.prompt in every '
            'query')
    return 'followed'


def pictures_are_used(probe: Probe) -> str:
    """Other pictures get other actions."""
    _need_variation(probe)
    if not probe.spec.views():
        raise CheckSkipped('the policy wants no images')
    normal = probe.observation()
    others = (probe.observation(seed, black=seed == 0) for seed in range(3))
    seen = [normal, *(dataclasses.replace(normal, images=other.images) for other in others)]
    if _equal(_answers(probe, seen)):
        raise CheckWarned(
            f'the same joint positions and prompt with {len(seen)} sets of pictures, one black',
            f'{len(seen)} times the same actions',
            'whether the pictures reach the model under the keys that it reads')
    return f'{len(seen)} sets of pictures'


def first_action_is_near(probe: Probe) -> str:
    """The first action of a policy of positions is near to where the arm is."""
    space = probe.spec.action_space
    if space.is_velocity or probe.spec.layout:
        raise CheckSkipped('the policy answers velocities, or in a layout')
    far, joint = 0.0, ''
    for seed in range(3):
        seen = probe.observation(seed)
        away = _away(probe.answers([seen], 'near')[0].actions[0], seen, space)
        for k, distance in enumerate(away):
            if distance > far:
                far, joint = float(distance), space.row.sized(('rad',) * len(away)).names[k]
    limit, unit = (FAR_RAD, 'rad') if space is ActionSpace.JOINT_POSITION else (FAR_M, 'm')
    if far > limit:
        raise CheckWarned(
            'three normal queries', f'{joint} of the first action is {far:.3g} {unit} from where '
            'the arm is', 'the order of the joints, their zero and their unit, and whether the '
            'numbers are changes that must be added to observation.arm; the arm cannot get there '
            'within a step')
    return f'{far:.3g} {unit}'


def velocities_are_fractions(probe: Probe) -> str:
    """Velocities are not so small that they look like changes of joints or metres."""
    if not probe.spec.action_space.is_velocity or probe.spec.layout:
        raise CheckSkipped('the policy answers positions, or in a layout')
    chunks = [probe.rollout('small', 1, seed)[0] for seed in range(4)]
    largest = max(float(np.abs(chunk[:, :-1]).max()) for chunk in chunks)
    if 0.0 < largest < SMALL_FRACTION:
        raise CheckWarned(
            'four normal queries', f'velocities of {largest:.3g} at most',
            'whether they are changes in radians or metres for each step: a velocity is a '
            'fraction, 1 puts the target 0.2 rad (0.075 m) ahead; divide by that')
    return f'up to {largest:.3g}'


def _answers(probe: Probe, seen: list[Observation]) -> list[np.ndarray]:
    """Return the first answer of a new episode to each observation, all with the same seed."""
    return [probe.answers([dataclasses.replace(observation, episode_seed=1)], 'new')[0].actions
            for observation in seen]


def _varied(probe: Probe) -> tuple[list[Observation], list[np.ndarray]]:
    seen = [probe.observation(seed, prompt=prompt)
            for seed, prompt in enumerate((PROMPT, *OTHER_PROMPTS))]
    return seen, _answers(probe, seen)


def _need_variation(probe: Probe) -> None:
    probe.need_repeats()
    if probe.is_constant is None:
        probe.is_constant = _equal(_varied(probe)[1])
    if probe.is_constant:
        raise CheckSkipped("the answer is always the same, see 'output varies'")


def _equal(chunks: list[np.ndarray]) -> bool:
    return all(same(chunks[0], chunk, EXACTLY) for chunk in chunks[1:])


def _away(action: np.ndarray, seen: Observation, space: ActionSpace) -> Floats:
    """Return how far an action's joints (rad) or its position (m) are from the arm's."""
    if space is ActionSpace.JOINT_POSITION:
        return np.abs(action[:-1] - seen.arm.q)
    return np.abs(action[:3] - seen.arm.pose[:3])


def _range(actions: np.ndarray) -> str:
    return f'{actions.min():.3g} to {actions.max():.3g}'


def first_answer_is_quick(probe: Probe) -> str:
    """The first answer after the server was started takes no longer than later ones."""
    if probe.first_s is None or not probe.query_s:
        raise CheckSkipped('no query was timed')
    first, later = probe.first_s, float(np.median(probe.query_s))
    shown = f'{first * 1e3:.0f} ms, later {later * 1e3:.0f} ms'
    if first > TIMES * later and first > later + FIRST_EXTRA_S:
        raise CheckWarned(f'a first query, later {len(probe.query_s)} others', shown,
                          'whether the model is compiled at the first query: make one query of '
                          'its own before it is served')
    return shown


def no_answer_is_a_spike(probe: Probe) -> str:
    """No single answer takes much longer than the others."""
    if not probe.query_s:
        raise CheckSkipped('no query was timed')
    median, slowest = float(np.median(probe.query_s)), max(probe.query_s)
    spikes = [query_s for query_s in probe.query_s
              if query_s > TIMES * median and query_s > median + probe.limits.spike_s]
    if spikes:
        raise CheckWarned(
            f'{len(probe.query_s)} queries, one after the other',
            f'{len(spikes)} took up to {slowest * 1e3:.0f} ms, the median is '
            f'{median * 1e3:.0f} ms',
            'garbage collection, images of a new size that are compiled again, other programs on '
            'the GPU, writing to a disk')
    return f'slowest {slowest * 1e3:.0f} ms'


def memory_stays(probe: Probe) -> str:
    """The memory of the policy's process does not grow with every query."""
    resident = probe.limits.resident_bytes
    if resident is None:
        raise CheckSkipped('it is measured when the check itself serves the policy')
    sizes = [resident()]
    with probe.connect() as policy:
        for block in range(BLOCKS):
            for query in range(BLOCK):
                ask(policy, probe.observation(query), f'memory {block}')
            forget(policy, f'memory {block}')
            sizes.append(resident())
    growth = np.diff(sizes) / BLOCK
    if growth.min() > GROWTH_BYTES:
        raise CheckWarned(
            f'{BLOCKS} episodes of {BLOCK} queries, each reset',
            f'the process grew by {np.mean(growth) / 1e6:.2g} MB for each query',
            'what is kept of earlier queries: lists of observations, tensors with their graph '
            '(torch.no_grad), a cache by prompt or episode')
    return f'{(sizes[-1] - sizes[0]) / 1e6:.1f} MB in {BLOCKS * BLOCK} queries'
