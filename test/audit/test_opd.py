"""
OPD metrics: the paper's worked examples, three conventions, axioms and the noise bound.

Audits beside a session: marks, following a rollout, standstill, what a page is told.
"""

import dataclasses
import json
import math
import time

import numpy as np
import pytest

from arena_robot.audit.aggregate import EvaluatorKind, curve_marks, evaluator_kind, evaluator_kinds
from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.audit.opd import (
    CONVENTIONS,
    QUARTERS,
    convention,
    measure,
    static_noise,
    threshold,
)
from arena_robot.audit.run import ProgressFollower, audit_clip
from arena_robot.cli.episode.replay import curve_line
from arena_robot.cli.main import main
from arena_robot.core.episode import Preference
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.verdict import Verdict
from arena_robot.nodes.session.standstill import Stagnation
from arena_robot.records.audit_file import write_audit
from arena_robot.records.clip import Clip
from arena_robot.records.session_file import DONE, SessionFile, write_session
from arena_robot.reports.audit_agreement import has_audits, session_audit

hypothesis = pytest.importorskip('hypothesis', reason='hypothesis is missing: run make setup')
st = hypothesis.strategies
settings = hypothesis.settings(max_examples=80)
TRACES = st.lists(st.floats(0, 1), min_size=1, max_size=40)
PAPER = CONVENTIONS['paper']
RATE = 0.86     # of decisive pairs in which an honest evaluator and the local judge agree


def one(phi, name='paper', **options):
    table = measure([np.array(phi, float)], CONVENTIONS[name], **options)
    return {m: float(table.values(m)[0]) for m in (
        'mp', 'mc', 'ppl', 'cra', 'str', 'drr', 'fns', 'sqs')}


def by_the_formula(phi, epsilon=0.005, delta=1e-8):
    """Equations 9 to 16, term by term."""
    last = len(phi) - 1
    steps = [phi[t] - phi[t - 1] for t in range(1, last + 1)]
    regret = [max(phi[:t + 1]) - phi[t] for t in range(last + 1)]
    return {'mp': max(phi),
            'mc': max(q for q in (0, .25, .5, .75, 1) if any(p >= q for p in phi)),
            'ppl': phi[-1] * max(phi[-1] - phi[0], 0) / (sum(map(abs, steps)) + delta),
            'cra': sum(regret) / (last + 1),
            'str': sum(abs(d) < epsilon for d in steps) / last if last else math.nan}


def test_examples_of_the_paper():
    # Lemma A.9: one fall to 0, recovered or not.
    assert one([0, 1, 0, 0, 0])['cra'] == 3 / 5
    assert one([0, 1, 0, 1, 1])['cra'] == 1 / 5
    # Remark A.6: an early stop gets no more than its final progress.
    assert one([0, 0.01, 0.01, 0.01])['ppl'] <= 0.01
    # Monotone: the ratio is 1, regret 0.
    up = one([0.0, 0.25, 0.5, 1.0])
    assert up['ppl'] == pytest.approx(1.0, abs=1e-7)
    assert up['cra'] == 0.0
    assert up['mc'] == 1.0


def test_a_published_trace_of_v1():
    # A published row by row table in percent: what the authors' tool says after each value.
    values = [.067, .133, .231, .25, .385, .462, .462, .538, .857, .75, .875, .75, .733, .75]
    table = {7: (46.2, 46.2, 0.0, 14.29), 10: (85.7, 58.35, 1.07, 10.0),
             11: (87.5, 70.31, 0.97, 9.09), 13: (87.5, 43.65, 2.88, 7.69),
             14: (87.5, 45.07, 3.56, 7.14)}
    for count, row in table.items():
        numbers = one(values[:count], 'v1')
        assert [round(100 * numbers[m], 2) for m in ('mp', 'ppl', 'cra', 'str')] == list(row)


def test_conventions_differ_where_they_were_published_differently():
    phi = [0.25, 0.75, 0.5]
    assert one(phi)['ppl'] == pytest.approx(0.5 * 0.25 / 0.75)
    assert one(phi, 'v1')['ppl'] == 0.25            # 0.5² / (0.25 + 0.5 + 0.25)
    assert one(phi, 'v1.5')['ppl'] == 0.5625        # 0.75² / 1
    assert one(phi)['cra'] == one(phi, 'v1')['cra'] == pytest.approx(0.25 / 3)
    assert one(phi, 'v1.5')['cra'] == pytest.approx(0.25 / 3 / 0.75)
    assert one([0.5], 'v1')['str'] == 0.0
    assert math.isnan(one([0.5])['str'])
    still = one([0.0, 0.0], 'v1')
    assert (still['ppl'], still['cra'], still['str']) == (0.0, 0.0, 1.0)
    assert one([0.0, 0.0], 'v1.5')['cra'] == 0.0


