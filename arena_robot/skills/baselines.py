"""
What a verifier has to beat: rules, and a language model that judges subtasks one by one.

The rules are the checks of the paper's judge prompt made by a program: syntax, allowed functions,
names, a success and a reward that are there, a tolerance that is not lax. They know no verbs. The
strong rules also compare the code with the scene; nothing of them is learned either.
"""

from collections.abc import Sequence

import numpy as np

from arena_robot.core.errors import ModelBadReply
from arena_robot.core.observation import Floats
from arena_robot.models.chat import ChatClient, user
from arena_robot.skills.base import Solution, Subtask, SubtaskKind, TaskSpec
from arena_robot.skills.code_facts import JOINT, PLACE, PRIMITIVES, UPPER, CodeFacts, facts_of
from arena_robot.skills.prefix_features import (
    STANDS,
    joint_of,
    joints_meant,
    moved_links,
    way_left,
)
from arena_robot.skills.prompts import JUDGED, judge_prompt

LAX_SHARE, LAX_M = 0.35, 0.1
TIGHT_SHARE = 0.05    # of a joint's range, which a motion misses by its own error
HANDLE = 'handle'      # what a link that is pulled says it is
UNSURE = 0.5    # of a judge that gave no number


class RuleScorer:
    """1 for a prefix without a broken rule, less for each one that is broken."""

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return (n,) scores of the prefixes."""
        broken = np.cumsum([len(broken_rules(spec, subtask)) for subtask in solution.subtasks])
        return np.asarray(0.5 ** broken)


class StrongRuleScorer:
    """The rules, and doubts that need the scene: see :func:`doubts`."""

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return (n,) scores of the prefixes: halved by every broken rule and every doubt."""
        grasps: list[tuple[str, ...]] = []
        found = []
        for subtask in solution.subtasks:
            facts = facts_of(subtask, spec.objects)
            found.append(len(broken_rules(spec, subtask)) + len(doubts(spec, facts, grasps)))
            grasps += facts.names('grasp_object', 'grasp_object_link')
        return np.asarray(0.5 ** np.cumsum(found))


class ModelJudge:
    """Asks a chat model about every subtask; an answer that cannot be read counts as unsure."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self.malformed = 0

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return (n,) scores; each is of the last subtask of its prefix."""
        return np.array([self._one(spec, solution, k + 1)
                         for k in range(len(solution.subtasks))])

    def _one(self, spec: TaskSpec, solution: Solution, length: int) -> float:
        try:
            value, _ = self._client.ask_json([user(judge_prompt(spec, solution, length))], JUDGED)
        except ModelBadReply:
            self.malformed += 1
            return UNSURE
        return float(value['score'])


def broken_rules(spec: TaskSpec, subtask: Subtask) -> list[str]:
    """Return the rules that a subtask breaks, in words."""
    facts, faults = facts_of(subtask, spec.objects), infeasible(spec, subtask)
    if facts.problem:
        return faults
    if subtask.kind is SubtaskKind.PRIMITIVE:
        return faults + ([] if facts.names(*PRIMITIVES) else ['no primitive'])
    if facts.tolerance is None:
        faults.append('nothing bounds the success')
    elif facts.about != PLACE and facts.tolerance > (LAX_SHARE if facts.about == JOINT else LAX_M):
        faults.append('the tolerance is lax')
    return faults


def infeasible(spec: TaskSpec, subtask: Subtask) -> list[str]:
    """Return why no executor can run a subtask: refused code, or names the scene lacks."""
    facts = facts_of(subtask, spec.objects)
    return [f'it cannot run: {facts.problem}'] if facts.problem else _wrong_names(spec, facts)


def doubts(spec: TaskSpec, facts: CodeFacts, grasps: Sequence[tuple[str, ...]]) -> list[str]:
    """
    Return what speaks against a subtask that moves a joint, in words.

    ``grasps`` are the names in the grasps before it. The joint is not the one that the task's
    words mean; the goal is where the joint starts; the tolerance is too tight for the executor;
    the last grasp is of something else, or a pull by a handle to the upper limit has none.
    """
    pair = joint_of(spec, facts)
    if pair is None:
        return []
    owner, joint = pair
    found = [] if (owner.name, joint.name) in joints_meant(spec) else ['another joint is meant']
    left = way_left(spec, facts)
    found += ['the joint stands at the goal'] if left is not None and left < STANDS else []
    if facts.tolerance is not None and facts.tolerance < TIGHT_SHARE:
        found.append('the tolerance is tight')
    if not grasps:
        handle = any(k.semantics == HANDLE for k in owner.links
                     if k.name in moved_links(owner, joint))
        return found + (['a pull without a grasp'] if handle and facts.goal == UPPER else [])
    held = grasps[-1]
    if held[0] != owner.name or (len(held) > 1 and held[1] not in moved_links(owner, joint)):
        found.append('something else is held')
    return found


def _wrong_names(spec: TaskSpec, facts: CodeFacts) -> list[str]:
    parts = {o.name: {k.name for k in o.links} | {j.name for j in o.joints} for o in spec.objects}
    faults = []
    for _, names in facts.calls:
        if names and names[0] not in parts:
            faults.append(f'no object {names[0]}')
        elif len(names) > 1 and names[1] not in parts[names[0]]:
            faults.append(f'{names[0]} has no {names[1]}')
    return faults
