"""The report of a tournament: what it says is what is in the folders, and a browser shows it."""

import dataclasses
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from arena_robot.audit.run import audit_clip
from arena_robot.audit.simple import OracleJudge
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.pair import commitment
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import mean_progress
from arena_robot.ranking.methods import METHODS, rank
from arena_robot.records.audit_file import read_audit, write_audit
from arena_robot.records.clip import Clip
from arena_robot.reports.tournament import (
    Gap,
    TournamentReport,
    axes,
    line,
    write_report,
)
from arena_robot.reports.tournament_records import (
    RolloutRow,
    progress_curve,
    read_record,
)

NAMES = ('vision <b>', 'slow & steady', 'frozen')
NONCE = 'ab' * 32


def write_session(folder, number, a, b, scores, **changes):
    """A finished session as a station leaves it, without bags."""
    verdict = 'TIE' if scores[0] == scores[1] else 'A' if scores[0] > scores[1] else 'B'
    slot = {'started_ns': 10**18, 'ended_ns': 10**18 + 9 * 10**9, 'steps': 135, 'end': 'timeout'}
    data = {'version': 1, 'state': 'done', 'session_id': f'session-{number}', 'station': 'sim',
            'evaluator': 'ada', 'prompt': f'press button <{number}>', 'match': 0.98,
            'created': f'2026-11-21T04:00:{number:02d}.000+00:00',
            'verdict': {'preference': verdict, 'explanation': 'A was <i>better</i>',
                        'progress_a': scores[0], 'progress_b': scores[1],
                        'valid': changes.pop('valid', True)},
            'commitment': commitment(NONCE, a, b), 'slots': {'A': slot, 'B': slot},
            'reveal': {'nonce': NONCE, 'policy_a': a, 'policy_b': b}, **changes}
    home = folder / data['session_id']
    for slot in 'AB':
        (home / slot).mkdir(parents=True)
    (home / 'session.json').write_text(json.dumps(data))
    return home


@pytest.fixture
def folders(tmp_path):
    pairs = [(0, 1, (1.0, 0.4)), (1, 2, (0.3, 0.0)), (0, 2, (0.9, 0.0)), (2, 1, (0.0, 0.0))]
    return [write_session(tmp_path, k, NAMES[a], NAMES[b], scores)
            for k, (a, b, scores) in enumerate(pairs, 1)]


def tournament(folders, **more):
    records = tuple(read_record(folder) for folder in folders)
    comparisons = Comparisons.from_words([r.comparison() for r in records])
    standings = rank(comparisons, 'bt', intervals=50, l2=0.1)
    unit = METHODS.find('bt').unit
    return TournamentReport('Tournament', records, comparisons, standings, unit, **more)


def test_a_record_is_read_and_its_reveal_checked(folders):
    record = read_record(folders[0])
    assert record.verified
    assert record.comparison().preference is Preference.A
    assert [r.policy for r in record.rollouts] == list(NAMES[:2])
    assert [r.progress for r in record.rollouts] == [1.0, 0.4]
    assert record.rollouts[0].seconds == pytest.approx(9.0)
    data = json.loads((folders[0] / 'session.json').read_text())
    data['reveal']['policy_a'] = 'somebody else'
    (folders[0] / 'session.json').write_text(json.dumps(data))
    assert not read_record(folders[0]).verified


@pytest.mark.parametrize('changes', [{'state': 'aborted'}, {'valid': False}, {'reveal': None}])
def test_what_is_not_finished_is_left_out(tmp_path, changes):
    home = write_session(tmp_path, 9, 'a', 'b', (1.0, 0.0), **changes)
    with pytest.raises(DataError, match='leave it out'):
        read_record(home)


def test_what_cannot_be_read_is_told(tmp_path):
    with pytest.raises(DataError, match=r'session\.json is not the record'):
        read_record(tmp_path)
    (tmp_path / 'session.json').write_text('{"state": "done"}')
    with pytest.raises(DataError, match='is not the record'):
        read_record(tmp_path)
    assert progress_curve(tmp_path, 0, 10) == ()


