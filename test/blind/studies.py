"""A study, and a journal in which it was run with chosen successes."""

import dataclasses
from pathlib import Path

from arena_robot.blind.study import (
    DecisionRule,
    StartCondition,
    Study,
    StudyArm,
    schedule,
)
from arena_robot.blind.trials import StudyMove, TrialResult, declare, plain_result, seal
from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Preference
from arena_robot.records.session_file import JOURNAL
from arena_robot.session.protocol.journal import Journal

SEED = 'a secret of the test'


def cup_study(repeats=10, **changes):
    """Two policies, two start conditions; changes of the rule go to the rule."""
    rule = {name: changes.pop(name) for name in list(changes)
            if name in {field.name for field in dataclasses.fields(DecisionRule)}}
    return dataclasses.replace(Study(
        'cup in bowl', (StudyArm('pi0'), StudyArm('pi05')),
        (StartCondition('left', 'cup in bowl', 'put the cup into the bowl', 'cup on the left'),
         StartCondition('right', 'cup in bowl', 'put the cup into the bowl', 'cup on the right')),
        'the cup stands in the bowl', repeats=repeats, stages=('reach', 'grasp', 'place'),
        decision=DecisionRule(**rule)), **changes)


def run_study(folder, study, succeeds, seed=SEED, evaluator=lambda block: 'ann', reveal=True,
              prefer=lambda first, second: None, journal=None):
    """Write the journal of a study; ``succeeds(arm, block)`` says whether a trial succeeded."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Journal(Path(folder) / JOURNAL, ManualClock(1)) as log:
        declare(log, study)
        seal(log, seed)
        ran = {}
        for trial in schedule(study, seed):
            ran[trial.block, trial.slot] = trial.arm
            preference = prefer(ran[trial.block, 'A'], trial.arm) if trial.slot == 'B' else None
            log.append(StudyMove.TRIAL.value, plain_result(TrialResult(
                trial.number, trial.block, trial.slot, trial.condition,
                evaluator=evaluator(trial.block), success=succeeds(trial.arm, trial.block),
                progress=0.5, preference=Preference(preference) if preference else None)))
        if reveal:
            log.append(StudyMove.REVEALED.value, {'seed': seed})
    return Path(folder)
