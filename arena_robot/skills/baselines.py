"""
What a verifier has to beat: rules, and a language model that judges subtasks one by one.

The rules are the checks of the paper's judge prompt made by a program: syntax, allowed functions,
names, a success and a reward that are there, a tolerance that is not lax. They know no verbs.
"""

import numpy as np

from arena_robot.core.errors import ModelBadReply
from arena_robot.core.observation import Floats
from arena_robot.models.chat import ChatClient, user
from arena_robot.skills.base import Solution, Subtask, SubtaskKind, TaskSpec
from arena_robot.skills.code_facts import PRIMITIVES, STATE, CodeFacts, facts_of
from arena_robot.skills.prompts import JUDGED, judge_prompt

LAX_SHARE, LAX_M = 0.35, 0.1
UNSURE = 0.5    # of a judge that gave no number
_OTHERS = ('abs', 'min', 'max', 'float', 'len', 'bool', 'sum', 'range', '_compute_reward')


class RuleScorer:
    """1 for a prefix without a broken rule, less for each one that is broken."""

    def prefixes(self, spec: TaskSpec, solution: Solution) -> Floats:
        """Return (n,) scores of the prefixes."""
        broken = np.cumsum([len(broken_rules(spec, subtask)) for subtask in solution.subtasks])
        return np.asarray(0.5 ** broken)


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
    facts = facts_of(subtask)
    if facts.problem:
        return [f'syntax: {facts.problem}']
    faults = [] if facts.has_success else ['no success']
    faults += [f'{name} is not allowed' for name, _ in facts.calls
               if name not in (*PRIMITIVES, *STATE, *_OTHERS)]
    faults += _wrong_names(spec, facts)
    if subtask.kind is SubtaskKind.PRIMITIVE:
        return faults + ([] if facts.names(*PRIMITIVES) else ['no primitive'])
    if not facts.has_reward:
        faults.append('no reward')
    if facts.tolerance is None:
        faults.append('nothing bounds the success')
    elif facts.tolerance > (LAX_SHARE if facts.relative else LAX_M) and facts.about != 'place':
        faults.append('the tolerance is lax')
    return faults


def _wrong_names(spec: TaskSpec, facts: CodeFacts) -> list[str]:
    parts = {o.name: {k.name for k in o.links} | {j.name for j in o.joints} for o in spec.objects}
    faults = []
    for _, names in facts.calls:
        if names and names[0] not in parts:
            faults.append(f'no object {names[0]}')
        elif len(names) > 1 and names[1] not in parts[names[0]]:
            faults.append(f'{names[0]} has no {names[1]}')
    return faults
