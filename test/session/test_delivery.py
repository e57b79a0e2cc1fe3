"""Delivery: the verdict first, then files; every ending has a way forward."""

import dataclasses
import json

import pytest
from conducted_station import Station, go

from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, NotRevealed, ServerUnavailable
from arena_robot.core.pair import canonical, said
from arena_robot.records.episode_file import (
    SCENE_MATCH_FILE,
    SceneMatch,
    episode_files,
    parse_scene_match,
)
from arena_robot.records.session_file import read_journal
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.submission import TRIES


def refusing(arena, name, error, times=10**6):
    """Make a call of the arena fail ``times`` times."""
    real, left = getattr(arena.arena, name), [times]

    def call(*args):
        if left[0]:
            left[0] -= 1
            raise error
        return real(*args)
    setattr(arena.arena, name, call)


def test_the_verdict_goes_before_the_files(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    station.recorder.complete = False
    conductor.deliver()
    assert 'feedback' in station.arena.calls
    assert 'upload' not in station.arena.calls
    assert 'feedback' in conductor.record.delivered
    station.recorder.complete = True
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert station.arena.calls.count('feedback') == 1


def test_the_scene_match_is_sent_with_b(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    session_id, match = conductor.record.session_id, conductor.record.match
    homes = {slot: tmp_path / 'sessions' / session_id / slot for slot in 'AB'}
    sent = {}
    real = station.arena.arena.upload

    def upload(session_id, episode, folder):
        sent[episode.slot.value] = [path.name for path in episode_files(folder)]
        real(session_id, episode, folder)
    station.arena.arena.upload = upload
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert (SCENE_MATCH_FILE in sent['A'], SCENE_MATCH_FILE in sent['B']) == (False, True)
    match_file = parse_scene_match((homes['B'] / SCENE_MATCH_FILE).read_bytes(), 'B')
    assert match_file == SceneMatch(match, conductor.record.matches)


@pytest.mark.parametrize('text', [
    b'', b'[]', b'{"version": 1}', b'{"version": 2, "match": 0.5}', b'{"version": 1, "match": 7}',
    b'{"version": 1, "match": "0.5"}', b'{"version": 1, "match": NaN}', b'[' * 100000,
    b'{"version": 1, "match": 0.5, "views": {"left": -1}}', b'\xff'])
def test_a_broken_scene_match_is_refused(text):
    with pytest.raises(DataError, match='no scene match'):
        parse_scene_match(text, 'B')


def test_the_verdicts_of_all_sessions_go_before_the_files_of_any(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.SUBMITTING)
    station.arena.cut = True
    station.conductor.deliver()
    station.conductor.check()
    station.arena.cut = False
    refusing(station.arena, 'upload', ServerUnavailable('the upload was cut'))
    station.conductor.enter_task('ada', 'wipe the table with the sponge')
    station.conductor.photograph()
    station.conductor.run(Slot.A)
    station.conductor.invalidate('the arm touched the camera')
    station.conductor.submit()
    station.conductor.deliver()
    assert station.arena.calls.count('feedback') == 3    # once cut off, then both
    assert all('feedback' in record.delivered for record in station.store.today())


def test_files_that_the_arena_refuses_do_not_hold_back_the_reveal(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    refusing(station.arena, 'upload', Conflict('A_0.mcap was stored before'), TRIES)
    for _ in range(TRIES - 1):
        conductor.deliver()
        assert conductor.record.state is State.SUBMITTING
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert conductor.record.verified
    assert 'refused files of A' in conductor.record.notice
    assert 'stored before' in conductor.record.notice


def test_a_session_without_a_rollout_is_done_without_a_reveal(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.ASSIGNED)
    conductor.invalidate('the drawer broke')
    conductor.submit()
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert conductor.record.reveal is None
    assert 'not revealed' in conductor.record.notice
    assert conductor.waiting == 0


def test_an_arena_that_lost_the_verdict_gets_it_again(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    refusing(station.arena, 'reveal', Conflict('revealed after the verdict is stored'), 1)
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert conductor.record.verified
    assert station.arena.calls.count('feedback') == 2


def test_the_wait_for_videos_ends_whatever_the_clock_says(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    station.recorder.complete = False
    conductor.deliver()
    station.clock.set_ns = -3600 * 10**9
    station.clock.now += 600 * 10**9
    conductor.deliver()
    assert conductor.record.delivered == ('feedback',), 'the videos are still being made'
    station.clock.now += 301 * 10**9
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert all(0.0 <= slot.waited <= 1.0 for slot in conductor.record.slots.values())


def test_a_verdict_that_is_refused_stays_and_others_go_on(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    refusing(station.arena, 'feedback', DataError('no such field'), 4)
    conductor.deliver()
    assert 'no such field' in conductor.problem
    conductor.check()
    assert conductor.waiting == 1
    for _ in range(4):
        conductor.deliver()
    assert conductor.waiting == 0
    assert [e.move for e in read_journal(next(
        (tmp_path / 'sessions').glob('*-*-4*-*-*/journal.jsonl')))][-1] == 'revealed'


@pytest.mark.parametrize('kind', [PermissionError, FileNotFoundError])
def test_a_folder_that_cannot_be_read_is_a_problem_and_no_crash(tmp_path, kind):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    refusing(station.arena, 'upload', kind(13, 'not readable'), 1)
    conductor.deliver()
    assert conductor.record.state is State.SUBMITTING
    conductor.deliver()
    assert conductor.record.state is State.DONE


def incomplete(arena, has):
    """Make the arena answer that files are missing until ``has`` says otherwise."""
    real = arena.arena.reveal

    def reveal(session_id):
        if not has():
            raise Conflict('the session is incomplete: the episode has no episode.json')
        return real(session_id)
    arena.arena.reveal = reveal


def test_files_that_were_made_late_are_sent_before_the_session_is_done(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    folder, sent = station.store.root / conductor.record.session_id, []
    real = station.arena.arena.upload

    def upload(session_id, episode, home):
        sent.append((episode.slot, (home / 'episode.json').exists()))
        real(session_id, episode, home)
    station.arena.arena.upload = upload
    incomplete(station.arena, lambda: (Slot.B, True) in sent)
    conductor.deliver()
    assert conductor.record.state is State.SUBMITTING
    assert 'no episode.json' in conductor.problem
    assert sent == [(slot, False) for slot in (Slot.A, Slot.B) * 2]
    for slot in Slot:
        (folder / slot.value / 'episode.json').write_text('{}')
    conductor.deliver()
    assert len(sent) == 4, 'not again at once: every file is read for it'
    station.clock.now += 31 * 10**9
    conductor.deliver()
    assert sent[4:] == [(Slot.A, True), (Slot.B, True)]
    assert conductor.record.state is State.DONE
    assert conductor.record.verified


def test_an_incomplete_session_is_sent_ever_more_rarely_and_never_given_up(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    incomplete(station.arena, lambda: False)
    for _ in range(24 * 60):
        conductor.deliver()
        station.clock.now += 60 * 10**9
    assert conductor.record.state is State.SUBMITTING
    assert 48 <= station.arena.calls.count('upload') // 2 <= 60


def test_a_session_that_will_not_be_revealed_is_not_sent_again(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    refusing(station.arena, 'reveal', NotRevealed('the session does not count'))
    conductor.deliver()
    assert conductor.record.state is State.DONE
    assert 'does not count' in conductor.record.notice
    assert [station.arena.calls.count(name) for name in ('feedback', 'upload')] == [1, 2]


def test_a_receipt_of_another_verdict_is_shown_to_the_evaluator(tmp_path):
    """The station compares the entry in the receipt with what it sent itself."""
    for preference, words in (('A', ''), ('B', 'another verdict than the station sent')):
        station = Station(tmp_path / preference)
        conductor = go(station.conductor, State.SUBMITTING)
        record, reveal = conductor.record, station.arena.arena.reveal
        entry = canonical({
            'session': record.session_id, 'commitment': record.commitment,
            'prompt': record.prompt,
            'verdict': {**said(record.final_verdict()), 'preference': preference}})

        def receipted(session_id, reveal=reveal, entry=entry):
            return dataclasses.replace(reveal(session_id), receipt=json.dumps({'entry': entry}))
        station.arena.arena.reveal = receipted
        conductor.deliver()
        assert conductor.record.state is State.DONE
        assert words in conductor.record.notice
        assert bool(words) is bool(conductor.record.notice)
        folder = tmp_path / preference / 'sessions' / record.session_id
        assert json.loads((folder / 'receipt.json').read_text())['entry'] == entry
