"""Credits are given within an institution and spent on comparisons; a balance changes the draw."""

import json
import sys
import uuid
from types import SimpleNamespace

import pytest
from arena_setting import NAMES, Setting, run

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import Conflict, DataError, Unauthorised
from arena_robot.server.base import Role
from arena_robot.server.config import Credits, Weights
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.sessions.assignment import Candidate, pair_weights
from arena_robot.server.sessions.credits import grant_weekly
from arena_robot.server.store.ledger import MINT, Ledger, Transfer


@pytest.fixture
def lab(tmp_path, pool):
    """A server where ada has five credits, and an owner of her institution and one of another."""
    made = Setting(tmp_path / 'server', '', pool, credits=Credits(0))
    accounts, ledger = made.server.accounts, made.server.ledger
    for name, place in (('otto', 'NYU'), ('berta', 'berkeley')):
        account = accounts.add_account(name, place, [Role.OWNER])
        made.tokens[name] = accounts.issue(account)
    ledger.transfer(Transfer('gift', MINT, 'account:ada', 5, 'sessions that counted'))
    yield made
    made.close()


def give(setting, to, amount, name=None):
    return setting.calls('ada')('GiveCredits', pb.GiveRequest(
        to=to, amount=amount, request=name or uuid.uuid4().hex))


def ask(setting, who, policy, amount):
    return setting.calls(who)('RequestComparisons', pb.ComparisonsRequest(
        policy=policy, amount=amount, request=uuid.uuid4().hex))


def test_an_evaluator_gives_her_credits_to_an_owner_of_her_institution_alone(lab):
    name = uuid.uuid4().hex
    for _ in range(2):    # the answer to the first was lost
        assert give(lab, 'otto', 2, name).balance == 3
    assert lab.calls('otto')('Credits', pb.Empty()).balance == 2
    with pytest.raises(Unauthorised, match='within an institution'):
        give(lab, 'berta', 1)
    with pytest.raises(Conflict, match='ada has 3 credits, and cannot spend 4'):
        give(lab, 'otto', 4)
    for amount in (0, -3):
        with pytest.raises(DataError, match='1 credit or more'):
            give(lab, 'otto', amount)
    lab.server.ledger.check()


def test_comparisons_that_are_paid_for_are_drawn_and_spend_what_was_paid(lab, folder):
    with pytest.raises(Unauthorised, match='not one of nyu'):
        ask(lab, 'ada', NAMES[0], 1)
    lab.server.ledger.transfer(Transfer('grant', MINT, 'account:olga', 9, 'weekly base'))
    paid = ask(lab, 'owner', NAMES[0], 4)
    assert (paid.balance, dict(paid.paid)) == (5, {NAMES[0]: 4})
    arena, seen = lab.arena(), 0
    for _ in range(6):
        session_id = run(arena, folder)
        assert arena.standing(session_id)[0]
        row = lab.server.sessions.get(session_id)
        seen += lab.server.policies.get(NAMES[0]).id in (row.policy_a_id, row.policy_b_id)
    left = lab.calls('owner')('Credits', pb.Empty())
    assert dict(left.paid) == ({NAMES[0]: 4 - seen} if seen < 4 else {})
    assert left.balance == max(0, 5 - (12 - min(seen, 4))), 'the others cost the owner herself'
    lab.server.ledger.check()


def test_a_balance_and_what_is_paid_change_the_draw():
    weights = Weights()
    poor, half, full = (Candidate(k, k, 3, credit) for k, credit in enumerate((0.0, 0.5, 1.0)))
    paid = Candidate(3, 3, 3, 1.0, paid=True)
    table = pair_weights([poor, half, full, paid], weights)
    assert table[0, 3] / table[2, 3] == pytest.approx(weights.no_credit)
    assert table[1, 3] / table[2, 3] == pytest.approx(0.55)
    assert table[1, 3] / table[1, 2] == pytest.approx(weights.paid)


def test_the_weekly_grant_ends_at_its_cap(lab):
    server = lab.server
    ledger = Ledger(server.database, SystemClock())
    ledger.transfer(Transfer('many', MINT, 'account:olga', 95, 'saved'))
    grant_weekly(server.database, SystemClock(), Credits(20, 100, {'berta': 500}))
    assert [ledger.balance(f'account:{name}') for name in ('olga', 'otto', 'berta')] == [
        100, 20, 100]


def test_the_verb_shows_what_there_is(lab, monkeypatch, capsys):
    def call(who, *words):
        monkeypatch.setenv('ARENA_TOKEN', lab.tokens[who])
        assert main(['credits', *words, '--server', lab.target]) == 0
        return capsys.readouterr().out

    assert call('ada', '--give', '2', '--to', 'otto').startswith('3 credits\n')
    assert '-2  from ada to otto' in call('ada')
    shown = json.loads(call('otto', '--json'))
    assert (shown['balance'], shown['lines'][0]['amount']) == (2, 2)


@pytest.fixture
def keyring(monkeypatch, request):
    """A keyring of a desktop that holds what is kept, or none."""
    if not request.param:
        monkeypatch.setitem(sys.modules, 'keyring', None)    # an import of it fails
        return None
    held = {}
    monkeypatch.setitem(sys.modules, 'keyring', SimpleNamespace(
        get_keyring=lambda: SimpleNamespace(priority=5), get_password=lambda *key: held.get(key),
        set_password=lambda service, name, token: held.update({(service, name): token}),
        delete_password=lambda *key: held.pop(key)))
    return held


@pytest.mark.parametrize('keyring', [False, True], indirect=True, ids=['file', 'keyring'])
def test_a_login_is_kept_for_every_verb_and_for_its_server_alone(lab, keyring, monkeypatch,
                                                                 tmp_path, capsys):
    def said(*words):
        return main(list(words)), ''.join(capsys.readouterr())

    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path))
    monkeypatch.delenv('ARENA_TOKEN', raising=False)
    wrong, token = tmp_path / 'wrong', tmp_path / 'token'
    wrong.write_text('arena-nobody')
    token.write_text(lab.tokens['ada'] + '\n')
    kept = tmp_path / 'arena' / 'login.json'
    assert said('login', lab.target, '--token-file', str(wrong))[0] == 1
    assert not kept.exists(), 'the server was asked first'
    assert said('login')[0] == 2

    code, out = said('login', lab.target, '--token-file', str(token))
    assert (code, f'at {lab.target}: evaluator' in out) == (0, True)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (lab.tokens['ada'] in kept.read_text()) is (keyring is None)
    assert said('credits')[0] == 0
    assert said('login')[1].startswith('ada of ')
    code, out = said('credits', '--server', '127.0.0.1:9')
    assert code == 2
    assert 'no token for 127.0.0.1:9' in out
    monkeypatch.setenv('ARENA_TOKEN', lab.tokens['otto'])
    assert '5 credits' not in said('credits')[1], 'the variable goes first'
    monkeypatch.delenv('ARENA_TOKEN')

    assert said('login', '--forget')[0] == 0
    assert not kept.exists()
    assert not keyring
    assert said('credits')[0] == 2
    kept.write_text('{"server": 5')
    assert 'is no login' in said('credits')[1]
