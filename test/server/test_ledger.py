import threading
import time

import pytest
import sqlalchemy as sa

from arena_robot.core.errors import DataError, ServerUnavailable
from arena_robot.server.store import log
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import (
    MINT,
    SPENT,
    Ledger,
    NotEnoughCredit,
    Transfer,
    book,
)
from arena_robot.server.store.schema import entries


@pytest.fixture
def ledger(database, clock):
    return Ledger(database, clock)


def give(ledger, name, amount, transfer='start'):
    return ledger.transfer(Transfer(transfer, MINT, f'account:{name}', amount, 'start'))


def test_a_transfer_moves_credits_and_sums_to_zero(ledger):
    give(ledger, 'ada', 5)
    ledger.transfer(Transfer('ask:1', 'account:ada', SPENT, 2, 'policy requested'))
    assert ledger.balances() == {MINT: -5, 'account:ada': 3, SPENT: 2}
    ledger.check()


def test_the_same_transfer_happens_once(ledger):
    assert give(ledger, 'ada', 5) is True
    assert give(ledger, 'ada', 5) is False
    assert ledger.balance('account:ada') == 5


def test_nobody_goes_below_zero(ledger):
    give(ledger, 'ada', 1)
    with pytest.raises(NotEnoughCredit, match='cannot pay 2 for policy requested'):
        ledger.transfer(Transfer('ask:1', 'account:ada', SPENT, 2, 'policy requested'))
    assert ledger.balance('account:ada') == 1
    assert ledger.balance('account:never heard of') == 0
    ledger.check()


def test_entries_cannot_be_changed_or_deleted(ledger, database):
    give(ledger, 'ada', 5)
    for statement in (sa.update(entries).values(amount=500), sa.delete(entries)):
        with pytest.raises(sa.exc.DBAPIError, match='append-only'), \
                database.write() as connection:
            connection.execute(statement)
    ledger.check()


def test_a_ledger_that_does_not_add_up_says_so(ledger, database):
    give(ledger, 'ada', 5)
    with database.write() as connection:
        connection.execute(sa.text("UPDATE balances SET amount = 7 WHERE holder = 'account:ada'"))
    with pytest.raises(DataError, match='account:ada'):
        ledger.check()


def test_fifty_concurrent_writers_neither_lose_nor_double_a_credit(ledger):
    for number in range(5):
        give(ledger, f'owner{number}', 20, f'start:{number}')
    refused, start = [], threading.Barrier(50)

    def write(writer):
        start.wait(30.0)
        for turn in range(6):
            payer = f'account:owner{(writer + turn) % 5}'
            # Half of the transfers are sent twice, as after a lost reply.
            for name in (f'ask:{writer}:{turn}',) * (1 + writer % 2):
                try:
                    ledger.transfer(Transfer(name, payer, SPENT, 1, 'policy requested'))
                except NotEnoughCredit:
                    refused.append(name)

    writers = [threading.Thread(target=write, args=(k,)) for k in range(50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60.0)
    balances = ledger.balances()
    assert balances[SPENT] == 100, 'three hundred asked, a hundred credits were there'
    assert all(balances[f'account:owner{k}'] == 0 for k in range(5))
    assert len(set(refused)) == 200
    assert sum(balances.values()) == 0
    ledger.check()


def test_a_server_that_stands_still_in_a_transaction_is_not_waited_for(
        postgres_url, clock, monkeypatch):
    """A paused machine has booked a credit and has the lock of the log; another server goes on."""
    monkeypatch.setattr('arena_robot.server.store.database.IDLE_S', 1.0)
    at_rest, goes_on, said = threading.Event(), threading.Event(), []

    def pause(database):
        try:
            with database.write() as connection:
                book(connection, Transfer('earn:1', MINT, 'account:ada', 1, 'counts'), 1)
                log.append(connection, [('s1', '{}')], 1)
                at_rest.set()
                goes_on.wait(60.0)
                connection.execute(sa.text('SELECT 1'))
        except ServerUnavailable as error:
            said.append(str(error))

    with Database(postgres_url) as paused, Database(postgres_url) as awake:
        ledger = Ledger(awake, clock)
        give(ledger, 'ada', 5)
        thread = threading.Thread(target=pause, args=(paused,))
        thread.start()
        assert at_rest.wait(30.0)
        begun_s = time.monotonic()
        assert give(ledger, 'bob', 1, 'earn:2')
        assert give(ledger, 'ada', 1, 'earn:3')    # the row of the same account is waited for
        with awake.write() as connection:
            log.append(connection, [('s2', '{}')], 1)
        took_s = time.monotonic() - begun_s
        goes_on.set()
        thread.join(60.0)
        assert took_s < 10.0, 'as long as the paused server may stand still, and no longer'
        assert 'ask again' in said[0], 'the call of the server that goes on can be repeated'
        assert ledger.balance('account:ada') == 6
        with awake.read() as connection:
            assert [entry.session_id for entry in log.entries(connection, 0, 9)] == ['s2']
        ledger.check()


def test_transfers_of_different_accounts_do_not_wait_for_each_other(postgres_url, clock):
    with Database(postgres_url) as first, Database(postgres_url) as second:
        ledger = Ledger(second, clock)
        give(ledger, 'ada', 5)
        with first.write() as connection:
            book(connection, Transfer('earn:1', MINT, 'account:ada', 1, 'counts'), 1)
            done = threading.Thread(target=give, args=(ledger, 'bob', 1, 'earn:2'))
            done.start()
            done.join(20.0)
            assert not done.is_alive()
        ledger.check()
