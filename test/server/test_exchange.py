import csv
import dataclasses

import numpy as np
import pytest
from roboarena_tables import both, load

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.records.roboarena_files import read_tables
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import Role
from arena_robot.server.config import ServerConfig
from arena_robot.server.results.exports import export_tables, materialise
from arena_robot.server.results.standings import Results
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.tallies import Score, TallyBy, against
from arena_robot.server.store.uploads import Uploads
from arena_robot.server.store.verdicts import Selection

SESSIONS = """session_uuid,institution,evaluator,created,valid,preference,policy_a,policy_b,\
feedback_text
s1,nyu,ada,2025-03-21 11:02:24.5,1,A,p,q,"A was, as <b>they</b> say, ""fine"" enough"
s2,nyu,ada,2025-03-21 12:02:24,0,,q,p,
s3,penn,bob,2025-03-22 12:02:24,1,TIE,q,r,meh
"""
EPISODES = """session_uuid,policy,instruction,partial_success,duration_steps,letter
s1,p,stack the cups,1.0,72,A
s1,q,stack the cups,0.25,90,B
s1,r,stack the cups,0.5,91,
s3,q,wipe,,10,A
"""


def write(folder, sessions=SESSIONS, episodes=EPISODES):
    (folder / 'sessions.csv').write_text(sessions)
    if episodes:
        (folder / 'episodes.csv').write_text(episodes)
    return folder


def test_tables_come_in_once_and_go_out_again(database, clock, tmp_path):
    first = load(database, write(tmp_path))
    assert (first.sessions, first.episodes, first.policies, first.known) == (3, 4, 3, 0)
    again = load(database, tmp_path)
    assert (again.sessions, again.known) == (0, 3)
    verdicts = Results(database).comparisons()
    assert [(v.a, v.b, v.preference.value, v.progress_a, v.institution) for v in verdicts][:1] == [
        ('p', 'q', 'A', 1.0, 'nyu')]
    assert len(verdicts) == 2
    out = tmp_path / 'out'
    export_tables(database, out)
    kept = {r['session_uuid']: r for r in csv.DictReader((out / 'sessions.csv').open())}
    assert kept['s1']['feedback_text'] == 'A was, as <b>they</b> say, "fine" enough'
    assert kept['s2']['valid'] == '0'
    assert len(list(csv.DictReader((out / 'episodes.csv').open()))) == 4
    with pytest.raises(DataError, match='exists'):
        export_tables(database, out)


def test_imported_sessions_on_another_robot_are_in_a_pool_of_their_own(database, tmp_path):
    lines = SESSIONS.splitlines()
    load(database, write(tmp_path, '\n'.join([f'{lines[0]},robot', f'{lines[1]},ur5', *(
        f'{line},' for line in lines[2:])]), None))
    assert {robot: [row.session_id for row in Results(database).comparisons(
        Selection(robot=robot))] for robot in ('ur5', 'panda')} == {'ur5': ['s1'], 'panda': ['s3']}


def test_tallies_are_kept_until_another_verdict_counts(database, tmp_path, monkeypatch):
    results = Results(database)
    monkeypatch.setattr('arena_robot.server.results.standings.LOOK_S', -1.0)
    assert results.tallies(TallyBy.CATEGORY) == []
    load(database, write(tmp_path))
    tallies = results.tallies(TallyBy.CATEGORY)
    assert sum(tally.count for tally in tallies) == 2
    assert results.tallies(TallyBy.CATEGORY) is tallies
    assert against(tallies, 'p')['q'] == Score(wins=1)
    assert sum(tally.count for tally in results.tallies(TallyBy.INSTITUTION)) == 2


@pytest.mark.parametrize(('sessions', 'episodes', 'words'), [
    ('a,b\n1,2\n', '', 'no column session_uuid, valid'),
    (SESSIONS, 'a,b\n1,2\n', 'no column session_uuid, policy'),
    (SESSIONS[:SESSIONS.index('s1')] + 's1,nyu,ada,,1,A,p,p,\n', '', 'no session can be used'),
])
def test_a_wrong_table_changes_nothing(database, clock, tmp_path, sessions, episodes, words):
    with pytest.raises(DataError, match=words):
        load(database, write(tmp_path, sessions, episodes))
    assert Results(database).comparisons() == []
    with pytest.raises(DataError, match='cannot be read'):
        load(database, tmp_path / 'nowhere')


@pytest.mark.parametrize('odd', ['../../../escape', '/tmp/escape', '..', '.hidden'])
def test_no_id_names_a_folder_outside_of_the_output(database, clock, tmp_path, odd, caplog):
    class Odd(Browse):
        """A database with an id that `arena episode import` refuses."""

        def page(self, chosen):
            page = super().page(chosen)
            return dataclasses.replace(page, evaluations=[
                dataclasses.replace(one, id=odd) if one.id == 's1' else one
                for one in page.evaluations])

    load(database, write(tmp_path))
    blobs = Blobs(str(tmp_path / 'blobs'))
    blobs.open()
    output = tmp_path / 'here' / 'and' / 'out'
    written = list(materialise(Odd(database), Uploads(
        database, blobs, tmp_path / 'spool', clock), blobs, output))
    assert sorted(path.name for path in written) == ['s2', 's3']
    assert sorted(output.iterdir()) == sorted(written)
    assert list((tmp_path / 'here').iterdir()) == [output.parent]
    assert repr(odd) in caplog.text


def test_evaluations_imported_before_the_first_start_leave_room_for_a_maintainer(tmp_path, capsys):
    folder = tmp_path / 'data'
    tables = write(tmp_path, SESSIONS.replace('nyu,ada', 'nyu,maintainer'))
    assert main(['episode', 'import', str(tables), '--output', str(tmp_path / 'out'),
                 '--server-data', str(folder)]) == 0
    config = ServerConfig(data=folder, port=0, site_port=-1, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        token = server.first_token()
        assert token
        assert Role.MAINTAINER in server.accounts.caller(token).roles
        assert server.first_token() is None


@both
def test_the_real_evaluations_come_through_unchanged(tables, database, clock, tmp_path):
    load(database, tables)
    export_tables(database, tmp_path / 'out')
    verdicts = Results(database).comparisons()
    with (tables / 'sessions.csv').open(newline='') as file:
        wanted = {r['session_uuid']: (r['policy_a'], r['policy_b'], r['preference'])
                  for r in csv.DictReader(file) if r['valid'] == '1' and r['preference']}
    assert {v.session_id: (v.a, v.b, v.preference.value) for v in verdicts} == wanted
    names = sorted({n for v in verdicts for n in (v.a, v.b) if n.endswith('_droid')})
    data = read_tables(tables / 'sessions.csv', tables / 'episodes.csv')
    direct = arena_tables(data.comparisons(), data.scored(), names).comparisons
    fits = [BradleyTerry()(c) for c in (Comparisons.from_words(verdicts, names), direct)]
    assert np.allclose(fits[0].scores, fits[1].scores, atol=1e-9)