def test_scores_of_v15():
    numbers = one([0.5, 1.0, 0.5, 0.75], 'v1.5')
    assert numbers['drr'] == pytest.approx(0.5, abs=1e-5)
    assert math.isnan(numbers['fns'])
    ppl, cra, still = 1 / 1.75, 0.75 / 4, 0.0
    assert numbers['sqs'] == pytest.approx(0.5 * ppl + 0.3 * (1 - cra) + 0.2 * (1 - still))
    failed = one([0.5, 0.8], 'v1.5')
    assert failed['fns'] == pytest.approx(0.4 + 0.3 + 0.2)
    assert math.isnan(failed['drr'])
    assert math.isnan(failed['sqs'])
    assert not math.isnan(one([0.5, 0.8], 'v1.5', success=[True])['sqs'])
    assert math.isnan(one([0.5, 0.8], 'v1', success=[True])['sqs'])


def test_quarters_are_compared_directly():
    for k, quarter in enumerate(QUARTERS):
        assert one([quarter])['mc'] == quarter
        assert one([np.nextafter(quarter, 0)])['mc'] == k / 4


def test_stagnation_is_strict():
    assert one([0.0, 0.25, 0.5], epsilon=0.25)['str'] == 0.0
    assert one([0.0, 0.25, 0.5], epsilon=np.nextafter(0.25, 1))['str'] == 1.0


@settings
@hypothesis.given(st.lists(TRACES, min_size=1, max_size=6))
def test_vectorised_is_the_formula(traces):
    table = measure([np.array(t) for t in traces])
    for row, phi in enumerate(traces):
        for metric, value in by_the_formula(phi).items():
            computed = float(table.values(metric)[row])
            assert computed == pytest.approx(value, abs=1e-12, nan_ok=True), metric


@settings
@hypothesis.given(TRACES, st.sampled_from(sorted(CONVENTIONS)))
def test_ranges(phi, name):
    numbers = one(phi, name)
    for metric in ('mp', 'mc', 'ppl', 'cra', 'str'):
        assert math.isnan(numbers[metric]) or 0.0 <= numbers[metric] <= 1.0 + 1e-12
    assert numbers['mc'] <= numbers['mp']


@settings
@hypothesis.given(TRACES)
def test_additivity_and_monotone_characterisation(phi):
    # Axiom 1: differences of a potential add up over any split.
    steps = np.diff(phi)
    assert steps.sum() == pytest.approx(phi[-1] - phi[0], abs=1e-12)
    assert (one(phi)['cra'] == 0.0) == bool((steps >= 0).all())
    up = sorted(phi)
    assert one(up)['cra'] == 0.0
    if up[-1] - up[0] > 1e-3:
        assert one(up)['ppl'] == pytest.approx(up[-1], rel=1e-4)


@settings
@hypothesis.given(TRACES, st.data())
def test_refinement_and_order(phi, data):
    at = data.draw(st.integers(0, len(phi)))
    more = [*phi[:at], data.draw(st.floats(0, 1)), *phi[at:]]
    assert one(more)['mp'] >= one(phi)['mp']
    above = [min(1.0, p + data.draw(st.floats(0, 0.3))) for p in phi]
    assert one(above)['mc'] >= one(phi)['mc']


@settings
@hypothesis.given(TRACES, st.floats(0, 0.1), st.integers(0, 2**32 - 1))
def test_bounded_noise(phi, sigma, seed):
    phi = np.array(phi)
    noise = np.random.default_rng(seed).uniform(-sigma, sigma, len(phi))
    seen = np.clip(phi + noise, 0, 1)
    moved = float(np.abs(seen - phi).max())
    true, noisy = one(phi), one(seen)
    assert abs(true['mp'] - noisy['mp']) <= moved + 1e-12
    assert abs(true['cra'] - noisy['cra']) <= 2 * moved + 1e-12
    # Milestones keep when every value is farther from every boundary, 1 included.
    if all(abs(p - b) > moved for p in phi for b in QUARTERS):
        assert true['mc'] == noisy['mc']


