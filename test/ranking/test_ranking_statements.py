"""What docs/ranking.md says about RoboArena's snapshot is what the data say."""

import re
from functools import cache
from pathlib import Path

import pytest
from roboarena_tables import POLICIES, WHOLE, needs_whole

from arena_robot.ranking.evaluators.reports import evaluators, influence
from arena_robot.ranking.intervals.needed import evidence
from arena_robot.ranking.methods import method, rank
from arena_robot.ranking.quality import reference
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.records.roboarena_files import read_tables

pytestmark = needs_whole
PAGE = Path(__file__).parents[2] / 'docs' / 'ranking.md'


@cache
def arena(invalid=False):
    data = read_tables(WHOLE / 'sessions.csv', WHOLE / 'episodes.csv')
    return arena_tables(data.comparisons(), data.scored(invalid=invalid), POLICIES)


def said(pattern, section=''):
    """Return the groups of the one place after a heading that matches, line breaks as spaces."""
    text = ' '.join(PAGE.read_text(encoding='utf-8').partition(section or '# ')[2].split())
    values = re.findall(pattern, text)
    assert len(values) == 1, f'{pattern}: {len(values)} places'
    return values[0]


def test_the_first_table_and_the_nats_of_the_buckets():
    standings = rank(arena().comparisons, 'task_partial')
    diagnostics = standings.diagnostics
    rounds, value = said(r'task_partial: converged after (\d+) iterations, '
                         r'log-likelihood (-[\d.]+)')
    assert (int(rounds), float(value)) == (diagnostics.iterations,
                                           pytest.approx(diagnostics.log_likelihood, abs=0.006))
    for k in standings.order:
        score, solve, n = said(rf' {standings.items[k]} (-?[\d.]+) .*? to -?[\d.]+ '
                               r'([\d.]+) (\d+) ', section='## How to read standings')
        assert float(score) == pytest.approx(standings.scores[k], abs=6e-4)
        assert float(solve) == pytest.approx(standings.solve[k], abs=6e-4)
        assert int(n) == standings.counts[k]
    assert float(said(r'it is (\d+) nats above')) == round(diagnostics.details['bucket_gain'])
    alone = rank(arena().comparisons, 'task').diagnostics.details['bucket_gain']
    assert float(said(r'is only ([\d.]+) nats above')) == round(alone, 1)


def test_elos_spread_over_orders_and_how_much_scores_share():
    spread = rank(arena().comparisons, 'elo').diagnostics.details['order_spread']
    low, high = said(r'in the JSON; (\d+) to (\d+) points on the snapshot')
    assert (int(low), int(high)) == (round(min(spread)), round(max(spread)))
    shared = rank(arena().comparisons, 'progress_gls').diagnostics.details['shared']
    assert float(said(r'by maximum likelihood \(([\d.]+) on the snapshot\)')) == round(shared, 2)


def test_the_pair_of_the_page():
    wins, losses, ties, p = said(r'pi0_fast_droid against pi0_droid: (\d+) won, (\d+) lost, '
                                 r'(\d+) tied; p ([\d.]+) however often')
    weighed = evidence(arena().comparisons, 'pi0_fast_droid', 'pi0_droid', by='evaluator')
    assert (weighed.wins, weighed.losses, weighed.ties) == (int(wins), int(losses), int(ties))
    assert f'{weighed.p_value:.2g}' == p
    assert weighed.better is None


def test_the_most_suspicious_evaluator_and_the_most_influential_one():
    people, name, agree, expected = said(
        r'none of the (\d+) evaluators .*? most suspicious, `(\w+)`, agrees with the others in '
        r'(\d+) % of decisive votes where (\d+) % are expected')
    reports = evaluators(arena().comparisons)
    assert int(people) == len(reports)
    assert not any(report.flagged for report in reports)
    first = reports[0]
    assert (first.name, round(100 * first.agreement), round(100 * first.expected),
            first.own_scores) == (name, int(agree), int(expected), 1.0)
    left = said(r'Without `(\w+)` the first four ranks of `bt`')
    entry = next(x for x in influence(arena().comparisons, method('bt')) if x.name == left)
    assert {with_ for with_, _ in entry.moved.values()} >= {1, 2, 3, 4}


def test_the_reference_leaves_out_the_rollouts_of_invalid_sessions():
    kept, every = arena().rollouts, arena(invalid=True).rollouts
    count, share = said(r'the rollouts of valid sessions, (\d+) of them.*?invalid sessions, '
                        r'(\d+) % of all')
    assert int(count) == len(kept.score)
    assert int(share) == round(100 * (1 - len(kept.score) / len(every.score)))
    assert (reference(kept, 7) != reference(every, 7)).all()
