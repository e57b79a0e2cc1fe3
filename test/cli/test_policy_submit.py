"""`arena policy submit --wait` ends when the server has checked the policy, or in time."""

from types import SimpleNamespace

import pytest

from arena_robot.cli.main import main
from arena_robot.cli.policy import submit as verb


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
