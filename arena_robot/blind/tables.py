"""
A study as the tables that rankings read: a session for each block, a row for each trial.

So `arena rank` and `arena study methods` work on the blocks of a study as on a station's sessions,
and several studies of the same policies can be ranked together.
"""

from collections import defaultdict

from arena_robot.blind.results import StudyResult
from arena_robot.blind.trials import TrialResult
from arena_robot.core.clock import to_iso
from arena_robot.records.roboarena import SLOTS, RoboArenaRollout, RoboArenaSession

LOCAL = 'local'    # the origin of verdicts that no server relayed


def study_sessions(result: StudyResult) -> list[RoboArenaSession]:
    """
    Return the blocks of a revealed study in which slots A and B count.

    Progress is what the evaluator said; where nobody did, a success is 1 and a failure 0.
    """
    blocks: dict[tuple[int, int], dict[str, TrialResult]] = defaultdict(dict)
    for trial in result.results:
        if trial.counts:
            blocks[trial.version, trial.block][trial.slot] = trial
    return [_session(result, version, block, slots) for (version, block), slots in blocks.items()
            if set(SLOTS) <= set(slots)]


def _session(result: StudyResult, version: int, block: int, slots: dict[str, TrialResult],
             ) -> RoboArenaSession:
    declared = result.record.versions[version - 1]
    first, last = slots[min(slots)], slots[max(slots)]
    condition = declared.study.condition(first.condition)
    rollouts = tuple(RoboArenaRollout(
        trial.arm, slot, _progress(trial), prompt=condition.instruction or condition.task,
        order=place, success=trial.success) for place, (slot, trial) in enumerate(
            sorted(slots.items())))
    return RoboArenaSession(
        f'{declared.sha256[:12]}-{version}-{block}', slots['A'].arm, slots['B'].arm,
        preference=last.preference, evaluator=first.evaluator, explanation=last.reason,
        created=to_iso(first.started_ns) if first.started_ns else '',
        completed=to_iso(last.ended_ns) if last.ended_ns else '', origin=LOCAL, chosen=False,
        rollouts=rollouts)


def _progress(trial: TrialResult) -> float | None:
    if trial.progress is not None or trial.success is None:
        return trial.progress
    return float(trial.success)
