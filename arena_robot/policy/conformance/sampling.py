"""Checks of a policy that draws its actions at random: its seed, and what it draws from."""

import numpy as np

from arena_robot.core.conformance import CheckFailed, CheckSkipped, CheckWarned
from arena_robot.policy.conformance.probe import Nature, Probe, ask, forget

DRAWS = 16
SHUFFLES = 999
ALIKE_P = 0.002    # so rarely are two groups of one distribution taken for different ones


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
    found, *others = -((np.vstack([weights, shuffled]) @ distances)
                       * np.vstack([weights, shuffled])).sum(axis=1)
    return float(1 + np.sum(np.array(others) >= found - 1e-12)) / (1 + SHUFFLES)


def _flat(chunks: list[np.ndarray]) -> np.ndarray:
    length = min(len(chunk) for chunk in chunks)
    return np.stack([chunk[:length].ravel() for chunk in chunks])
