"""How long an arm waited for its policy, on its way into files and tables."""

import math

import numpy as np
import pytest

from arena_robot.core.episode import CONTROL_RATE_HZ, Comparison, EndReason, Preference
from arena_robot.core.inferences import Inference, waited_share, waits_s
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.ranking import Comparisons, adjusted, known_waits
from arena_robot.records.episode_file import (
    EpisodeFile,
    InferenceReport,
    read_episode,
    write_episode,
)
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_folder, write_tables
from arena_robot.records.session_file import (
    SessionFile,
    SessionSlot,
    read_session,
    write_session,
)

PERIOD_S = 1.0 / CONTROL_RATE_HZ


def rolled(chunk, took_s, ahead, steps=60):
    """Return the inferences of a rollout, its length and how long the arm waited (s)."""
    made, now_s, waited_s, left, query_step = [], 0.0, 0.0, 0, None
    for step in range(steps):
        begin_s = now_s
        if query_step is None and left <= ahead:
            query_step, ready_s, was_left = step, now_s + took_s, left
            made.append(Inference(step, 0, took_s, chunk))
        if left == 0:
            waited_s += max(0.0, ready_s - now_s)
            now_s = max(now_s, ready_s)
            left, query_step = chunk - min(was_left, chunk - 1), None
        left -= 1
        now_s = max(now_s, begin_s + PERIOD_S)
    return made, now_s, waited_s


@pytest.mark.parametrize('chunk', [8, 10, 15])
@pytest.mark.parametrize('took_s', [0.0, 0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize('ahead', [0, 2])
def test_the_relay_knows_how_long_an_arm_waited(chunk, took_s, ahead):
    made, whole_s, waited_s = rolled(chunk, took_s, ahead)
    assert sum(waits_s(made)) == pytest.approx(waited_s)
    assert waited_share(waits_s(made), 60) == pytest.approx(waited_s / whole_s, abs=0.005)


def test_a_rollout_of_nothing_did_not_wait():
    assert waits_s([]) == []
    assert waited_share([], 20) == waited_share([], 0) == 0.0
    assert waited_share([5.0], 1) == 1.0


def test_an_episode_keeps_its_share(tmp_path):
    episode = EpisodeFile(slot='A', steps=30, inference=InferenceReport(3, None, 0.25))
    write_episode(tmp_path, episode)
    assert read_episode(tmp_path).inference.waited == 0.25


def test_session_file_and_table_have_it(tmp_path):
    slots = {'A': SessionSlot(steps=30, end=EndReason.DONE, waited=0.25), 'B': SessionSlot()}
    session = SessionFile('s1', state='done', slots=slots, reveal=Reveal('n', 'p', 'q'),
                          verdict=Verdict(preference=Preference.A, explanation='A did it'))
    write_session(tmp_path, session)
    comparison = read_session(tmp_path).comparison()
    assert comparison.waited_a == 0.25
    assert comparison.waited_b is None
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
    known, x = known_waits(Comparisons.from_words([*rows, unknown]))
    assert len(known) == len(x) == 400
    estimate = adjusted(known, x, ['waiting'])
    assert estimate.low[0] < -6.0 < estimate.high[0] < 0.0
    unskilled, skilled = estimate.fit.scores
    assert skilled - unskilled == pytest.approx(1.0, abs=0.35)
