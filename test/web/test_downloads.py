"""The downloads and whoever reads the site count what the leaderboard counts, and nothing else."""

import csv
import io
from dataclasses import replace

import pytest
from test_site import Place

from arena_robot.core.episode import Preference
from arena_robot.core.verdict import Verdict
from arena_robot.nodes.ranking.sources import SiteSource
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_tables
from arena_robot.server.base import Caller, Role
from arena_robot.server.store.browse import MARKS, Evaluation
from arena_robot.server.store.evaluations import insert_evaluations

FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / 'site')
    insert_evaluations(made.server.database, made.server.sessions._clock, [RoboArenaSession(
        'import-1', FORMULA, 'nowhere', True, Preference.A, '@institution', 'eve',
        '2025-03-21T11:02:24', '2025-03-21T11:12:24', '+fine', rollouts=())])
    made.server.results.forget()
    yield made
    made.close()


def counted(place):
    return {c.session_id for c in place.server.results.comparisons()}


def table(place):
    return list(csv.DictReader(io.StringIO(place.get('/data/sessions.csv').text)))


def test_a_withdrawn_session_leaves_the_downloads_and_the_ranking_node(place, tmp_path):
    over = SiteSource(place.web.address)
    before = over.version()
    assert {c.session_id for c in over.comparisons()} == counted(place)
    assert len(counted(place)) == 7
    gone = place.sessions[2]
    place.server.acceptance.correct(
        Caller(1, 'root', 'local', frozenset({Role.MAINTAINER})), gone, 'wrong robot', True)
    assert gone not in counted(place)
    assert over.version() != before
    assert {c.session_id for c in over.comparisons()} == counted(place)
    rows = {row['session_uuid']: row for row in table(place)}
    assert (rows[gone]['valid'], rows[gone]['mark']) == ('0', 'withdrawn')
    assert (rows['import-1']['valid'], rows['import-1']['mark']) == ('1', 'imported')
    assert {name for name, row in rows.items() if row['valid'] == '1'} == counted(place)
    path = tmp_path / 'sessions.csv'
    path.write_text(place.get('/data/sessions.csv').text, encoding='utf-8')
    assert {c.session_id for c in read_tables(path).comparisons()} == counted(place)


def test_pages_without_news_are_not_fetched_again(place, monkeypatch):
    over = SiteSource(place.web.address)
    first = over.comparisons()
    monkeypatch.setattr(over, '_pages', lambda: pytest.fail('nothing changed'))
    assert over.comparisons() == first


def test_of_all_marks_only_imported_counts():
    one = Evaluation('s', 0, '', '', '', 'p', 'q', '', '', Verdict(preference=Preference.A))
    assert one.counts
    assert {mark for mark in MARKS if replace(one, mark=mark).counts} == {'imported'}
    assert not replace(one, verdict=Verdict(valid=False, invalid_reason='x')).counts


def test_no_cell_of_any_column_is_a_formula(place):
    cells = [cell for row in table(place) for cell in row.values() if cell]
    assert not [cell for cell in cells if cell[0] in '=+-@\t\r']
    row = next(r for r in table(place) if r['session_uuid'] == 'import-1')
    assert (row['policy_a'], row['institution']) == (f"'{FORMULA}", "'@institution")
