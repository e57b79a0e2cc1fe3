"""How long an arm waited for its policy, on its way from a reveal into files and tables."""

import dataclasses
import math

import numpy as np
import pytest

from arena_robot.core.episode import Comparison, EndReason, Preference
from arena_robot.core.inferences import Inference, inferences_to_json, waited_shares
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.ranking import Comparisons, adjusted, waiting
from arena_robot.recording.episode.derive import revealed_wait
from arena_robot.records.episode_file import (
    EpisodeFile,
    note_waited,
    parse_episode,
    read_episode,
    write_episode,
)
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_csv import read_folder, write_tables
from arena_robot.records.session_file import (
    INFERENCES_FILE,
    SessionFile,
    SessionSlot,
    read_session,
    write_session,
)

# 0.5 s are 7 steps at 15 Hz: 14 of 30 steps of A, which has chunks of 8, are waited.
REVEALED = inferences_to_json({'A': [Inference(0, 0, 0.5, 8), Inference(15, 0, 0.5, 8)],
                               'B': [Inference(0, 0, 0.0, 30)]})


def test_a_reveal_has_the_shares():
    assert waited_shares(REVEALED, {'A': 30, 'B': 30}) == {'A': 14 / 30, 'B': 0.0}
    assert waited_shares(REVEALED, {'A': 0}) == waited_shares('', {'A': 30}) == {}
    assert waited_shares(inferences_to_json({'A': []}), {'A': 30}) == {}, 'nobody knows'


def test_an_episode_gets_its_share_with_the_reveal_and_not_that_of_a_later_run(tmp_path):
    one = EpisodeFile(slot='A', steps=30)
    for name in ('A', 'A_earlier'):
        (tmp_path / name).mkdir()
        assert revealed_wait(tmp_path / name, one) is None
    (tmp_path / INFERENCES_FILE).write_text(REVEALED)
    assert revealed_wait(tmp_path / 'A', one) == 14 / 30
    assert revealed_wait(tmp_path / 'A_earlier', one) is None
    note_waited(tmp_path / 'A', 0.25)    # nothing was derived yet
    write_episode(tmp_path / 'A', one)
    note_waited(tmp_path / 'A', 0.25)
    assert read_episode(tmp_path / 'A') == dataclasses.replace(
        one, inference=dataclasses.replace(one.inference, waited=0.25))
    earlier = b'{"version": 4, "inference": {"count": 3}}'
    assert parse_episode(earlier, 'x').inference.waited is None


def test_session_file_and_table_have_it(tmp_path):
    slots = {'A': SessionSlot(steps=30, end=EndReason.DONE, waited=0.25), 'B': SessionSlot()}
    session = SessionFile('s1', state='done', slots=slots, reveal=Reveal('n', 'p', 'q'),
                          verdict=Verdict(preference=Preference.A, explanation='A did it'))
    write_session(tmp_path, session)
    found = read_session(tmp_path).comparison()
    assert found.waited_a == 0.25
    assert found.waited_b is None
    write_tables(tmp_path, [RoboArenaSession('s1', 'p', 'q', preference=Preference.A,
                                             waited_a=0.25)])
    table = read_folder(tmp_path).comparisons()[0]
    assert table.waited_a == 0.25
    assert table.waited_b is None


def test_a_ranking_without_the_waits_finds_skill():
    random, rows = np.random.default_rng(1), []
    for number in range(400):
        waits = random.random(2) * 0.5
        wins = random.random() < 1 / (1 + math.exp(-(1.0 - 6.0 * (waits[0] - waits[1]))))
        rows.append(Comparison(f's{number}', 'skilled', 'other',
                               Preference.A if wins else Preference.B,
                               waited_a=waits[0], waited_b=waits[1]))
    unknown = Comparison('x', 'skilled', 'other', Preference.B)
    kept, x = waiting([*rows, unknown])
    assert len(kept) == len(x) == 400
    found = adjusted(Comparisons.from_words(kept), x, ['waiting'])
    assert found.low[0] < -6.0 < found.high[0] < 0.0
    other, skilled = found.fit.scores
    assert skilled - other == pytest.approx(1.0, abs=0.35)
