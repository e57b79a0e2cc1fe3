"""Checks of speed, alone and with several callers."""

import threading
import time

import numpy as np

from arena_robot.core.conformance import CheckFailed
from arena_robot.core.errors import PolicyError
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
from arena_robot.policy.timing import Latency, summarise

SLOWEST_S = 1.0
WARM_UP_CALLS = 3
PARALLEL_QUERIES = 5
APART = 100   # between the seeds of callers, so that their queries differ


def latency_is_bearable(probe: Probe) -> str:
    """One caller's queries are answered in time for the robot."""
    observation = probe.observation()
    seconds: list[float] = []
    with probe.connect() as policy:
        for _ in range(max(WARM_UP_CALLS, probe.spec.warm_up)):
            length = len(ask(policy, observation, 'latency'))
        limit_s = probe.limits.latency_s or max(SLOWEST_S, length / probe.spec.control_rate_hz)
        # Once so much time was spent, it is certain that the limit is exceeded.
        while len(seconds) < probe.limits.calls and sum(seconds) <= limit_s * probe.limits.calls:
            started = time.perf_counter()
            ask(policy, observation, 'latency')
            seconds.append(time.perf_counter() - started)
        forget(policy, 'latency')
    found = summarise(seconds)
    probe.query_s = seconds
    if found.p99_s > limit_s:
        raise CheckFailed(
            f'{found.count} queries, one after the other', shown(found),
            f'p99 must stay within {limit_s:.3g} s or the robot stands still longer than it '
            'moves: compile and warm up the model, use fewer denoising steps, or longer chunks')
    return shown(found)


def parallel_callers_are_served(probe: Probe) -> str:
    """Four callers at once each get the answers they would get alone."""
    names = [f'caller-{number}' for number in range(probe.limits.clients)]
    firsts = {name: APART * number for number, name in enumerate(names)}
    alone = {name: probe.rollout(name, PARALLEL_QUERIES, firsts[name]) for name in names}
    together: dict[str, list[np.ndarray] | Exception] = {}
    seconds: list[float] = []
    threads = [threading.Thread(target=_call, args=(probe, name, firsts[name], together, seconds),
                                daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PARALLEL_QUERIES * probe.limits.options.infer_timeout_s + 10.0)
    for name in names:
        _compare(probe, name, alone[name], together.get(name))
    return f'{len(names)} callers, {shown(summarise(seconds))}'


def _call(probe: Probe, name: str, first: int,
          together: dict[str, list[np.ndarray] | Exception], seconds: list[float]) -> None:
    answers = []
    try:
        with probe.connect() as policy:
            for seed in range(first, first + PARALLEL_QUERIES):
                observation = probe.observation(seed)
                started = time.perf_counter()
                answers.append(policy.infer(observation, name).actions)
                seconds.append(time.perf_counter() - started)
            policy.reset(name)
        together[name] = answers
    except PolicyError as error:
        together[name] = error


def _compare(probe: Probe, name: str, alone: list[np.ndarray],
             found: 'list[np.ndarray] | Exception | None') -> None:
    sent = f'{PARALLEL_QUERIES} queries each from {probe.limits.clients} callers at once'
    if isinstance(found, PolicyError):
        raise CheckFailed(sent, f'{name}: {told(found)}',
                          f'serve several callers, in turn if need be; {advice(found)}')
    if not isinstance(found, list):
        raise CheckFailed(sent, f'{name}: no answers', 'serve several callers, in turn if need be')
    repeats = probe.nature in (Nature.REPEATS, Nature.SEEDED)
    for one, two in zip(alone, found, strict=True):
        if repeats and not same(one, two, probe.limits.tolerance):
            raise CheckFailed(sent, f'{name} got an answer it does not get alone: {gap(one, two)}',
                              'guard what calls share with a lock, keep state by episode, or '
                              'serve without --parallel')


def shown(latency: Latency) -> str:
    """Return a latency in milliseconds, for a report."""
    return (f'p50 {latency.p50_s * 1e3:.1f} ms, p99 {latency.p99_s * 1e3:.1f} ms, '
            f'jitter {latency.jitter_s * 1e3:.1f} ms')
