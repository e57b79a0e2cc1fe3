"""
Simulated studies whose truth is known: how often they say "better" wrongly, and how often rightly.

Each row is 10 000 studies of one design in one world, run through the package's own schedules,
plans and tests. Printed are the studies in which any policy is called better where all are equal,
with the level that the study states, and those in which the better of the first two is found,
with the power that the plan promises where its assumption holds. The worlds:

- plain: nothing but the policies
- hard and easy: the start conditions differ
- drift: the robot gets worse over the day, by 30 points
- learning: the evaluator is lenient at first and strict at the end, and more so in later slots
- evaluators: 8 of them, strict and lenient
- tastes: the same, and every evaluator's way of setting up the scene favours one of the policies

The last is why a study has the unit `evaluator`: by block, such studies err more often than they
say, and the table shows it. Then it prints how many blocks a sequential study takes, beside a
fixed one and beside TRI's STEP where the package sequentialized-barnard-tests is installed; the
last of these rows are of small differences in up to 500 blocks. A third table has tasks of three
stages, of which a trial reaches some: tests of success alone, of who gets further, and bets on how
much further, which are the kind of test that arXiv 2603.13616 proposes for partial credit. Fails
if a rate is above its level, or a power below its promise, by more than three standard errors,
except for tastes by block. Takes about two minutes.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / 'blind'))

from studies import cup_study

from arena_robot.blind.planning import decided, plan, play
from arena_robot.blind.results import exchange_test
from arena_robot.blind.shares import BETS, blocks_needed, sign_test
from arena_robot.blind.study import (
    Design,
    Stopping,
    StudyArm,
    Unit,
    schedule,
    study_hash,
)
from arena_robot.ranking.intervals.needed import clustered_capital

LOW, HIGH = 0.5, 0.75
PEOPLE, SCHEDULES = 8, 50
THREE = tuple(map(StudyArm, ('pi0', 'pi05', 'fast')))
DESIGNS = {'pairs': {}, 'round robin of 3': {'arms': THREE, 'design': Design.ROUND_ROBIN},
           'task list of 3': {'arms': THREE, 'design': Design.TASK_LIST},
           'control and 2': {'arms': THREE, 'design': Design.CONTROL, 'control': 'pi0'}}
WORLDS = ('plain', 'hard and easy', 'drift', 'learning', 'evaluators', 'tastes')
STEP_RATES = ((0.5, 0.6), (0.5, 0.7), (0.5, 0.75), (0.3, 0.6), (0.7, 0.9), (0.5, 0.9))
STEP_LEVEL = 0.05    # a side; its package comes with decision rules for these many blocks
STEP_MOST = {200: STEP_RATES, 500: ((0.5, 0.55), (0.5, 0.6))}
STAGES, CREDIT_MOST = 3, 200    # of a task; blocks of a study with partial credit
STAGE_CHANCES = ((0.8, 0.8), (0.3, 0.5), (0.5, 0.7), (0.8, 0.9), (0.9, 0.97))


def successes(study, world, rates, studies, rng):
    """Return (studies, blocks, arms) whether each policy succeeded, NaN where it did not run."""
    names = [arm.name for arm in study.arms]
    parts, count = [], studies // SCHEDULES
    for seed in range(SCHEDULES):
        block, arm, slot, place = order_of(study_hash(study), study, str(seed))
        day = block / block.max()
        strength = np.broadcast_to(logit(np.asarray(rates))[arm], (count, len(block))).copy()
        person = block % PEOPLE
        if world == 'hard and easy':
            strength += np.where(place, 1.5, -1.5)
        if world == 'drift':
            strength -= 1.3 * day
        if world == 'learning':
            strength += 1.0 - 2.0 * day - 0.5 * slot
        if world in ('evaluators', 'tastes'):
            strength += rng.normal(0, 1.0, (count, PEOPLE))[:, person]
        if world == 'tastes':
            favour = rng.normal(0, 1.0, (count, PEOPLE, len(names)))
            strength += favour[:, person, arm]
        done = rng.random(strength.shape) < expit(strength)
        table = np.full((count, block.max() + 1, len(names)), np.nan)
        table[:, block, arm] = done
        parts.append(table)
    return np.concatenate(parts)


ORDERS = {}    # schedules by hash of the study and seed, which all worlds share


def order_of(name, study, seed):
    """Return block, arm, slot and place of each trial of a schedule, as numbers from 0."""
    names = [arm.name for arm in study.arms]
    if (name, seed) not in ORDERS:
        ORDERS[name, seed] = [np.array(column) for column in zip(*(
            (t.block - 1, names.index(t.arm), ord(t.slot) - ord('A'),
             ('left', 'right').index(t.condition)) for t in schedule(study, seed)), strict=True)]
    return ORDERS[name, seed]


def found(study, table):
    """Return (studies, contrasts) who is called better: 1 the first, -1 the second."""
    names = [arm.name for arm in study.arms]
    rule, pairs = study.decision, study.contrasts()
    level = rule.level / len(pairs)
    columns = []
    for a, b in pairs:
        apart = table[:, :, names.index(a)] - table[:, :, names.index(b)]
        columns.append(who(apart, rule, level))
    return np.stack(columns, axis=1)


def who(apart, rule, level):
    """Return (studies,) who is called better by outcomes (studies, blocks); NaN: no block."""
    if rule.unit is Unit.EVALUATOR:
        people = np.arange(apart.shape[1]) % PEOPLE
        return np.array([by_evaluator(row[np.isfinite(row)].astype(int),
                                      people[np.isfinite(row)], rule, level) for row in apart])
    if rule.stopping is Stopping.SEQUENTIAL:
        return decided(np.nan_to_num(apart).astype(int), level)[1]
    wins, losses = (apart > 0).sum(axis=1), (apart < 0).sum(axis=1)
    return np.where(sign_test(wins, losses) <= level, np.sign(wins - losses), 0)


def by_evaluator(outcome, people, rule, level):
    """Return who is called better in one study by evaluator."""
    if rule.stopping is Stopping.FIXED:
        return int(np.sign(outcome.sum())) if exchange_test(outcome, people) <= level else 0
    forward, backward = clustered_capital((outcome + 1) / 2, people)
    crossed = np.flatnonzero(np.logaddexp(forward, backward) - np.log(2) >= -np.log(level))
    return int(np.sign((forward - backward)[crossed[0]])) if len(crossed) else 0


def planned(design, stopping, unit):
    """Return a study with as many rounds as its power needs, two start conditions."""
    study = cup_study(1, stopping=stopping, unit=unit, assumed=(LOW, HIGH), **DESIGNS[design])
    level = study.decision.level / len(study.contrasts())
    blocks = blocks_needed(HIGH * (1 - LOW), LOW * (1 - HIGH), level)
    more = 2 if stopping is Stopping.SEQUENTIAL else 1
    return dataclasses.replace(study, repeats=int(np.ceil(more * blocks / 2)))


def row(design, stopping, unit, world, studies, rng):
    """Print a row of the table; return whether level and promise hold."""
    study = planned(design, stopping, unit)
    if unit is Unit.EVALUATOR:
        studies = studies // 5    # each is tested by itself
    equal = found(study, successes(study, world, [LOW] * len(study.arms), studies, rng))
    wrong, level = np.mean((equal != 0).any(axis=1)), study.decision.level
    cells = f'{100 * wrong:.1f} %'
    bad = wrong > level + 3 * np.sqrt(level * (1 - level) / studies)
    power = ''
    if design == 'pairs' or world == 'plain':
        rates = [LOW, HIGH, LOW][:len(study.arms)]
        right = np.mean(found(study, successes(study, world, rates, studies, rng))[:, 0] == -1)
        power = f'{100 * right:.1f} %'
    if unit is Unit.BLOCK and world == 'plain':
        promise = plan(study)
        promised = promise.found if stopping is Stopping.SEQUENTIAL else promise.power
        power += f' of {100 * promised:.1f} %'
        bad |= right < promised - 3 * np.sqrt(0.16 / studies) - 0.005
    print(f'| {design} | {stopping.value} | {unit.value} | {world} | '
          f'{study.blocks_per_contrast()} | {cells} of {100 * level:.0f} % | {power} |')
    return not bad or (world == 'tastes' and unit is Unit.BLOCK)


def lengths(studies, rng):
    """Print the blocks of sequential studies at their own level, and beside STEP at STEP's."""
    print('\n| rates | fixed | sequential: mean | median | found | '
          f'up to, {STEP_LEVEL:.0%} a side | mean | found | STEP: mean | found |')
    print('|---|---|---|---|---|---|---|---|---|---|')
    for most, low, high in ((n, *rates) for n, pairs in STEP_MOST.items() for rates in pairs):
        win, loss = high * (1 - low), low * (1 - high)
        fixed = int(blocks_needed(win, loss))
        used, better = play(win, loss, 2 * fixed, 0.05, rng, studies)
        beside, again = play(win, loss, most, 2 * STEP_LEVEL, rng, studies)
        print(f'| {low:g}, {high:g} | {fixed} | {used.mean():.1f} | {np.median(used):.0f} | '
              f'{100 * np.mean(better > 0):.1f} % | {most} | {beside.mean():.1f} | '
              f'{100 * np.mean(again > 0):.1f} % | {step(low, high, most, rng, studies // 10)} |')


