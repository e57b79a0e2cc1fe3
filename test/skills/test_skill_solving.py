"""Verification while a solution is written and while it runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from http_server import ChatServer, said, streamed
from skill_worlds import StructuralExecutor, all_specs, spec_of

from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.skills.base import Solution, to_json
from arena_robot.skills.baselines import StrongRuleScorer
from arena_robot.skills.generator import StructuredGenerator, scene_of
from arena_robot.skills.policies import ChatPolicy, begun
from arena_robot.skills.solving import (
    HELD_BEFORE,
    NOT_DONE,
    SolveSettings,
    best_first,
    solve,
)
from arena_robot.skills.subtask_lines import expand, parse_lines

SPEC = spec_of('drawer', 0, 0)
REACH, GRASP = 'reach drawer drawer_tray', 'grasp drawer drawer_tray'
GOOD = 'joint drawer drawer_tray_joint upper 0.2'
WRONG = 'joint drawer drawer_tray_joint lower 0.1'
OTHER = 'grasp box box_lid'


def solution(*lines):
    return Solution(SPEC.name, scene_of(SPEC), tuple(
        expand(step, SPEC) for step in parse_lines('\n'.join(lines))), 'scripted')


class Scripted:
    """A policy model that says what it was told to; it keeps prefixes and notes failures."""

    name = 'scripted'

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    def generate(self, spec, exemplars, seed):
        return self._next(())

    def complete(self, spec, prefix, exemplars, seed, failure=''):
        return self._next(prefix.subtasks, failure)

    def _next(self, kept, failure=''):
        self.asked.append(([step.name for step in kept], failure))
        if not self.replies:
            raise ModelBadReply('no more replies')
        whole = solution(*self.replies.pop(0))
        return replace(whole, subtasks=(*kept, *whole.subtasks))


class Scored:
    """Gives each prefix the score of its last line, 1 unless told otherwise."""

    def __init__(self, **scores):
        self.scores = scores

    def prefixes(self, spec, whole):
        return np.array([next((value for word, value in self.scores.items() if word in step.name),
                               1.0) for step in whole.subtasks])


def test_the_rest_is_not_written_after_a_prefix_that_is_rejected():
    policy = Scripted([REACH, OTHER, GOOD, 'release'], [GRASP, GOOD])
    executor = StructuralExecutor()
    solved = solve(SPEC, policy, executor, Scored(box=0.2), (), SolveSettings())
    assert [kept for kept, _ in policy.asked] == [[], ['reach the drawer_tray of the drawer']]
    assert solved.solution == solution(REACH, GRASP, GOOD)
    assert (solved.cost.written, solved.cost.drafts, solved.cost.rejected) == (4, 2, 1)
    assert all('box' not in step.name for ran in executor.solutions for step in ran.subtasks)
    assert solved.cost.sim_steps == 30


def test_a_chat_model_is_not_heard_out_after_a_prefix_that_is_rejected():
    def answer(request):
        kept = '# Begun' in request['messages'][1]['content']
        rows = [to_json(step) for step in solution(
            *((GRASP, GOOD) if kept else (REACH, OTHER, GOOD, *['release'] * 9))).subtasks]
        value = {'subtasks': rows} if kept else {'objects': ['drawer'], 'subtasks': rows}
        text = json.dumps(value, indent=1)
        lengths.append(len(text))
        return streamed(text, written, 0.001, size=40) if 'stream' in request else said(text)

    written, lengths = [], []
    with ChatServer(answer) as server:
        policy = ChatPolicy(ChatClient(ChatSettings(server.url, 'm')))
        solved = solve(SPEC, policy, StructuralExecutor(), Scored(box=0.2), (), SolveSettings())
        whole = policy.generate(SPEC, (), 7)
    assert solved.solution.subtasks == solution(REACH, GRASP, GOOD).subtasks
    assert (solved.cost.written, solved.cost.drafts, solved.cost.rejected) == (4, 2, 1)
    assert len(written) < lengths[0] / 40
    assert len(whole.subtasks) == 12


@pytest.mark.parametrize(('text', 'objects', 'names'), [
    ('', None, []), ('{"objects": ["a', None, []), ('{"objects": ["a"], "subtas', ['a'], []),
    ('{"joints": [{"joint": "a/b"}], "objects": ["a"], "subtasks": [', ['a'], []),
    ('```json\n{"objects": ["a"], "subtasks": [{"name": "x"}, {"name": "y', ['a'], ['x']),
    ('{"subtasks": [{"name": "x"}, {"name": "[}"}]', None, ['x', '[}']), ('[[[[', None, [])])
def test_the_beginning_of_an_answer_is_read(text, objects, names):
    value = begun(text)
    assert (value.get('objects'), [row['name'] for row in value['subtasks']]) == (objects, names)


def test_after_a_failure_the_rest_is_written_again_and_the_model_is_told_why():
    policy = Scripted([GRASP, 'joint drawer drawer_tray_joint lower 0.1'], [GOOD])

    class Still(StructuralExecutor):
        def subtask(self, spec, facts, held, where, luck):
            if facts.goal == 'lower':
                return False, held
            return super().subtask(spec, facts, held, where, luck)

    solved = solve(SPEC, policy, Still(), Scored(), (), SolveSettings())
    kept, failure = policy.asked[1]
    assert kept == ['grasp the drawer_tray of the drawer']
    assert failure == ('subtask 2, move the joint drawer_tray_joint of the drawer to its lower '
                       'limit: failed')
    assert [attempt.success for attempt in solved.attempts] == [False, True]
    assert solved.attempts[0].failure == failure
    assert solved.cost.sim_steps == 30    # the grasp ran once


def test_a_success_that_held_before_anything_moved_is_a_failure():
    class Free(StructuralExecutor):
        def execute(self, spec, whole, seed):
            done = super().execute(spec, whole, seed)
            return replace(done, results=tuple(
                replace(result, sim_steps=0) if 'lower' in step.name else result
                for step, result in zip(whole.subtasks, done.results, strict=False)))

    policy = Scripted([GRASP, WRONG, 'release'], [GOOD])
    solved = solve(SPEC, policy, Free(), Scored(), (), SolveSettings())
    assert HELD_BEFORE in policy.asked[1][1]
    assert solved.solution == solution(GRASP, GOOD)


@pytest.mark.parametrize(('wrong', 'reason'), [
    (solution('grasp drawer drawer_knob').subtasks[0], 'drawer has no drawer_knob'),
    (replace(solution(GOOD).subtasks[0], code='import os'), 'it cannot run: ')])
def test_an_infeasible_solution_is_refused_before_anything_is_simulated(wrong, reason):
    bad = replace(solution(GRASP), subtasks=(solution(GRASP).subtasks[0], wrong))
    executor, told = StructuralExecutor(), []

    class Stubborn(Scripted):
        def complete(self, spec, prefix, exemplars, seed, failure=''):
            told.append(failure)
            return bad

    solved = solve(SPEC, Stubborn([GRASP, 'grasp drawer drawer_knob']), executor, Scored(), (),
                   SolveSettings(drafts=1, runs=1))
    assert (executor.solutions, solved.attempts, solved.cost.sim_steps) == ([], [], 0)
    policy = Stubborn()
    policy.generate = lambda *_: bad
    refused = solve(SPEC, policy, executor, Scored(), (), SolveSettings(drafts=3))
    assert (executor.solutions, refused.solution) == ([], None)
    assert told[0].startswith(f'subtask 2, {wrong.name}: ')
    assert reason in told[0]


def test_what_failed_is_not_run_again_in_other_words():
    again = 'joint drawer drawer_tray_joint lower 0.1'
    policy = Scripted([GRASP, WRONG], [REACH, GRASP, again, 'release'], [GRASP, WRONG, 'release'],
                      [GRASP, GOOD])
    executor = StructuralExecutor()
    solved = solve(SPEC, policy, executor, Scored(), (), SolveSettings(drafts=6))
    assert NOT_DONE in solved.attempts[0].failure
    assert solved.solution is not None
    ends = [attempt.solution.subtasks[-1].name for attempt in solved.attempts]
    assert sum('lower' in end for end in ends) == 1


def test_a_prefix_that_nothing_follows_is_given_up():
    policy = Scripted([OTHER, GOOD], ['joint drawer drawer_tray_joint upper 0.3'], [GRASP, GOOD])
    solved = solve(SPEC, policy, StructuralExecutor(), Scored(), (), SolveSettings())
    assert [kept for kept, _ in policy.asked] == [[], ['grasp the box_lid of the box'], []]
    assert solved.solution == solution(GRASP, GOOD)


def test_budgets_end_it_without_a_solution():
    solved = solve(SPEC, Scripted(*[[WRONG, 'release']] * 99), StructuralExecutor(), Scored(), (),
                   SolveSettings(drafts=3, runs=2))
    assert solved.solution is None
    assert solved.cost.drafts <= 6
    assert solved.cost.runs == len(solved.attempts) <= 2
    with pytest.raises(ConfigError, match='threshold'):
        SolveSettings(threshold=1.5)


def test_whole_solutions_run_best_first_and_each_once():
    drafts = [solution(GRASP, WRONG), solution(GRASP, WRONG), solution(GRASP, GOOD)]
    scored = best_first(SPEC, drafts, StructuralExecutor(),
                        lambda draft: float(draft == drafts[2]), SolveSettings())
    assert [attempt.success for attempt in scored.attempts] == [True]
    plain = best_first(SPEC, drafts, StructuralExecutor(), lambda _: 0.0, SolveSettings())
    assert [attempt.success for attempt in plain.attempts] == [False, True]
    assert plain.cost.sim_steps == 30    # the grasp and the two motions


def test_it_solves_more_in_fewer_steps_than_whole_solutions_in_order():
    policy, settings = StructuredGenerator(), SolveSettings(threshold=0.6)
    live, plain = [], []
    for spec in all_specs(1):
        live.append(solve(spec, policy, StructuralExecutor(), StrongRuleScorer(), (), settings))
        drafts = [policy.generate(spec, (), seed) for seed in range(8)]
        plain.append(best_first(spec, drafts, StructuralExecutor(), lambda _: 0.0, settings))
    assert sum(s.solution is not None for s in live) >= sum(s.solution is not None for s in plain)
    assert sum(s.cost.sim_steps for s in live) < 0.7 * sum(s.cost.sim_steps for s in plain)
