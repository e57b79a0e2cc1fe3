"""A short part of `make attack`: nothing goes wrong at any border, and its table can fail."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import pytest
from postgres import program

FOLDER = Path(__file__).resolve().parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


tally = load('tally')
borders = load('borders')
server_calls = load('server_calls')
bags = load('bags')
shams = load('shams')
held = load('held')
campaign = load('campaign')
history = load('history')


def test_nothing_goes_wrong_at_any_border():
    tallies = borders.all_borders(400, seed=7)
    assert not any(border.bad for border in tallies), tally.table(tallies)
    assert {border.tried for border in tallies} == {400}


def test_a_server_takes_odd_bytes_and_wrong_tokens(tmp_path):
    tallies = server_calls.server_calls(tmp_path / 'server', 120, seed=7)
    assert not any(row.bad for row in tallies), tally.table(tallies)


def test_no_sham_counts_and_an_honest_session_does(tmp_path):
    row = shams.shams(tmp_path, len(shams.SHAMS), seed=7)
    assert not row.bad, tally.table([row])
    assert row.tried == len(shams.SHAMS) + 2


def test_damaged_bags_and_copies_of_a_bag_that_is_written(tmp_path):
    tallies = [bags.damaged_bags(tmp_path / 'damaged', 20, seed=7),
             bags.growing_bags(tmp_path / 'growing', 10, seed=7)]
    assert not any(row.bad for row in tallies), tally.table(tallies)
    assert [row.tried for row in tallies] == [20, 10]


def test_kills_of_server_policies_and_stations_and_full_disks_lose_nothing():
    tallies = [campaign.alone('kills.py', '--kills', '6', '--seed', '7'),
             campaign.alone('kills.py', '--kills', '3', '--seed', '7', '--full-disks')]
    assert not any(row.bad for row in tallies), tally.table(tallies)
    assert all(row.tried >= 3 for row in tallies)


def test_two_servers_that_are_killed_and_paused_keep_to_one_order():
    if not program('initdb'):
        pytest.skip("PostgreSQL's programs are missing: apt-get install postgresql")
    row = campaign.alone('two_servers.py', '--faults', '8', '--seed', '7')
    assert not row.bad, tally.table([row])
    assert row.tried == 8


GOOD, BAD = 'A is better', 'B is better'


@pytest.mark.parametrize(('calls', 'fits'), [
    ([('draw', '', 'pair 1', 0, 1), ('draw', '', 'pair 1', 2, 3)], True),
    ([('draw', '', 'pair 1', 0, 1), ('draw', '', 'pair 2', 0, 1)], False),
    ([('judge', GOOD, 'taken', 0, 1), ('look', '', (GOOD, False), 2, 3)], True),
    ([('judge', GOOD, 'taken', 0, 1), ('look', '', (None, False), 2, 3)], False),
    ([('judge', GOOD, 'taken', 0, 1), ('judge', BAD, 'refused', 0, 1)], True),
    ([('judge', GOOD, 'taken', 0, 1), ('judge', BAD, 'taken', 0, 1)], False),
    ([('judge', GOOD, 'refused', 0, 1), ('judge', BAD, 'taken', 2, 3)], False),
    # What was never answered may be carried out late, by a server that was paused, or never.
    ([('judge', BAD, 'no answer', 0, math.inf), ('judge', GOOD, 'refused', 2, 3)], True),
    ([('judge', BAD, 'no answer', 0, math.inf), ('judge', GOOD, 'taken', 2, 3)], True),
    ([('judge', GOOD, 'refused', 0, 1), ('judge', BAD, 'no answer', 2, math.inf)], False),
    ([('reveal', '', ('nonce', 'x', 'y'), 0, 2), ('judge', GOOD, 'taken', 1, 3)], True),
    ([('reveal', '', ('nonce', 'x', 'y'), 0, 1), ('judge', GOOD, 'taken', 2, 3)], False),
    ([('judge', GOOD, 'taken', 0, 1), ('reveal', '', 'refused', 2, 3),
      ('look', '', (GOOD, True), 4, 5)], False),
    ([('judge', GOOD, 'taken', 0, 1), ('reveal', '', ('nonce', 'x', 'y'), 2, 3),
      ('reveal', '', 'waits', 4, 5)], False),
    ([('log', '', 5, 0, 1), ('log', '', 4, 0, 1)], True),
    ([('log', '', 5, 0, 1), ('log', '', 4, 2, 3)], False),
])
def test_a_history_is_explained_by_an_order_of_its_calls(calls, fits):
    past = history.History()
    past.calls = [history.Call('subject', *call) for call in calls]
    assert bool(past.unexplained()) is not fits


def test_every_attack_that_a_test_holds_is_there():
    for row, tests in held.ATTACKS.items():
        for test in tests:
            path, _, name = test.partition('::')
            assert f'def {name}(' in (held.ROOT / path).read_text() if name else (
                held.ROOT / path).exists(), f'{row}: {test}'
    tallied = held.held('C: addresses that lead inside')
    assert tallied.tried > 20
    assert not tallied.bad


def test_a_part_says_when_it_begins_and_its_result(capsys):
    row = tally.Tally('bags', tried=3, crashes=1)
    assert campaign.reported('bags', lambda: [row]) == [row]
    assert capsys.readouterr().err.splitlines() == ['bags ...', 'bags: 0 s, 3 tried, 1 wrong']


def test_the_command_starts_without_the_paths_of_the_tests():
    done = subprocess.run([sys.executable, Path(campaign.__file__), '--help'], check=False,
                          capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 0, done.stderr


def test_a_part_that_fails_is_a_crash():
    assert campaign.alone('no_such_part.py').crashes == 1


@pytest.mark.parametrize(('read', 'column'), [
    (lambda data: data.decode('ascii'), 'crashes'), (lambda data: data, 'wrong')])
def test_what_goes_wrong_is_in_the_table(read, column):
    row = tally.parse('a parser', [b'\xff', b'abc'], read, lambda given, out: out == 'abc')
    assert getattr(row, column) > 0
    assert f'{column}: ' in tally.table([row])
    assert tally.table([row]).splitlines()[-1].startswith('attack: 2 tried, ')
