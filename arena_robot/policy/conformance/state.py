"""Checks of a policy's state: kept per episode, cleared by a reset."""

from arena_robot.core.conformance import CheckFailed
from arena_robot.policy.conformance.probe import Nature, Probe, ask, forget, gap, same

SEED_HINT = ('seed every random generator per episode and renew it in reset; a policy that '
             'samples on purpose says samples=True in its PolicySpec')


def repeats_after_reset(probe: Probe) -> str:
    """The same episode, after a reset, gets the same answers again."""
    if probe.nature is not Nature.UNDECLARED:
        probe.need_repeats()
    first, second = probe.rollout('repeat'), probe.rollout('repeat')
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        if not same(one, two, probe.limits.tolerance):
            raise CheckFailed(
                f'the same three queries before and after a reset, query {index}',
                gap(one, two), f'drop all state of the episode in reset; {SEED_HINT}')
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
                found = ask(policy, probe.observation(shift + step), name).actions
                if not same(found, alone[index][step], probe.limits.tolerance):
                    raise CheckFailed(
                        f"episodes 'one' and 'two' in turns, query {step} of '{name}'",
                        f'not what the episode gets alone: {gap(found, alone[index][step])}',
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
        found = ask(kept, probe.observation(31), 'kept').actions
        forget(kept, 'kept')
    if not same(found, alone[1], probe.limits.tolerance):
        raise CheckFailed("a reset of episode 'ended' between two queries of 'kept'",
                          f'the second answer changed: {gap(found, alone[1])}',
                          'reset only the episode that is named')
    return 'untouched'