def test_the_noise_bound_needs_the_boundary_at_one():
    # With internal boundaries alone, as lemma A.3 is printed, this pair would have to agree.
    true, noisy = [0.995], [1.0]
    assert all(abs(0.995 - b) > 0.005 for b in QUARTERS[:3])
    assert (one(true)['mc'], one(noisy)['mc']) == (0.75, 1.0)


@pytest.mark.parametrize(('phi', 'words'), [
    ([], 'no values'), ([0.5, float('nan')], 'nan'), ([float('inf')], 'inf'),
    ([0.5, 1.01], '1.01'), ([-0.01], '-0.01')])
def test_bad_values_are_errors(phi, words):
    with pytest.raises(DataError, match=words):
        measure([np.array([0.5]), np.array(phi)], PAPER, names=['good', 'bad'])
    with pytest.raises(DataError, match="'bad'"):
        measure([np.array([0.5]), np.array(phi)], PAPER, names=['good', 'bad'])


def test_a_small_overflow_is_clipped_and_counted():
    table = measure([np.array([-1e-5, 0.5, 1.00005])])
    assert table.mp[0] == 1.0
    assert table.clipped.tolist() == [2]


def test_settings_are_checked():
    for options in ({'epsilon': 0.0}, {'delta': 0.0}, {'epsilon': math.nan}):
        with pytest.raises(ConfigError):
            measure([np.array([0.5])], **options)
    with pytest.raises(ConfigError, match='paper, v1'):
        convention('v2')
    assert measure([]).mp.shape == (0,)


def test_epsilon_from_static_clips():
    # 1 - α/2 = .995 has the quantile 2.5758293; √2 · 0.02 · 2.5758293.
    assert threshold(0.02) == pytest.approx(0.0728554, abs=1e-7)
    assert threshold(0.0) == 1e-6
    rng = np.random.default_rng(3)
    noise = static_noise([level + rng.normal(0, 0.02, 400) for level in (0.1, 0.5, 0.8)])
    assert noise.sigma == pytest.approx(0.02, rel=0.05)
    assert abs(noise.neighbours) < 0.1
    fresh = np.diff(rng.normal(0, 0.02, 100_000))
    assert np.mean(np.abs(fresh) < noise.epsilon) == pytest.approx(0.99, abs=0.003)
    with pytest.raises(DataError):
        static_noise([np.array([0.1, 0.2])])


def write(path, episodes):
    path.write_text(json.dumps({'episodes': episodes}))
    return str(path)


