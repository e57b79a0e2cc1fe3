import json

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from arena_robot.audit.aggregate import evaluator_signals
from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.audit.run import audit_clip
from arena_robot.cli.main import main
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import ConfigError, DataError, RankingError
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.evaluators.reports import evaluators
from arena_robot.ranking.methods import rank
from arena_robot.ranking.pairwise.elo import SCALE, Elo, run_orders
from arena_robot.ranking.pairwise.progress import Progress, ProgressGls, gls
from arena_robot.ranking.rollouts import AuditTable
from arena_robot.records.audit_file import read_audit_scores
from arena_robot.records.clip import Clip
from arena_robot.records.session_file import SessionFile
from arena_robot.reports.audit_agreement import agreements, by_evaluator, by_institution

NAMES = ('amber', 'blue', 'cyan')
SKILL = dict(zip(NAMES, (0.3, 0.5, 0.7), strict=True))


def drawn(seed=0, n=4, m=120, shared=0.5, missing=0.1):
    rng = np.random.default_rng(seed)
    mean = np.linspace(0.3, 0.7, n)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    task = rng.normal(0, np.sqrt(shared), m)
    a, b = (np.clip(mean[k] + 0.1 * (task + rng.normal(0, np.sqrt(1 - shared), m)), 0, 1)
            for k in (i, j))
    a = np.where(rng.random(m) < missing, np.nan, a)
    y = np.where(np.nan_to_num(a, nan=0.5) > b, 1.0, 0.0)
    return Comparisons.build(i, j, y, items=list('abcd')[:n], score_first=a, score_second=b)


def test_elo_follows_the_update_by_hand():
    votes = Comparisons.build([0, 1], [1, 0], [1, 0.5], items=['a', 'b'])
    fit = Elo(k=32, orders=0)(votes)
    up = 32 * 0.5
    gain = 32 * (0.5 - 1 / (1 + 10 ** (2 * up / 400)))
    assert fit.scores.tolist() == pytest.approx([1500 + up - gain, 1500 - up + gain])
    assert any('one order only' in x for x in fit.diagnostics.warnings)
    assert pytest.approx(400 / np.log(10)) == SCALE


def test_elo_over_orders_is_the_mean_of_single_orders():
    votes = drawn()
    rng = np.random.default_rng(1)
    orders = rng.permuted(np.tile(np.arange(len(votes)), (5, 1)), axis=1)
    together = run_orders(votes, orders, 16.0)
    for row, order in zip(together, orders, strict=True):
        single = run_orders(votes.take(order), np.arange(len(votes))[None], 16.0)[0]
        np.testing.assert_allclose(row, single, atol=1e-9)
    assert together.sum(axis=1) == pytest.approx(0, abs=1e-9)
    fit = Elo(orders=50)(votes)
    spread = fit.diagnostics.details['order_spread']
    assert min(spread) > 1, 'Elo depends on the order, and the diagnostics show how much'
    with pytest.raises(RankingError, match='k > 0'):
        Elo(k=0)(votes)


def test_progress_is_the_mean_over_scored_rollouts():
    votes = drawn()
    fit = Progress()(votes)
    for k in range(4):
        mine = np.r_[votes.score_first[votes.first == k], votes.score_second[votes.second == k]]
        assert fit.scores[k] == pytest.approx(np.nanmean(mine))


def test_gls_is_the_maximum_of_the_normal_likelihood():
    votes = drawn(3, missing=0.0)
    fit = ProgressGls()(votes)
    rho, sigma = fit.diagnostics.details['shared'], fit.diagnostics.details['sigma']
    pairs = np.stack([votes.score_first, votes.score_second], axis=1)

    def value(mean, rho, sigma):
        cov = sigma ** 2 * np.array([[1, rho], [rho, 1]])
        left = pairs - np.stack([mean[votes.first], mean[votes.second]], axis=1)
        return multivariate_normal([0, 0], cov).logpdf(left).sum()

    best = value(fit.scores, rho, sigma)
    assert best == pytest.approx(fit.diagnostics.log_likelihood, abs=1e-8)
    for k in range(4):
        for step in (-1e-3, 1e-3):
            assert value(fit.scores + step * np.eye(4)[k], rho, sigma) < best
    for step in (-1e-2, 1e-2):
        assert value(fit.scores, rho + step, sigma) < best
        assert value(fit.scores, rho, sigma * (1 + step)) < best
    assert 0.3 < rho < 0.7