def test_means_and_lines():
    comparisons = Comparisons.build([0, 1], [1, 2], [1.0, 0.5], items=NAMES,
                                    score_first=[1.0, 0.2], score_second=[0.4, np.nan])
    means = mean_progress(comparisons)
    assert means == {NAMES[0]: 1.0, NAMES[1]: pytest.approx(0.3)}
    rollout = RolloutRow('A', 'x', 1.0, 10, 'done', '', ((0.0, 0.0), (10.0, 1.0)), {}, None, 0,
                         10.0)
    frame = axes(10.0)
    assert line(rollout, 10.0) == (f"{frame['left']}.0,{frame['bottom']}.0 "
                                   f"{frame['right']}.0,{frame['top']}.0")
    assert [t for _, t in frame['x']] == [0, 2, 4, 6, 8, 10]


def test_the_page_says_everything_and_escapes_what_people_typed(folders, tmp_path):
    gap = Gap(NAMES[0], NAMES[2], 3.0, 1.2, 4.0)
    page = write_report(tournament(folders, gap=gap, facts=[('Sessions', '4')]), tmp_path / 'r')
    text = page.read_text()
    assert '<b>”' not in text
    for words in ('vision &lt;b&gt;', 'slow &amp; steady', 'press button &lt;3&gt;',
                  'A was &lt;i&gt;better', NONCE, '✓ verified', 'leaves zero out', '1 – 0 – 0'):
        assert words in text, words
    assert not gap.clear or 'leaves zero out' in text
    for name in ('standings.svg', 'matrix.svg'):
        assert (tmp_path / 'r' / name).stat().st_size > 1000
    assert 'src="http' not in text
    assert text.count('neither a simulator nor a judge measured it') == 4
    assert '<svg class="plot"' not in text
    assert hashlib.sha256('\n'.join([NONCE, *NAMES[:2]]).encode()).hexdigest() in text


def standing_rows(page):
    """Return rank, policy and interval of each row of a report's standings."""
    body = page.split('<table class="board"')[1].split('<tbody')[1].split('</tbody>')[0]
    rows = [re.findall(r'<td[^>]*>(.*?)</td>', row, re.DOTALL) for row in body.split('<tr')[1:]]
    return [tuple(re.sub('<[^>]+>', '', row[k]) for k in (0, 1, 4)) for row in rows]


def test_a_rank_is_stated_only_where_the_data_tell_one(folders, tmp_path):
    few = write_report(tournament(folders), tmp_path / 'few').read_text()
    assert [(rank, interval) for rank, _, interval in standing_rows(few)] == [
        ('', 'too few to tell')] * 3
    scores = [(1.0, 0.2), (0.9, 0.1), (0.1, 0.6)]
    more = [write_session(tmp_path, 10 + k, NAMES[0], NAMES[1], scores[k % 3]) for k in range(15)]
    more.append(write_session(tmp_path, 40, NAMES[2], NAMES[0], (1.0, 0.0)))
    rows = standing_rows(write_report(tournament(more), tmp_path / 'more').read_text())
    assert [name for _, name, _ in rows[:2]] == ['vision &lt;b&gt;', 'slow &amp; steady']
    assert all(re.fullmatch(r'\d(–\d tied)?', rank) for rank, _, _ in rows[:2]), rows
    assert rows[2] == ('', NAMES[2], 'too few to tell'), 'it won its only session'


def test_local_and_imported_sessions_are_marked(folders, tmp_path):
    for folder, more in zip(folders, ({}, {}, {'source': 'import'}, {}), strict=True):
        data = json.loads((folder / 'session.json').read_text())
        (folder / 'session.json').write_text(json.dumps({**data, 'checks': [], **more}))
    (folders[0] / 'receipt.json').write_text('{}')
    page = write_report(tournament(folders), tmp_path / 'r').read_text()
    assert 'Of 4 counted sessions: <b>1 imported, 2 local</b>' in page
    marks = [section.split('</h3>')[0].partition('tag other">')[2].partition('<')[0]
             for section in page.split('<section class="session"')[1:]]
    assert marks == ['', 'local', 'imported', 'local']
    listed = page.split('vouches for them')[1].split('</p>')[0]
    assert [f'#session-{k}' in listed for k in (1, 2, 3, 4)] == [False, True, True, True]
    assert '2 <small>(1 imported)</small>' in page
    for folder in folders:
        (folder / 'receipt.json').write_text('{}')
    shutil.rmtree(folders[2])
    page = write_report(tournament([*folders[:2], folders[3]]), tmp_path / 'r').read_text()
    assert 'All 3 counted sessions passed the relay of a server' in page
    assert 'tag other"' not in page


