"""One table, every way in: the same rows counted, the same rows refused with the same words."""

import csv
import json
import re

import pytest
from roboarena_tables import both, load

from arena_robot.cli.main import main
from arena_robot.records.roboarena_files import read_folder
from arena_robot.server.results.standings import Results
from arena_robot.server.store.database import Database

SESSIONS = """session_uuid,institution,evaluator,created,completed,valid,preference,policy_a,\
policy_b
s1,nyu,ada,2025-03-21 11:02:24.5,,yes, A ,p,q
s2,nyu,ada,2025-03-21 12:02:24,,1.0,tie, q ,r
s3,nyu,bob,2025-03-22 12:02:24,,True,a,r,p
s4,nyu,bob,,,no,,p,q
s5,nyu,bob,,,1,,p,q
same,nyu,bob,,,1,A,p,p
same-but-for-spaces,nyu,bob,,,0,,p, p
nobody,nyu,bob,,,1,A,p,
s1,nyu,bob,,,1,B,p,q
maybe,nyu,bob,,,maybe,A,p,q
left,nyu,bob,,,0,left,p,q
when,nyu,bob,yesterday,,1,A,p,q
../up,nyu,bob,,,1,A,p,q
"""
EPISODES = """session_uuid,policy,instruction,partial_success,duration_steps,letter,binary_success
s1,p,stack, 1.0 ,72,a,yes
s1,q,stack,0.25,90, B ,0.0
s1,z,stack,0.5,91,C,
s2,q,wipe,0.5,10,,
s2,r,wipe,0.25,10,,
s3,r,wipe,1.5,10,A,
s3,r,wipe,nan,10,A,
s3,p,wipe,0.5,ten,B,
s3,p,wipe,0.5,10,A,
s3,p,wipe,0.75,10,B,
s4,,wipe,0.75,10,,
nowhere,p,wipe,0.75,10,,
same,p,wipe,0.75,10,,
"""
COUNTED = {'s1': ('p', 'q', 'A', 1.0, 0.25), 's2': ('q', 'r', 'TIE', 0.5, 0.25),
           's3': ('r', 'p', 'A', None, 0.75)}
REFUSED = [
    "sessions.csv:7: policies are 'p' and 'p'; expected two names",
    "sessions.csv:8: policies are 'p' and 'p'; expected two names",
    "sessions.csv:9: policies are 'p' and ''; expected two names",
    "sessions.csv:10: session_uuid is 's1' as in line 2; expected each session once",
    "sessions.csv:11: valid is 'maybe'; expected 1 or 0 (yes or no, true or false)",
    "sessions.csv:12: preference is 'left'; expected A, B, TIE or nothing",
    "sessions.csv:13: created is 'yesterday'; expected a time such as 2025-03-21 11:02:24",
    "sessions.csv:14: session_uuid is '../up'; expected a name of 1 to 36 characters that a "
    'folder can have',
    "episodes.csv:7: partial_success is '1.5'; expected a number from 0 to 1",
    "episodes.csv:8: partial_success is 'nan'; expected a number from 0 to 1",
    "episodes.csv:9: duration_steps is 'ten'; expected a number from 0 to 1e+09",
    "episodes.csv:10: letter is 'A' and policy 'p'; A is 'r' and B is 'p'",
    "episodes.csv:12: policy is ''; expected a name",
    "episodes.csv:13: session_uuid is 'nowhere'; expected one of sessions.csv",
]


def rank(folder, out, capsys):
    tables = ['--sessions', str(folder / 'sessions.csv'), '--episodes',
              str(folder / 'episodes.csv')]
    assert main(['rank', *tables, '--json', '--intervals', '0']) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report['refused'] == refused_in(printed.err)
    return sum(row['n'] for row in report['standings']) // 2, report['refused']


def study_methods(folder, out, capsys):
    tables = ['--sessions', str(folder / 'sessions.csv'), '--episodes',
              str(folder / 'episodes.csv')]
    code = main(['study', 'methods', *tables, '--json', '--method', 'bt', '--splits', '2',
                 '--sizes', '', '--share', '0.7'])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)['settings']['comparisons'], refused_in(printed.err)


def import_(folder, out, capsys):
    assert main(['episode', 'import', str(folder), '--output', str(out)]) == 0
    printed = capsys.readouterr()
    return int(re.search(r'(\d+) with a valid verdict', printed.out)[1]), refused_in(printed.err)


def import_into_server(folder, out, capsys):
    assert main(['episode', 'import', str(folder), '--output', str(out), '--server-data',
                 str(out)]) == 0
    with Database(f'sqlite:///{out}/arena.db') as database:
        return len(Results(database).comparisons()), refused_in(capsys.readouterr().err)


def refused_in(text):
    return re.findall('^arena: refused: (.*)$', text, re.M)


DOORS = [rank, study_methods, import_, import_into_server]


@pytest.fixture
def nasty(tmp_path):
    folder = tmp_path / 'tables'
    folder.mkdir()
    (folder / 'sessions.csv').write_text(SESSIONS)
    (folder / 'episodes.csv').write_text(EPISODES)
    return folder


@pytest.mark.parametrize('door', DOORS)
def test_every_door_counts_and_refuses_the_same_rows(door, nasty, tmp_path, capsys):
    counted, refused = door(nasty, tmp_path / 'out', capsys)
    assert counted == len(COUNTED)
    assert [line.removeprefix(f'{nasty}/') for line in refused] == REFUSED


def test_the_verdicts_are_the_same_ones_from_table_and_database(nasty, tmp_path):
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        load(database, nasty)
        stored = Results(database).comparisons()
    read = read_folder(nasty).comparisons()

    def rows(verdicts):
        return {v.session_id: (v.a, v.b, v.preference.value, *(
            None if x != x else x for x in (v.progress_a, v.progress_b))) for v in verdicts}
    assert rows(read) == rows(stored) == COUNTED


def test_a_policy_against_itself_in_an_old_database_empties_no_leaderboard(nasty, tmp_path):
    import sqlalchemy as sa

    from arena_robot.server.store.schema import sessions
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        load(database, nasty)
        with database.write() as connection:
            connection.execute(sa.update(sessions).where(sessions.c.id == 's5').values(
                preference='A', policy_b_id=sessions.c.policy_a_id))
        results = Results(database)
        assert len(results.comparisons()) == len(COUNTED)
        standings, _ = results.standings('bt', intervals=0)
        assert len(standings.items) == 3


def test_what_was_refused_is_not_in_the_tables_written(nasty, tmp_path, capsys):
    out = tmp_path / 'out'
    import_(nasty, out, capsys)
    written = read_folder(out)
    assert written.refused == ()
    assert written.sessions == read_folder(nasty).sessions


@both
@pytest.mark.parametrize('door', DOORS)
def test_every_door_takes_all_of_the_real_tables(door, tables, tmp_path, capsys):
    counted, refused = door(tables, tmp_path / 'out', capsys)
    # One verdict is between two policies that can be compared with no other one: a ranking keeps
    # it, a comparison of methods leaves it out.
    alone = 1 if door is study_methods else 0
    with (tables / 'sessions.csv').open(newline='') as file:
        wanted = sum(r['valid'] == '1' and r['preference'] != '' for r in csv.DictReader(file))
    assert counted == wanted - alone
    assert refused == []
