"""The suite passes what is right, and says what is wrong with what is not."""

import json

import broken_policies as broken
import numpy as np
import pytest
from broken_servers import array, deaf, free_port, raw_grpc, raw_openpi

from arena_robot.cli.main import main
from arena_robot.core.conformance import FAIL, PASS, SKIP, WARN
from arena_robot.policy.conformance.probe import ProbeLimits
from arena_robot.policy.conformance.pytest_suite import PolicyConformance
from arena_robot.policy.conformance.suite import CHECKS, run_suite
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.examples.simple import RandomWalk
from arena_robot.policy.options import CallOptions, ServeOptions

QUICK = ProbeLimits(calls=20, options=CallOptions(connect_timeout_s=2.0, infer_timeout_s=2.0))

# The policy, the checks it must fail, and words of the advice it must get.
WRONG = [
    (broken.NotANumber, 'chunk_fits_the_spec', 'finite'),
    (broken.SevenNumbers, 'chunk_fits_the_spec', '(N, 8) for joint_position, found (4, 7)'),
    (broken.OneAction, 'chunk_fits_the_spec', 'found (8,)'),
    (broken.NoActions, 'chunk_fits_the_spec', 'must hold 1 to 1024 actions, found 0'),
    (broken.Dictionary, 'chunk_fits_the_spec', 'must return a Chunk, found a dict'),
    (broken.OtherSpace, 'chunk_fits_the_spec', 'the spec promises joint_position'),
    (broken.OtherLength, 'chunk_fits_the_spec', 'set chunk_length to 0'),
    (broken.Degrees, 'values_are_in_range', 'radians, not degrees'),
    (broken.FastVelocities, 'values_are_in_range', 'clip to -1..1'),
    (broken.Millimetres, 'values_are_in_range', 'metres within 1.2'),
    (broken.SignedGripper, 'values_are_in_range', '0 open to 1 closed; map -1..1'),
    (broken.WordsNeeded, 'prompts_are_accepted', 'traceback in the log'),
    (broken.Brightness, 'black_images_are_answered', 'covered lens'),
    (broken.StrictReset, 'reset_is_harmless', 'for an episode that never began'),
    (broken.Dice, 'repeats_after_reset', 'seed every random generator per episode'),
    (broken.NeverForgets, 'reset_begins_anew', 'drop all state of the episode in reset'),
    (broken.OneMemory, 'episodes_are_isolated', 'in a dictionary by the episode'),
    (broken.ForgetsAll, 'reset_spares_the_others', 'reset only the episode that is named'),
    (broken.Hangs, 'odd_images_are_survived', 'never wait for what will not come'),
    (broken.Poisoned, 'odd_images_are_survived', 'one bad request must not break the next'),
    (broken.LateFailure, 'latency_is_bearable', 'traceback in the log'),
]


def failures(report):
    return {result.check: result for result in report.results if result.outcome == FAIL}


def words(result):
    return f'{result.sent} | {result.received} | {result.change}'


def checked(policy, limits=QUICK, protocol='grpc', **serve):
    with SERVERS[protocol](policy, ServeOptions(**serve)) as server:
        return run_suite(server.address, limits)


@pytest.mark.parametrize('protocol', ['grpc', 'openpi'])
@pytest.mark.parametrize('spec', [
    {}, {'image_size': None}, {'external_cameras': 0, 'wrist_camera': False},
    {'external_cameras': 2, 'stereo': True}, {'joints': 6}])
def test_a_sound_policy_passes(protocol, spec):
    report = checked(broken.Sound(**spec), protocol=protocol)
    assert report.passed, report.text()
    assert len(report.results) == len(CHECKS)


def test_numbers_of_a_layout_are_not_taken_for_radians():
    report = checked(broken.Degrees(layout='so101/degrees'))
    assert report.passed, report.text()


@pytest.mark.parametrize(('policy', 'check', 'says'), WRONG,
                         ids=[policy.__name__ for policy, _, _ in WRONG])
def test_a_broken_policy_fails_with_the_right_message(policy, check, says):
    report = checked(policy())
    assert not report.passed
    failed = failures(report)
    assert check in failed, report.text()
    assert says in words(failed[check]), report.text()
    assert all(result.sent and result.received and result.change for result in failed.values())


@pytest.mark.parametrize(('policy', 'check', 'says'), [
    case for case in WRONG if case[0] in (
        broken.NotANumber, broken.Degrees, broken.Brightness, broken.OneMemory,
        broken.Poisoned)], ids=lambda value: getattr(value, '__name__', ''))
def test_the_same_is_found_over_openpi(policy, check, says):
    report = checked(policy(), protocol='openpi')
    failed = failures(report)
    assert check in failed, report.text()
    assert says in words(failed[check])


def test_only_what_is_wrong_fails():
    assert set(failures(checked(broken.SignedGripper()))) == {'values_are_in_range'}
    assert set(failures(checked(broken.Brightness()))) == {'black_images_are_answered'}
    assert set(failures(checked(broken.ForgetsAll()))) >= {'reset_spares_the_others'}


