"""What is suspicious is a warning, and what samples is checked as such."""

import broken_policies as broken
import numpy as np
import pytest
import suspicious_policies as suspicious
from broken_policies import Dice, Exemplary
from policy_samples import observation, pictures
from test_conformance import WRONG

from arena_robot.core.conformance import FAIL, WARN
from arena_robot.policy.conformance import answers, robustness
from arena_robot.policy.conformance import suspicious as checks
from arena_robot.policy.conformance.answers import alike
from arena_robot.policy.conformance.probe import ProbeLimits
from arena_robot.policy.conformance.suite import run_suite
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.options import CallOptions

# A machine that tests share stands still for a moment now and then.
LIMITS = ProbeLimits(calls=12, clients=2, spike_s=30.0, options=CallOptions(infer_timeout_s=5.0))
SUSPECTED = (
    answers.chunk_fits_the_spec, robustness.latency_is_bearable, checks.first_answer_is_quick,
    checks.no_answer_is_a_spike, checks.memory_stays,
    checks.output_varies, checks.prompt_is_used,
    checks.prompt_is_followed, checks.pictures_are_used,
    checks.first_action_is_near, checks.velocities_are_fractions)
SAMPLING = (answers.chunk_fits_the_spec, answers.repeats_after_reset, answers.seed_repeats,
            answers.samples_are_alike, answers.reset_begins_anew, answers.episodes_are_isolated,
            robustness.parallel_callers_are_served)


def outcomes(policy, checks, protocol='grpc', **changes):
    limits = ProbeLimits(**{**LIMITS.__dict__, **changes})
    with SERVERS[protocol](policy) as server:
        report = run_suite(server.address, limits, checks)
    return report, {(r.outcome, r.check): r for r in report.results if r.outcome in (FAIL, WARN)}


def resident_of(policy):
    """Return what measures the memory of a process of a policy, but without the noise of one."""
    return lambda: sum(kept.nbytes for kept in getattr(policy, 'kept', ()))


# The policy, the only warning it must get, and words of its advice.
SUSPICIOUS = [
    (suspicious.NoPrompt, 'prompt_is_used', 'whether observation.prompt reaches the model'),
    (suspicious.NoPictures, 'pictures_are_used', '4 times the same actions'),
    (suspicious.FirstPrompt, 'prompt_is_followed', 'read observation.prompt in every query'),
    (suspicious.SlowStart, 'first_answer_is_quick', 'make one query of its own before'),
    (suspicious.Spikes, 'no_answer_is_a_spike', '1 took up to'),
    (suspicious.Hoards, 'memory_stays', 'grew by 0.2 MB for each query'),
    (suspicious.FarAway, 'first_action_is_near', 'changes that must be added'),
    (suspicious.Changes, 'velocities_are_fractions', 'divide by that'),
    (suspicious.Constant, 'output_varies', 'whether the checkpoint is loaded'),
]


@pytest.mark.parametrize(('make', 'check', 'says'), SUSPICIOUS,
                         ids=lambda value: getattr(value, '__name__', ''))
def test_what_is_suspicious_is_one_warning_with_its_measurement(make, check, says):
    policy = make()
    report, results = outcomes(policy, SUSPECTED, resident_bytes=resident_of(policy),
                               spike_s=0.7 if make is suspicious.Spikes else 30.0)
    assert list(results) == [(WARN, check)], report.text()
    result = results[WARN, check]
    assert says in f'{result.received} | {result.change}'
    assert report.passed
    assert f'WARN  {check.replace("_", " ")}' in report.text()
    assert ' with a warning, 0 failed' in report.counts()


@pytest.mark.parametrize(('make', 'protocol'), [
    (Exemplary, 'grpc'), (suspicious.Samples, 'grpc'),
    (lambda: suspicious.Samples(samples=False, seeded=False), 'openpi')])
def test_a_good_policy_gets_neither_failure_nor_warning_also_when_it_samples(make, protocol):
    policy = make()
    report, results = outcomes(policy, run_suite.__defaults__[1], protocol,
                               resident_bytes=resident_of(policy))
    assert results == {}, report.text()


def test_one_that_samples_without_its_seed_is_told_how_to_be_repeatable():
    _, results = outcomes(suspicious.Samples(seeded=False), SAMPLING)
    assert list(results) == [(WARN, 'seed_repeats')]
    assert 'observation.episode_seed' in results[WARN, 'seed_repeats'].change


def test_one_that_does_not_say_that_it_samples_fails_once():
    _, results = outcomes(Dice(), SAMPLING)
    assert list(results) == [(FAIL, 'repeats_after_reset')]
    assert 'samples=True in its PolicySpec' in results[FAIL, 'repeats_after_reset'].change


def test_one_whose_samples_depend_on_other_episodes_fails():
    _, results = outcomes(suspicious.Drifts(), SAMPLING)
    assert (FAIL, 'samples_are_alike') in results
    assert 'another distribution' in results[FAIL, 'samples_are_alike'].received


def test_samples_of_one_distribution_are_rarely_called_different():
    random = np.random.default_rng(0)
    p = [alike(random.normal(size=(16, 8)), random.normal(size=(16, 8))) for _ in range(10)]
    assert min(p) > answers.ALIKE_P
    assert alike(random.normal(size=(16, 8)), random.normal(1.5, 1.0, (16, 8))) <= answers.ALIKE_P


@pytest.mark.parametrize(('protocol', 'query'), [('grpc', ''), ('openpi', '?episode_seed=yes')])
def test_an_episode_is_repeated_by_its_token_and_by_its_seed(protocol, query):
    policy = suspicious.Samples()
    seen = observation(pictures(policy.spec, 24, 32))
    with SERVERS[protocol](policy) as server, connect(server.address + query) as client:
        def asked(episode, seed=0):
            policy.reset(episode)
            again = type(seen)(**{**seen.__dict__, 'episode_seed': seed})
            return client.infer(again, episode).actions.tolist()
        assert client.spec.samples == (protocol == 'grpc')
        assert asked('a') == asked('a')
        assert asked('a') != asked('b')
        assert asked('a', 7) == asked('b', 7)


def policies(module):
    """Return the policies that a file defines."""
    return {value for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__}


def test_all_wrong_policies_are_tested_for_their_level():
    good = {broken.Sound, broken.Exemplary, suspicious.Samples}
    # With limits, with parallel calls, and by its distribution: in tests of their own.
    fail = {case[0] for case in WRONG} | {broken.Slow, broken.SharedScratch, suspicious.Drifts}
    warn = {case[0] for case in SUSPICIOUS}
    assert not fail & warn
    assert policies(broken) | policies(suspicious) == good | fail | warn
    assert len(fail | warn) >= 26
