"""Whether a pair was chosen by earlier verdicts: kept with the session, on all its ways out."""

import json

import pytest
from arena_setting import STATION, Setting, run

from arena_robot.core.episode import Preference
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.base import Comparisons
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_folder, write_tables
from arena_robot.records.session_file import SessionFile, read_session, write_session
from arena_robot.server.results.exports import export_tables, materialise
from arena_robot.server.store.browse import Browse
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.session.arena.contract import PROMPT
from arena_robot.web.site.downloads import standings_of


def test_a_pair_is_chosen_from_the_first_verdict_on_and_a_given_up_one_stays_as_it_was(
        setting, folder, tmp_path):
    arena, server = setting.arena(), setting.server
    given_up = arena.assign(STATION, 'ada', PROMPT).session_id
    first = run(arena, folder)
    reveals = [arena.reveal(first)]
    arena.abort(given_up, 'not this one')
    again, second = run(arena, folder), run(arena, folder)
    reveals += [arena.reveal(again), arena.reveal(second)]
    assert server.sessions.get(again).repeats == given_up
    expected = {first: False, again: False, second: True}
    assert server.sessions.get(given_up).chosen is False
    assert {name: server.sessions.get(name).chosen for name in expected} == expected
    assert [reveal.chosen for reveal in reveals] == list(expected.values())
    entries = [json.loads(body) for body in server.log.entries(0)]
    assert {entry['session']: entry['chosen'] for entry in entries} == expected
    bundle = server.log.bundle()
    assert check_bundle({**bundle, 'standings': standings_of(bundle)}).chosen == 1
    export_tables(server.database, tmp_path / 'out')
    assert {row.session_id: row.chosen for row in read_folder(tmp_path / 'out').comparisons()
            } == expected
    folders = materialise(Browse(server.database), server.uploads, server.blobs,
                          tmp_path / 'sessions')
    assert {path.name: read_session(path).comparison().chosen for path in folders} == expected
    assert server.results.votes().chosen.sum() == 1


def test_a_server_that_does_not_look_at_verdicts_chooses_no_pair(tmp_path, pool):
    setting = Setting(tmp_path / 'server', '', pool, informative=False)
    try:
        arena = setting.arena()
        assert [arena.reveal(run(arena, tmp_path)).chosen for _ in range(2)] == [False, False]
    finally:
        setting.close()


@pytest.mark.parametrize('chosen', [True, False, None])
def test_files_and_tables_keep_it(tmp_path, chosen):
    write_session(tmp_path, SessionFile(
        's1', state='done', reveal=Reveal('n', 'p', 'q', chosen=chosen),
        verdict=Verdict(preference=Preference.A, explanation='A did it')))
    write_tables(tmp_path, [RoboArenaSession('s1', 'p', 'q', preference=Preference.A,
                                             chosen=chosen)])
    rows = [read_session(tmp_path).comparison(), *read_folder(tmp_path).comparisons()]
    assert [row.chosen for row in rows] == [chosen, chosen]
    votes = Comparisons.from_words(rows)
    assert (votes.chosen is not None and votes.chosen.all()) == bool(chosen)
    assert votes.take([0]).chosen is None or votes.take([0]).chosen.tolist() == [True]