def test_a_slow_policy_fails_only_the_limit_it_was_given():
    limits = ProbeLimits(calls=5, latency_s=0.01, options=QUICK.options)
    failed = failures(checked(broken.Slow(), limits))
    assert set(failed) == {'latency_is_bearable'}
    assert 'p99 must stay within 0.01 s' in words(failed['latency_is_bearable'])
    assert checked(broken.Slow(), ProbeLimits(calls=5, options=QUICK.options)).passed


def test_what_calls_share_is_found_only_in_parallel():
    failed = failures(checked(broken.SharedScratch(), parallel=True))
    assert set(failed) == {'parallel_callers_are_served'}
    assert 'guard what calls share with a lock' in words(failed['parallel_callers_are_served'])
    assert checked(broken.SharedScratch()).passed


def test_a_policy_that_samples_may_say_so():
    limits = ProbeLimits(calls=5, stochastic=True, options=QUICK.options)
    report = checked(broken.Dice(), limits)
    assert report.passed, report.text()
    assert any(result.outcome == SKIP and 'samples' in result.detail for result in report.results)


@pytest.mark.parametrize('kind', ['grpc', 'openpi'])
def test_nobody_there_is_one_failure_and_the_rest_is_skipped(kind):
    report = run_suite(f'{kind}://127.0.0.1:{free_port()}', QUICK)
    assert list(failures(report)) == ['spec_is_sane']
    assert {result.outcome for result in report.results[1:]} == {SKIP}


def test_somebody_deaf_is_a_failure():
    with deaf() as target:
        assert 'spec_is_sane' in failures(run_suite(f'openpi://{target}', QUICK))


def test_a_senseless_spec_is_a_failure():
    with raw_grpc(np.zeros((1, 8)), external_cameras=9) as address:
        failed = failures(run_suite(address, QUICK))['spec_is_sane']
    assert 'external_cameras must be 0, 1 or 2, found 9' in failed.received
    assert 'correct the spec' in failed.change


def test_a_server_with_the_bare_calls_alone_is_told_what_is_missing():
    with raw_grpc(np.zeros((1, 8))) as address:
        failed = failures(run_suite(address, QUICK))
    assert 'add the grpc.health.v1 service' in failed['health_is_reported'].change
    assert 'refuse versions other than 1' in failed['other_versions_are_refused'].change
    assert 'read the request strictly' in failed['garbage_is_survived'].change


def test_a_server_that_hangs_up_on_garbage_passes_when_it_recovers():
    import msgpack

    def reply(frame):
        try:
            request = msgpack.unpackb(frame)
        except ValueError:
            return None
        if request.get('endpoint') == 'reset':
            return 'reset successful'
        if not all(f'observation/{name}_left' in request
                   for name in ('exterior_image_1', 'wrist_image')):
            return 'KeyError'
        value = np.tile(np.frombuffer(request['observation/joint_position'][b'data']), (4, 1))
        if not np.isfinite(value).all():
            return 'ValueError'
        return msgpack.packb({'actions': array(np.column_stack([value, np.zeros(4)]))})

    with raw_openpi(reply, needs_session_id=True) as address:
        report = run_suite(address, QUICK)
    assert report.passed, report.text()


class TestRandomWalk(PolicyConformance):
    limits = QUICK

    @classmethod
    def make_policy(cls):
        return RandomWalk()


class TestSoundOverOpenpi(PolicyConformance):
    limits = QUICK
    protocol = 'openpi'

    @classmethod
    def make_policy(cls):
        return broken.Sound()


@pytest.mark.parametrize('name', ['echo', 'frozen', 'random_walk'])
def test_the_command_passes_the_examples(name, capsys):
    assert main(['policy', 'check', name, '--calls', '10']) == 0
    printed = capsys.readouterr().out
    assert ' 0 failed, ' in printed
    assert ('WARN  output varies' in printed) == (name != 'echo')
    assert ('WARN  pictures are used' in printed) == (name == 'echo')


def test_the_command_fails_and_explains(capsys, monkeypatch):
    monkeypatch.syspath_prepend('test/policy')
    assert main(['policy', 'check', 'broken_policies:Degrees', '--calls', '5']) == 1
    printed = capsys.readouterr().out
    assert 'FAIL  values are in range' in printed
    for heading in ('sent      four normal queries', 'came back joint', 'change    a Franka arm'):
        assert heading in printed


def test_the_command_shows_the_traceback_that_it_points_to_and_a_cause_once(capsys, monkeypatch):
    monkeypatch.syspath_prepend('test/policy')
    assert main(['policy', 'check', 'broken_policies:WordsNeeded', '--calls', '5']) == 1
    printed = capsys.readouterr().out
    assert 'IndexError: list index out of range' in printed.splitlines()[-1]
    assert printed.count('Traceback (most recent call last)') == 1
    assert main(['policy', 'check', 'broken_policies:Dictionary']) == 1
    printed = capsys.readouterr().out
    assert '1 passed, 1 failed,' in printed
    assert "checks: the normal query failed, see 'chunk fits the spec'" in printed
    assert 'write return Chunk(actions, self.spec.action_space)' in ' '.join(printed.split())


def test_the_command_writes_json(capsys):
    assert main(['policy', 'check', 'echo', '--calls', '5', '--json', '--protocol', 'openpi']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['passed'] is True
    assert {result['outcome'] for result in report['results']} == {PASS, SKIP, WARN}
    assert all(result['check'] and result['asks'] for result in report['results'])
