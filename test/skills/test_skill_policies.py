"""The generator, the line language, what is read from code, and the chat policy."""

import json
from collections import Counter

import pytest
from chat_server import ChatServer, said
from skill_worlds import StructuralExecutor, all_specs, spec_of

from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.skills.base import Solution, Subtask, SubtaskKind
from arena_robot.skills.chat_policy import ChatPolicy
from arena_robot.skills.code_facts import facts_of
from arena_robot.skills.generator import ErrorRates, StructuredGenerator
from arena_robot.skills.prompts import solution_prompt
from arena_robot.skills.subtask_lines import expand, parse_lines

NO_ERRORS = ErrorRates(0, 0, 0, 0, 0, 0, 0)
SPEC = spec_of('drawer', 0, 0)
PLAN = 'grasp drawer drawer_tray\njoint drawer drawer_tray_joint upper 0.3\nrelease'


def rate(generator, exemplars=(), draws=12):
    executor = StructuralExecutor()
    ends = [executor.execute(spec, generator.generate(spec, exemplars, seed), 0).success
            for spec in all_specs(1) for seed in range(draws)]
    return sum(ends) / len(ends)


def test_a_seed_decides_and_declared_errors_cost_success():
    one = StructuredGenerator()
    assert one.generate(SPEC, (), 5) == StructuredGenerator().generate(SPEC, (), 5)
    assert len({one.generate(SPEC, (), seed) .subtasks for seed in range(20)}) > 5
    wrong = rate(StructuredGenerator(ErrorRates(1, 0, 0, 0, 0, 0, 0)), draws=5)
    assert wrong < 0.1 < rate(one) < rate(StructuredGenerator(NO_ERRORS)) - 0.2
    with pytest.raises(ConfigError):
        ErrorRates(direction=1.5)


def test_an_exemplar_of_a_similar_task_helps_more_than_one_of_another():
    near, far = spec_of('drawer', 1, 0), spec_of('lamp', 0, 1)
    good = {spec.name: StructuredGenerator(NO_ERRORS).generate(spec, (), 1)
            for spec in (near, far)}
    found, lengths = {}, {}
    for spec in (near, far):
        made = [StructuredGenerator().generate(SPEC, [(spec, good[spec.name])], seed)
                for seed in range(80)]
        found[spec.name] = sum(StructuralExecutor().execute(SPEC, one, 0).success
                               for one in made)
        lengths[spec.name] = sum(len(one.subtasks) for one in made)
    assert found[near.name] > found[far.name]
    assert lengths[near.name] < lengths[far.name]


def test_a_completion_keeps_the_prefix():
    generator = StructuredGenerator()
    for seed in range(20):
        whole = generator.generate(SPEC, (), seed)
        for kept in range(len(whole.subtasks)):
            prefix = Solution(whole.task, whole.scene, whole.subtasks[:kept])
            done = generator.complete(SPEC, prefix, (), seed + 1)
            assert done.subtasks[:kept] == prefix.subtasks
            assert done.scene == prefix.scene


def test_lines_become_code_and_are_read_back():
    subtasks = [expand(step, SPEC) for step in parse_lines(PLAN)]
    assert [one.kind for one in subtasks] == [SubtaskKind.PRIMITIVE, SubtaskKind.REWARD,
                                              SubtaskKind.PRIMITIVE]
    assert '\n'.join(step.text() for step in parse_lines(PLAN)) == PLAN
    facts = facts_of(subtasks[1])
    assert (facts.about, facts.goal, facts.tolerance, facts.relative) == (
        'joint', 'upper', 0.3, True)
    assert facts.names('get_link_state') == [('drawer', 'drawer_tray')]
    half = facts_of(expand(parse_lines('joint drawer drawer_tray_joint 0.5 0.1')[0], SPEC))
    assert (half.goal, half.share) == ('middle', 0.5)


@pytest.mark.parametrize('text', ['', 'fly drawer', 'grasp', 'joint a b upper 7', 'move a b x',
                                  'joint a b sideways 0.1', 'release\n' * 13])
def test_lines_that_do_not_fit_are_bad_replies(text):
    with pytest.raises(ModelBadReply):
        parse_lines(text)


@pytest.mark.parametrize(('body', 'goal', 'tolerance'), [
    ('a = get_joint_state(self, "o", "j")\nhi = get_joint_limit(self, "o", "j")[1]\n'
     'd = np.abs(a - hi)\nreward = -d\nsuccess = d < 0.15 * 2.0', 'upper', 0.15),
    ('a = get_joint_state(self, "o", "j")\nlims = get_joint_limit(self, "o", "j")\n'
     'success = abs(a - lims[0]) <= 0.2\nreward = 0', 'lower', 0.2),
    ('a = get_joint_state(self, "o", "j")\nl, h = get_joint_limit(self, "o", "j")\n'
     'reward = a\nsuccess = a > h - 0.1 * (h - l)', 'upper', 0.1),
    ('a = get_joint_state(self, "o", "j")\nreward = -abs(a - np.pi)\n'
     'success = abs(a - np.pi) < 0.3', 'constant', 0.3)])
def test_other_ways_to_write_a_goal_are_read(body, goal, tolerance):
    lines = ''.join(f'    {line}\n' for line in [*body.split('\n'), 'return reward, success'])
    facts = facts_of(Subtask('x', SubtaskKind.REWARD, f'def _compute_reward(self):\n{lines}'))
    assert (facts.goal, facts.tolerance) == (goal, tolerance)


def test_code_that_is_no_python_is_a_fact():
    assert 'invalid' in facts_of(Subtask('x', SubtaskKind.REWARD, 'def (')).problem


def reply(**more):
    one = {'name': 'grasp', 'kind': 'primitive', 'action_space': 'None', 'code': 'success = True'}
    return {'objects': ['drawer'], 'subtasks': [one], **more}


def test_a_chat_model_writes_and_completes_and_malformed_answers_are_told():
    answers = [reply(), {'subtasks': reply()['subtasks']}, reply(subtasks=[]), 'no JSON']
    with ChatServer(lambda r: said(json.dumps(answers.pop(0)))) as server:
        client = ChatClient(ChatSettings(base_url=server.url, model='m'))
        policy = ChatPolicy(client)
        exemplar = (spec_of('box', 0, 0), StructuredGenerator().generate(spec_of('box', 0, 0),
                                                                         (), 0))
        made = policy.generate(SPEC, [exemplar], 0)
        assert (made.task, made.policy, len(made.subtasks)) == (SPEC.name, 'chat:m', 1)
        assert len(policy.complete(SPEC, made, [exemplar], 1).subtasks) == 2
        for seed in (2, 3):
            with pytest.raises(ModelBadReply):
                policy.generate(SPEC, [], seed)
        client.close()
    sent = [r['messages'][1]['content'] for r in server.requests]
    assert Counter('# Begun' in text for text in sent) == {False: 3, True: 1}
    assert 'A similar task that was done' in sent[0]
    assert 'A similar task that was done' not in sent[2]


def test_a_prompt_has_the_tree_the_functions_and_not_the_family():
    spec = spec_of('mixer', 0, 0)
    text = solution_prompt(spec, ())
    for part in ('joint mixer_fader_joint: slide from 0 to 1', 'starts at 0 of its range',
                 'get_bounding_box_link', 'grasp_object_link(self', spec.description):
        assert part in text
    assert 'family' not in text
