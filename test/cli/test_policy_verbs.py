"""`arena policy submit --wait`, and `arena policy rates` with its result."""

import importlib.util
import json
from types import SimpleNamespace

import pytest

from arena_robot.cli.main import main
from arena_robot.cli.policy import rates
from arena_robot.cli.policy import submit as verb
from arena_robot.core.wilson import wilson
from arena_robot.trials.trial import Trial, TrialOutcome

if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)


class Server:
    """Answers with one state after the other; the last one stays."""

    def __init__(self, *states, reason=''):
        self.states, self.reason = list(states), reason

    def __call__(self, call, request):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        policy = SimpleNamespace(name='mine', state=state,
                                 reason=self.reason if state == 'suspended' else '')
        return SimpleNamespace(policies=[policy]) if call == 'ListPolicies' else policy


@pytest.fixture
def submit(monkeypatch, capsys):
    monkeypatch.setattr(verb, 'LOOK_S', 0.0)

    def run(server, *words):
        monkeypatch.setattr(verb, 'calls', lambda args: server)
        return main(['policy', 'submit', 'mine', 'grpc://h:1', *words]), capsys.readouterr().out
    return run


def test_without_wait_the_first_answer_is_printed(submit):
    code, out = submit(Server('submitted', 'probation'))
    assert (code, out.split(';')[0]) == (0, 'mine: submitted')


def test_with_wait_it_ends_when_the_policy_was_checked(submit):
    code, out = submit(Server('submitted', 'submitted', 'probation'), '--wait', '60')
    assert (code, out.split(';')[0]) == (0, 'mine: probation')


def test_a_policy_that_fails_its_check_is_an_error_with_the_reason(submit):
    code, out = submit(Server('submitted', 'suspended', reason='joint 2 at -36.4'), '--wait', '60')
    assert code == 1
    assert 'suspended (joint 2 at -36.4)' in out


def test_a_server_that_never_checks_is_not_waited_for_longer(submit):
    code, out = submit(Server('submitted'), '--wait', '0.05')
    assert (code, out.split(';')[0]) == (0, 'mine: submitted')


def outcome(policy, succeeded, progress, task='lift_cube', seed=0, end='done'):
    return TrialOutcome(Trial(policy, task, seed), succeeded, progress, 100, 1, end, 'why')


def test_the_strongest_comes_first_and_progress_breaks_ties():
    runs = [outcome('c', False, 0.1), outcome('a', True, 1.0), outcome('b', False, 0.6)]
    assert list(rates.in_order(runs)) == ['a', 'b', 'c']
    assert rates.summary(runs)['rate'] == pytest.approx(1 / 3)


def test_the_table_names_what_broke_down():
    text = rates.table([outcome('a', True, 1.0), outcome(
        'b', False, 0.0, seed=4, end='policy_error')], 60.0)
    assert 'b on lift_cube, seed 4: policy_error, why' in text
    assert text.index('\na ') < text.index('\nb ')
    assert max(map(len, text.splitlines())) <= 99


def test_a_safety_stop_is_a_failure_but_no_breakdown():
    ends = ('done', 'timeout', 'safety_stop', 'policy_error', 'driver_error')
    runs = [outcome('a', False, 0.1, end=end) for end in ends]
    assert rates.summary(runs)['broken'] == 2
    assert 'and 2 more that ended early' in rates.table(runs[2:] + runs[1:] + runs[4:], 1.0)


def test_the_command_prints_json(capsys):
    assert main(['policy', 'rates', '--policies', 'frozen,random_walk', '--tasks', 'lift_cube',
                 '--seeds', '2', '--max-steps', '20', '--jobs', '1', '--json']) == 0
    results = json.loads(capsys.readouterr().out)
    assert set(results) == {'frozen', 'random_walk'}
    rates = results['frozen']
    assert rates['episodes'] == 2
    assert rates['successes'] == 0
    assert rates['steps'] == 20
    assert [run['seed'] for run in rates['runs']] == [0, 1]
    assert rates['tasks']['lift_cube']['high'] == pytest.approx(wilson(0, 2)[1])


def test_a_policy_that_breaks_down_is_reported(capsys, monkeypatch):
    monkeypatch.syspath_prepend('test/policy')
    assert main(['policy', 'rates', '--policies', 'broken_policies:NotANumber', '--tasks',
                 'lift_cube', '--seeds', '1', '--max-steps', '20', '--jobs', '1']) == 1
    assert 'policy_error' in capsys.readouterr().out


@pytest.mark.parametrize(('arguments', 'says'), [
    (['--tasks', 'lift_cub'], 'lift_cube'), (['--policies', 'visio'], 'vision'),
    (['--seeds', '0'], 'at least 1'), (['--kwargs', 'a=1'], 'cannot be made with'),
    (['--policies', 'frozen,echo', '--kwargs', 'a=1'], 'for a single policy')])
def test_wrong_words_are_answered_with_the_right_ones(arguments, says, capsys):
    arguments = ['--jobs', '1', '--seeds', '1', '--max-steps', '5', '--tasks', 'lift_cube',
                 '--policies', 'frozen', *arguments]
    assert main(['policy', 'rates', *arguments]) == 2
    assert says in capsys.readouterr().err