def test_without_sharing_gls_is_the_mean_and_missing_scores_are_used():
    votes = drawn(1)
    np.testing.assert_allclose(gls(votes, 0.0), Progress()(votes).scores, atol=1e-12)
    assert len(votes.take(np.isnan(votes.score_first))) > 0
    fit = ProgressGls()(votes)
    np.testing.assert_allclose(fit.scores, np.linspace(0.3, 0.7, 4), atol=0.1)


def test_a_policy_that_met_easy_tasks_is_not_flattered():
    rng = np.random.default_rng(0)
    m = 400
    i, j = np.zeros(m, int), rng.integers(1, 3, m)
    easy = np.where(j == 1, 0.2, -0.2) + rng.normal(0, 0.1, m)
    y = rng.integers(0, 2, m).astype(float)
    votes = Comparisons.build(i, j, y, items=list('abc'),
                              score_first=np.clip(0.5 + easy + rng.normal(0, 0.02, m), 0, 1),
                              score_second=np.clip(0.5 + easy + rng.normal(0, 0.02, m), 0, 1))
    plain, fair = Progress()(votes).scores, ProgressGls()(votes).scores
    assert plain[1] - plain[2] > 0.3
    assert abs(fair[1] - fair[2]) < 0.05


def test_a_policy_without_scores_is_named():
    votes = Comparisons.build([0, 1], [1, 2], [1, 0], items=['a', 'b', 'c'],
                              score_first=[0.1, 0.2], score_second=[0.3, np.nan])
    for make in (Progress(), ProgressGls()):
        with pytest.raises(RankingError, match='no scored rollout of c'):
            make(votes)


def world(count=90, tie=True, seed=0):
    """Return verdicts, all ties or honest, and audits by session and policy."""
    rng = np.random.default_rng(seed)
    rows, audits = [], {}
    for k in range(count):
        a, b = rng.permutation(NAMES)[:2]
        low, high = (np.clip(SKILL[x] + rng.normal(0, 0.1), 0, 1) for x in (a, b))
        said = Preference.TIE if tie else Preference.A if low > high else Preference.B
        rows.append(Comparison(f's{k}', a, b, said, low, high, f'e{k % 3}', 'lab'))
        audits[f's{k}', a], audits[f's{k}', b] = low, high
    return rows, audits


def test_ties_are_broken_and_winners_are_left():
    rows, audits = world()
    words = Comparisons.from_words(rows, NAMES)
    table = AuditTable.build(rows, NAMES, audits)
    assert len(set(rank(words, 'davidson').ranks.tolist())) == 1
    for name in ('preference_audit', 'opd'):
        standings = rank(words, name, intervals=20, cluster='session', audits=table)
        assert [standings.items[k] for k in standings.order] == ['cyan', 'blue', 'amber']
        assert (standings.low <= standings.scores).all()
    flipped = AuditTable.build(rows, NAMES, {key: 1 - v for key, v in audits.items()})
    honest = Comparisons.from_words(world(tie=False)[0], NAMES)
    assert np.array_equal(rank(honest, 'preference_audit', audits=flipped).scores,
                          rank(honest, 'davidson').scores)
    with pytest.raises(RankingError, match='--audits'):
        rank(words, 'opd')
    assert table.policies == list(NAMES)


def test_an_audit_follows_its_policy_into_a_part_of_the_data():
    rows, audits = world()
    table = AuditTable.build(rows, NAMES, audits)
    part = Comparisons.from_words(rows, NAMES).only(['cyan', 'amber']).take(np.arange(5))
    first, second = table.of(part)
    for k in range(5):
        session = f's{part.session[k]}'
        assert first[k] == audits[session, part.items[part.first[k]]]
        assert second[k] == audits[session, part.items[part.second[k]]]


