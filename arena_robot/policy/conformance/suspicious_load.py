"""Checks of what is suspicious in times and memory; they only warn."""

import numpy as np

from arena_robot.core.conformance import CheckSkipped, CheckWarned
from arena_robot.policy.conformance.probe import Probe, ask, forget

TIMES = 5.0
FIRST_EXTRA_S = 0.5
BLOCKS, BLOCK = 3, 20
GROWTH_BYTES = 50_000


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
    spikes = [one for one in probe.query_s
              if one > TIMES * median and one > median + probe.limits.spike_s]
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