def test_a_doubtful_reveal_and_an_open_gap_are_shown(folders, tmp_path):
    data = json.loads((folders[0] / 'session.json').read_text())
    data['commitment'] = '00' * 32
    (folders[0] / 'session.json').write_text(json.dumps(data))
    gap = Gap(NAMES[0], NAMES[2], 3.0, -1.2, 4.0)
    text = write_report(tournament(folders, gap=gap), tmp_path / 'r').read_text()
    assert '✗ the reveal does not fit' in text
    assert 'contains zero' in text


def test_a_folder_that_cannot_be_written(folders, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(DataError, match='cannot be written'):
        write_report(tournament(folders), tmp_path / 'file' / 'report')


@pytest.fixture
def films(folders):
    """A short film for each slot's left camera."""
    frames = pytest.importorskip('arena_robot.recording.episode.frames', reason='av is missing')
    video_frame = pytest.importorskip('av').VideoFrame
    pictures = [(k * 66_000_000, video_frame.from_ndarray(
        np.full((90, 160, 3), (20 * k, 90, 200), np.uint8), format='rgb24')) for k in range(8)]
    for folder in folders:
        for slot in 'AB':
            frames.write_video(folder / slot / 'left.mp4', pictures)
    return folders


def test_a_browser_shows_the_report_and_its_films(browser, films, tmp_path):
    page = write_report(tournament(films), tmp_path / 'report')
    shutil.rmtree(films[0].parent / 'session-1' / 'A')    # the report stands by itself
    browser.get('about:blank')
    browser.get_log('browser')    # of the page that was open before
    browser.get(page.as_uri())
    script = ("const done = arguments[0]; const all = [...document.querySelectorAll('video')];"
              "Promise.all(all.map(v => new Promise(ok => { v.preload = 'auto';"
              "if (v.readyState > 1) ok(); v.onloadeddata = ok; v.onerror = ok; })))"
              ".then(() => done(all.map(v => v.videoWidth)));")
    browser.set_script_timeout(30)
    assert browser.execute_async_script(script) == [160] * 8
    assert len(browser.find_elements('css selector', '.board tbody tr')) == 3
    assert len(browser.find_elements('css selector', 'section.session')) == 4
    wide = browser.execute_script('return document.documentElement.scrollWidth')
    assert wide <= browser.execute_script('return window.innerWidth')
    assert outside_a_phone(browser) == []
    assert [e for e in browser.get_log('browser') if e['level'] == 'SEVERE'] == []
    assert Path(page).parent.joinpath('videos').is_dir()


def outside_a_phone(browser):
    """Return the texts of the standings' cells that a phone does not show whole."""
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': 390, 'height': 844, 'deviceScaleFactor': 1, 'mobile': True})
    try:
        return browser.execute_script(
            'return [...document.querySelectorAll(".board tbody td")].filter((one) => {'
            'const box = one.getBoundingClientRect();'
            'return box.width === 0 && one.textContent || box.right > innerWidth'
            ' || one.scrollWidth > one.offsetWidth; }).map((one) => one.textContent)')
    finally:
        browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


def test_audits_stand_in_the_report(folders, tmp_path):
    for session, ends in zip(folders, ((1.0, 0.4), (0.2, 0.9), (0.9, 0.1), (0.5, 0.5)),
                             strict=True):
        for slot, end in zip('AB', ends, strict=True):
            clip = Clip('x', np.arange(10.0), {'left': [np.zeros((2, 2, 3), np.uint8)] * 10},
                        potential=np.r_[np.linspace(0, end, 6), np.full(4, end / 2)])
            write_audit(session / slot, audit_clip(OracleJudge(), clip))
    (folders[0] / 'A' / 'audit' / 'broken.json').write_text('{')
    page = write_report(tournament(folders), tmp_path / 'report').read_text()
    assert 'Judge oracle' in page
    assert 'agree in 67 % of 3 decisive sessions' in page
    assert '<code>session-2</code></a>: ada preferred A, the audit B' in page
    assert 'A, judge oracle: fell below its best from 6.0 to 9.0 s' in page
    assert page.count('stroke-dasharray') == 8
    for slot in 'AB':
        write_audit(folders[0] / slot, dataclasses.replace(
            read_audit(folders[0] / slot / 'audit' / 'oracle.json'), judge='local'))
    page = write_report(tournament(folders), tmp_path / 'again').read_text()
    local = page.split('<h3>Judge local')[1].split('<h2')[0].split('<h3')[0]
    assert 'No evaluator is judged by these audits: the judge looks at the arm' in local
    assert 'STR: the judge looks at the arm' in local