@pytest.fixture
def files(tmp_path):
    rows, audits = world()
    lines = ['session_uuid,valid,preference,policy_a,policy_b,evaluator,institution']
    lines += [f'{r.session_id},1,{r.preference.value},{r.a},{r.b},{r.evaluator},lab' for r in rows]
    # One who votes: without decisive votes nobody can be told apart.
    lines += [f'x{k},1,A,cyan,amber,eve,lab' for k in range(4)]
    (tmp_path / 's.csv').write_text('\n'.join(lines))
    scored = ['session_uuid,policy,partial_success']
    scored += [f'{s},{p},{v:.3f}' for (s, p), v in audits.items()]
    (tmp_path / 'e.csv').write_text('\n'.join(scored))
    (tmp_path / 'audits.json').write_text(json.dumps({
        'episodes': [{'name': f'{s}/A', 'policy': p, 'calibrated': True, 'phi': [0.0, v],
                      'metrics': {'ppl': v, 'mp': v}} for (s, p), v in audits.items()],
        'agreement': {'evaluators': [{'evaluator': 'eve', 'agree': 2, 'decisive': 30}]}}))
    return tmp_path


def test_commands(files, capsys):
    common = ('--sessions', str(files / 's.csv'), '--audits', str(files / 'audits.json'))
    assert main(['rank', *common, '--method', 'preference_audit', '--intervals', '0', '--json',
                 '--evaluators']) == 0
    output = json.loads(capsys.readouterr().out)
    assert output['standings'][0]['policy'] == 'cyan'
    worst = output['audit'][0]
    assert (worst['name'], worst['audit_kind'], worst['flagged_by']) == ('eve', 'inverted',
                                                                       'audit')
    assert worst['suspicion'] == worst['votes_suspicion'] + worst['audit_suspicion'] > 10
    assert main(['study', 'methods', *common, '--episodes', str(files / 'e.csv'), '--method',
                 'davidson,opd,preference_audit', '--splits', '3', '--sizes', '', '--json']) == 0
    output = json.loads(capsys.readouterr().out)['methods']
    assert output['opd']['pearson'][0] > 0.99
    assert output['preference_audit']['pearson'][0] > 0.9
    with pytest.raises(ConfigError, match='ppl, mp, final'):
        read_audit_scores(files / 'audits.json', 'cra')
    (files / 'audits.json').write_text('{}')
    with pytest.raises(DataError, match='arena audit --json'):
        read_audit_scores(files / 'audits.json')


class Brightness:
    """A judge that sees the potential of a picture, with an error."""

    name, capabilities = 'brightness', Capabilities()

    def __init__(self, rng):
        self._rng = rng

    def progress(self, clip):
        values = np.array([f.mean() / 255 for f in clip.frames['left']])
        return trace_of(clip, values + self._rng.normal(0, 0.05), self.name, strict=False)

    def compare(self, pair):
        return None


def test_an_inverted_evaluator_is_found_by_the_audit_of_his_episodes():
    """From pictures to the list of evaluators: audits, agreements, both signals."""
    rng = np.random.default_rng(4)
    judge, sessions, rows = Brightness(rng), [], []
    for k in range(120):
        person = f'e{k % 4}'
        a, b = rng.permutation(NAMES)[:2]
        ends = {x: float(np.clip(SKILL[x] + rng.normal(0, 0.15), 0, 1)) for x in (a, b)}
        better = Preference.A if ends[a] > ends[b] else Preference.B
        if person == 'e3':
            better = Preference.B if better is Preference.A else Preference.A
        audits = [audit_clip(judge, Clip('x', np.arange(3.0), {'left': [
            np.full((2, 2, 3), round(255 * p), np.uint8)
            for p in np.linspace(0, ends[x], 3)]})) for x in (a, b)]
        sessions.append((SessionFile(f's{k}', evaluator=person, station=f'lab {k % 2}',
                                     verdict=Verdict(preference=better, valid=True)), *audits))
        rows.append(Comparison(f's{k}', a, b, better, evaluator=person, institution='lab'))
    shares = agreements(sessions)
    kinds = {e.evaluator: e.kind.value for e in by_evaluator(shares)}
    assert kinds == {'e0': 'honest', 'e1': 'honest', 'e2': 'honest', 'e3': 'inverted'}
    assert set(by_institution(shares)) == {'lab 0', 'lab 1'}
    assert by_institution(shares)['lab 0'][0] > by_institution(shares)['lab 1'][0]
    signals = evaluator_signals(evaluators(Comparisons.from_words(rows)), {
        e.evaluator: (e.agree, e.decisive) for e in by_evaluator(shares)})
    assert signals[0].name == 'e3'
    assert 'audit' in signals[0].flagged_by
    assert [signal.flagged_by for signal in signals[1:] if 'audit' in signal.flagged_by] == []