def test_command(tmp_path, capsys):
    path = write(tmp_path / 'a.json', [
        {'name': 'up', 'phi': [0, 0.3, 0.8], 'success': True},
        {'name': 'one', 'phi': [0.5], 'success': None}])
    assert main(['audit', '--trace', path, '--convention', 'paper', '--json']) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {'convention': 'paper', 'episodes': [
        {'name': 'up', 'steps': 2, 'mp': 0.8, 'mc': 0.75,
         'mc_at': {'25': 1, '50': 1, '75': 1, '100': 0},
         'ppl': pytest.approx(0.8 * 0.8 / (0.8 + 1e-8), abs=1e-15), 'cra': 0.0, 'str': 0.0},
        {'name': 'one', 'steps': 0, 'mp': 0.5, 'mc': 0.5,
         'mc_at': {'25': 1, '50': 1, '75': 0, '100': 0}, 'ppl': 0.0, 'cra': 0.0, 'str': None}]}
    assert main(['audit', '--trace', path, '--epsilon', '0.4', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['episodes'][0]['str'] == 0.5
    assert main(['audit', '--trace', path, '--convention', 'v1.5']) == 0
    out = capsys.readouterr().out
    assert 'SQS' in out
    assert 'reached: MC@25 100.0, MC@50 100.0, MC@75 50.0, MC@100 0.0 of 2' in out
    assert main(['audit', '--trace', path, '--convention', 'v1.5', '--json']) == 0
    up, single = json.loads(capsys.readouterr().out)['episodes']
    assert up['sqs'] == pytest.approx(0.5 * one([0, 0.3, 0.8], 'v1.5', success=[True])['ppl']
                                      + 0.3 + 0.2 * (1 - up['str']))
    assert (up['fns'], up['drr'], single['sqs']) == (None, None, None)
    assert single['fns'] == pytest.approx(0.5 * 0.5 + 0.2)


def test_other_numbers_of_milestones():
    assert [one([0.6], milestones=k)['mc'] for k in (1, 2, 3, 5, 10)] == [0, .5, 1 / 3, .6, .6]
    for k in range(1, 30):
        for step in range(1, k + 1):
            assert one([step / k], milestones=k)['mc'] == step / k
            assert one([np.nextafter(step / k, 0)], milestones=k)['mc'] == (step - 1) / k
    assert one([0.8], 'v1.5', milestones=2)['fns'] == one([0.8], 'v1.5')['fns']
    with pytest.raises(ConfigError, match='milestone'):
        one([0.5], milestones=0)


@pytest.mark.parametrize('episode', [
    {'name': 'broken', 'phi': []}, {'name': 'broken', 'phi': [0.1, float('nan')]},
    {'name': 'broken', 'phi': [0.1, 1.5]}, {'name': 'broken', 'phi': ['0.5']},
    {'name': 'broken', 'phi': [True]}, {'name': 'broken', 'phi': None},
    {'name': 'broken', 'phi': [0.1, None]}, {'name': 'broken', 'phi': [0.1], 'success': 'yes'},
    {'name': 'broken', 'phi': [0.1], 'speed': 1}, {'name': 'broken', 'phi': [10**400]},
    {'name': 'broken'}, {'name': 'broken', 'phi': {'0': 1}}])
def test_an_invalid_episode_is_named_and_ends_the_call(tmp_path, capsys, episode):
    path = write(tmp_path / 'a.json', [{'name': 'good', 'phi': [0.5]}, episode])
    assert main(['audit', '--trace', path, '--json']) == 2
    out, err = capsys.readouterr()
    assert out == ''
    assert 'broken' in err
    assert 'good' not in err


def test_noise_command(tmp_path, capsys):
    path = write(tmp_path / 'a.json', [{'name': 'still', 'phi': [0.5, 0.52, 0.48, 0.51]}])
    assert main(['judge', 'noise', path, '--json']) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed['epsilon'] == pytest.approx(threshold(printed['sigma']))


def test_many_episodes_are_fast():
    traces = list(np.random.default_rng(0).random((10_000, 301)))
    measure(traces[:10])
    spent = []
    for _ in range(3):
        start = time.process_time()
        measure(traces)
        spent.append(time.process_time() - start)
    assert min(spent) <= 0.5


def drawn(rng, rate, count):
    return (rng.random(count) < rate).tolist()


@pytest.mark.parametrize(('sessions', 'share'), [(20, 0.8), (40, 0.97)])
def test_a_planted_inverted_evaluator_is_found(sessions, share):
    rng = np.random.default_rng(0)
    detected, wronged, coin_taken = 0, 0, 0
    for _ in range(300):
        people = {f'honest {k}': drawn(rng, RATE, sessions) for k in range(5)}
        people |= {'inverted': drawn(rng, 1 - RATE, sessions), 'coin': drawn(rng, 0.5, sessions)}
        kinds = {e.evaluator: e.kind for e in evaluator_kinds(people)}
        detected += kinds['inverted'] is EvaluatorKind.INVERTED
        coin_taken += kinds['coin'] is EvaluatorKind.INVERTED
        wronged += sum(kinds[f'honest {k}'] is EvaluatorKind.INVERTED for k in range(5))
    assert detected / 300 >= share
    assert wronged == 0
    assert coin_taken / 300 <= 0.05


def test_few_sessions_decide_nothing():
    assert evaluator_kind('e', 0, 10, RATE).kind is EvaluatorKind.UNDECIDED
    assert evaluator_kind('e', 2, 25, RATE).kind is EvaluatorKind.INVERTED
    assert evaluator_kind('e', 23, 25, RATE).kind is EvaluatorKind.HONEST
    assert evaluator_kind('e', 60, 120, RATE).kind is EvaluatorKind.COIN
    assert sum(evaluator_kind('e', 7, 9, RATE).likely.values()) == pytest.approx(1.0)
    assert evaluator_kinds({}) == []
    with pytest.raises(ConfigError):
        evaluator_kind('e', 3, 2, RATE)


class Redness:
    """A judge that says how much redder the picture is than the start."""

    name, capabilities = 'redness', Capabilities()

    def __init__(self):
        self.lengths = []

    def progress(self, clip):
        self.lengths.append(len(clip))
        start = clip.start.get('left', clip.frames['left'][0])
        return trace_of(clip, np.array([
            (f[..., 0].mean() - start[..., 0].mean()) / 255 for f in clip.frames['left']]),
            self.name, strict=False)

    def compare(self, pair):
        return None


def red(share):
    return np.full((4, 4, 3), round(255 * share), np.uint8)


def test_a_rollout_is_followed_from_its_start_and_its_newest_pictures():
    judge = Redness()
    follower = ProgressFollower(judge, 'lift the cup')
    values = [0.2, 0.2, 0.6, 0.6, 0.6, 1.0, 0.2, 0.2]
    progress = [follower.add(0.4 * k, {'left': red(v)}) for k, v in enumerate(values)]
    gained = np.array(values) - 0.2
    wanted = [(4 * gained[k] + 2 * gained[max(k - 1, 0)] + gained[max(k - 2, 0)]) / 7
              for k in range(2, 8)]
    assert progress[2:] == pytest.approx(wanted, abs=0.005)
    assert judge.lengths == [1] * 8, 'a long rollout costs no more than a short one'
    assert follower.add(2.8, {'left': red(0.9)}) is None, 'not newer'
    single = ProgressFollower(OneView(), 'lift the cup')
    assert single.add(0.0, {'left': red(0.0)}) is None
    assert 'a picture too few' in single.problem


class OneView(Redness):
    """A judge that cannot say anything."""

    def progress(self, clip):
        return dataclasses.replace(trace_of(clip, np.zeros(99), self.name), detail='a picture '
                                   'too few')


def test_marks_are_quarters_falls_and_standstill():
    times = np.arange(12.0)
    phi = [0, .3, .6, .6, .6, .6, .6, .3, .3, .8, 1, 1]
    marks = curve_marks(times, phi)
    assert marks.milestones == ((1, .25), (2, .5), (9, .75), (10, 1.0))
    assert marks.falls == ((7, 8),)
    assert marks.still == ((3, 6),)
    assert curve_marks(times, phi, calibrated=False).milestones == ()
    assert curve_marks([0.0], [0.5]).still == ()
    line = curve_line(times, phi, 7)
    assert 'progress  30  best  60' in line
    assert len(line) == len(curve_line(times, phi, 11)) == len(curve_line(range(99), [0.5] * 99,
                                                                          98))


def test_a_standstill_ends_only_after_its_time():
    stagnation = Stagnation(10.0)
    assert not any(stagnation.add(t, 0.3 + 0.01 * (t % 2)) for t in range(10))
    assert not stagnation.add(9.5, 0.6), 'it moved on'
    assert not stagnation.add(19.0, 0.61)
    assert stagnation.add(19.5, 0.62)
    stagnation.reset()
    assert not stagnation.add(100.0, 0.62)
    assert '10 s' in stagnation.words


def done(folder, state=DONE):
    write_session(folder, SessionFile('s1', state=state, evaluator='eva', verdict=Verdict(
        preference=Preference.A, valid=True, progress_a=1.0, progress_b=0.2)))
    return folder


def test_a_page_is_told_of_an_audit_only_when_the_session_is_done(tmp_path):
    home = tmp_path / 's1'
    for slot, end in (('A', 0.4), ('B', 0.9)):
        (home / slot).mkdir(parents=True)
        clip = Clip('x', np.arange(4.0), {'left': [red(p) for p in np.linspace(0, end, 4)]})
        write_audit(home / slot, audit_clip(Redness(), clip))
    for state in ('review', 'submitting', 'aborted'):
        with pytest.raises(DataError, match='after it is done'):
            session_audit(done(home, state), 'redness')
    audit = session_audit(done(home), 'redness')
    assert (audit['preference'], audit['audit'], audit['calibrated']) == ('A', 'B', True)
    assert audit['slots']['B']['last'] == pytest.approx(0.9, abs=0.01)
    assert audit['slots']['A']['curve'][0] == [0.0, 0.0]
    assert has_audits(home, 'redness')
    assert not has_audits(home, 'local')