def credit(studies, rng):
    """Print what each test makes of tasks of three stages; the first row has equal policies."""
    print(f'\n| chance of each stage | success | by success: mean of {CREDIT_MOST} | found | '
          'by who gets further: mean | found | by how much further: mean | found |')
    print('|---|---|---|---|---|---|---|---|')
    for chances in STAGE_CHANCES:
        reached = [np.minimum.accumulate(rng.random((studies, CREDIT_MOST, STAGES)) < chance,
                                         axis=2).sum(axis=2) for chance in chances]
        apart = reached[1] - reached[0]
        success = (reached[1] == STAGES).astype(int) - (reached[0] == STAGES)
        tests = (decided(success, 0.05), decided(np.sign(apart), 0.05), bets(apart / STAGES, 0.05))
        cells = ' | '.join(f'{used.mean():.1f} | {100 * np.mean(lead != 0):.1f} %'
                           for used, lead in tests)
        print(f'| {chances[0]:g}, {chances[1]:g} | {chances[0] ** STAGES:.2f}, '
              f'{chances[1] ** STAGES:.2f} | {cells} |')


def bets(apart, level):
    """Return (studies,) the blocks until bets on differences of -1 to 1 decide, and for whom."""
    capital = [np.full(apart.shape, -np.inf), np.full(apart.shape, -np.inf)]
    for bet in BETS:
        for side, sign in enumerate((1, -1)):
            capital[side] = np.logaddexp(
                capital[side], np.cumsum(np.log1p(sign * bet * apart), axis=1))
    both = np.logaddexp(*capital) - np.log(2 * len(BETS))
    reached = both >= -np.log(level)
    at = np.where(reached.any(axis=1), np.argmax(reached, axis=1), apart.shape[1] - 1)
    rows = np.arange(len(apart))
    return at + 1, np.where(reached[rows, at],
                            np.sign((capital[0] - capital[1])[rows, at]), 0)


def step(low, high, most, rng, studies):
    """Return mean blocks and share found of STEP, where it is installed."""
    try:
        from sequentialized_barnard_tests import Decision, Hypothesis
        from sequentialized_barnard_tests.step import MirroredStepTest
    except ImportError:
        return 'not installed |'
    test = MirroredStepTest(Hypothesis.P0LessThanP1, n_max=most, alpha=STEP_LEVEL)
    used, right = [], 0
    for _ in range(studies):
        a, b = rng.random(most) < low, rng.random(most) < high
        test.reset()
        for n in range(most):
            result = test.step(bool(a[n]), bool(b[n]))
            if result.decision is not Decision.FailToDecide:
                break
        used.append(n + 1)
        right += result.decision is Decision.AcceptAlternative
    return f'{np.mean(used):.1f} | {100 * right / studies:.1f} %'


def main(studies, seed):
    """Print the tables; return 1 where a level or a promise does not hold."""
    rng = np.random.default_rng(seed)
    print('| design | stopping | unit | world | blocks | wrong "better" | found |')
    print('|---|---|---|---|---|---|---|')
    good = [row(design, stopping, Unit.BLOCK, world, studies, rng)
            for design in DESIGNS for stopping in Stopping for world in WORLDS]
    good += [row('pairs', stopping, Unit.EVALUATOR, world, studies, rng)
             for stopping in Stopping for world in ('evaluators', 'tastes')]
    lengths(studies, rng)
    credit(studies, rng)
    print(f'\n{good.count(False)} of {len(good)} rows do not hold what is stated')
    return int(not all(good))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--studies', type=int, default=10_000, help='per row (default 10000)')
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    sys.exit(main(args.studies, args.seed))
