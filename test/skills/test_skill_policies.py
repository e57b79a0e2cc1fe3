"""Task specifications, policy models that write solutions, and the pool of exemplars."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from http_server import ChatServer, said
from skill_worlds import StructuralExecutor, all_specs, spec_of
from task_folders import write_task_folder

from arena_robot.core.errors import ConfigError, DataError, ModelBadReply
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.skills.base import (
    SkillActionSpace,
    SkillJoint,
    SkillLink,
    SkillObject,
    Solution,
    Subtask,
    SubtaskKind,
    to_json,
)
from arena_robot.skills.code_facts import MadeUpScene, facts_of
from arena_robot.skills.confined.code import PrimitiveCode, RewardCode
from arena_robot.skills.embedding import HashedNgrams, cosines
from arena_robot.skills.generator import ErrorRates, StructuredGenerator
from arena_robot.skills.policies import ChatPolicy
from arena_robot.skills.pool import ExemplarPool, read_pool, write_pool
from arena_robot.skills.prompts import solution_prompt
from arena_robot.skills.rewriting import rewritten
from arena_robot.skills.robogen import read_task_folder
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import (
    SKILL_TASKS,
    find_task,
    read_solution,
    slug,
    write_solution,
)
from arena_robot.skills.specs.tasks import JointGoal, PressGoal
from arena_robot.skills.subtask_lines import expand, parse_lines

NO_ERRORS = ErrorRates(0, 0, 0, 0, 0, 0, 0)
SPEC = spec_of('drawer', 0, 0)
PLAN = 'grasp drawer drawer_tray\njoint drawer drawer_tray_joint upper 0.3\nrelease'
PAPER = {'Change Fan Direction': 'Change Lamp Direction', 'Open Pot Lid': 'Remove Pot Lid',
         'Adjust Display Angle': 'Tilt Display Screen'}


def rate(generator, exemplars=(), draws=12):
    executor = StructuralExecutor()
    ends = [executor.execute(spec, generator.generate(spec, exemplars, seed), 0).success
            for spec in all_specs(1) for seed in range(draws)]
    return sum(ends) / len(ends)


def test_a_seed_decides_and_declared_errors_cost_success():
    generator = StructuredGenerator()
    assert generator.generate(SPEC, (), 5) == StructuredGenerator().generate(SPEC, (), 5)
    assert len({generator.generate(SPEC, (), seed) .subtasks for seed in range(20)}) > 5
    wrong = rate(StructuredGenerator(ErrorRates(1, 0, 0, 0, 0, 0, 0)), draws=5)
    assert wrong < 0.1 < rate(generator) < rate(StructuredGenerator(NO_ERRORS)) - 0.2
    with pytest.raises(ConfigError):
        ErrorRates(direction=1.5)


def test_an_exemplar_of_a_similar_task_helps_more_than_one_of_another():
    near, far = spec_of('drawer', 1, 0), spec_of('lamp', 0, 1)
    good = {spec.name: StructuredGenerator(NO_ERRORS).generate(spec, (), 1)
            for spec in (near, far)}
    successes, lengths = {}, {}
    for spec in (near, far):
        solutions = [StructuredGenerator().generate(SPEC, [(spec, good[spec.name])], seed)
                     for seed in range(80)]
        successes[spec.name] = sum(StructuralExecutor().execute(SPEC, solution, 0).success
                                   for solution in solutions)
        lengths[spec.name] = sum(len(solution.subtasks) for solution in solutions)
    assert successes[near.name] > successes[far.name]
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
    assert [subtask.kind for subtask in subtasks] == [SubtaskKind.PRIMITIVE, SubtaskKind.REWARD,
                                                      SubtaskKind.PRIMITIVE]
    assert '\n'.join(step.text() for step in parse_lines(PLAN)) == PLAN
    facts = facts_of(subtasks[1], SPEC.objects)
    assert (facts.about, facts.of, facts.goal, facts.tolerance) == (
        'joint', ('drawer', 'drawer_tray_joint'), 'upper', 0.3)
    assert facts.names('get_link_state') == [('drawer', 'drawer_tray')]
    half = facts_of(expand(parse_lines('joint drawer drawer_tray_joint 0.5 0.1')[0], SPEC),
                    SPEC.objects)
    assert (half.goal, half.share) == ('middle', 0.5)


@pytest.mark.parametrize('text', ['', 'fly drawer', 'grasp', 'joint a b upper 7', 'move a b x',
                                  'joint a b sideways 0.1', 'release\n' * 13])
def test_lines_that_do_not_fit_are_bad_replies(text):
    with pytest.raises(ModelBadReply):
        parse_lines(text)


def reward(body):
    lines = ''.join(f'    {line}\n' for line in [*body.split('\n'), 'return reward, success'])
    return Subtask('x', SubtaskKind.REWARD, f'def _compute_reward(self):\n{lines}')


@pytest.mark.parametrize(('body', 'goal', 'tolerance'), [
    ('hi = get_joint_limit(self, "o", "j")[1]\nd = np.abs(a - hi)\nreward = -d\n'
     'success = d < 0.15 * 2.0', 'upper', 0.15),
    ('lims = get_joint_limit(self, "o", "j")\nsuccess = abs(a - lims[0]) <= 0.2\nreward = 0',
     'lower', 0.1),
    ('l, h = get_joint_limit(self, "o", "j")\nreward = a\nsuccess = a > h - 0.1 * (h - l)',
     'upper', 0.1),
    ('l, h = get_joint_limit(self, "o", "j")\nreward = a\n'
     'if (a - l) / (h - l) < 0.97:\n    success = False\nelse:\n    success = True',
     'upper', 0.03),
    ('reward = -abs(a - 1.5)\nsuccess = abs(a - 1.5) < 0.3', 'middle', 0.15)])
def test_a_goal_is_found_in_whatever_way_it_is_written(body, goal, tolerance):
    hinge = SkillObject('o', 'box', (SkillLink('base'), SkillLink('lid', 'base')),
                        (SkillJoint('j', 'hinge', 0.5, 2.5, 'lid'),))
    facts = facts_of(reward('a = get_joint_state(self, "o", "j")\n' + body), (hinge,))
    assert (facts.about, facts.of, facts.goal) == ('joint', ('o', 'j'), goal)
    assert facts.tolerance == pytest.approx(tolerance, abs=2e-3)
    assert facts.share == (0.5 if goal == 'middle' else 0.0)


@pytest.mark.parametrize(('body', 'about', 'of', 'tolerance'), [
    ('d = np.linalg.norm(get_eef_pos(self)[0] - get_position(self, "cube"))\nreward = -d\n'
     'success = d < 0.07', 'gripper', ('cube',), 0.07),
    ('z = get_position(self, "cube")[2]\nreward = z\nsuccess = z > 0.12', 'place', ('cube',),
     0.12),
    ('low, high = get_bounding_box(self, "mark")\nreward = 0\n'
     'success = in_bbox(self, get_position(self, "cube"), low, high)', 'place', ('mark',), 0.05),
    ('reward = 0\nsuccess = 1 > 0', '', (), None)])
def test_what_a_success_depends_on_is_found(body, about, of, tolerance):
    facts = facts_of(reward(body), (SkillObject('cube', 'block', (SkillLink('cube'),)),))
    assert (facts.about, facts.of) == (about, of)
    assert facts.tolerance == (tolerance and pytest.approx(tolerance, abs=2e-3))


def test_code_that_cannot_run_says_why():
    assert 'no Python' in facts_of(Subtask('x', SubtaskKind.REWARD, 'def ('), ()).problem
    assert "'q' is not set" in facts_of(reward('reward = 0\nsuccess = q'), ()).problem


@pytest.mark.parametrize('name', list(SKILL_TASKS))
def test_another_spelling_answers_the_same_and_has_the_same_facts(name):
    task = SKILL_TASKS[name]
    solutions = [reference_solution(task), *(
        StructuredGenerator().generate(task.spec, (), seed) for seed in range(4))]
    changed = 0
    for seed, solution in enumerate(solutions):
        other = rewritten(solution, seed)
        for first, second in zip(solution.subtasks, other.subtasks, strict=True):
            changed += first.code != second.code
            assert facts_of(first, task.spec.objects) == facts_of(second, task.spec.objects)
            if first.kind is SubtaskKind.REWARD:
                answers(first, second, task.spec.objects)
    assert changed


def answers(first, second, objects):
    """Compare rewards and successes of two spellings in 20 states drawn at random."""
    rng = np.random.default_rng(1)
    scene = MadeUpScene(objects)
    RewardCode(first.code)(scene)
    for _ in range(20):
        scene.shares = {names: rng.random() for names in scene.joints}
        scene.places = {names: rng.normal(size=3) for names in scene.homes}
        scene.hand = rng.normal(size=3)
        (reward_1, done_1), (reward_2, done_2) = (
            RewardCode(step.code)(scene) for step in (first, second))
        assert reward_1 == pytest.approx(reward_2, abs=1e-9)
        assert done_1 == done_2


def reply(**more):
    subtask = {'name': 'grasp', 'kind': 'primitive', 'action_space': 'None',
               'code': 'success = True'}
    return {'objects': ['drawer'], 'subtasks': [subtask], **more}


def test_a_chat_model_writes_and_completes_and_malformed_answers_are_told():
    answers = [reply(), {'subtasks': reply()['subtasks']}, reply(subtasks=[]), 'no JSON']
    with ChatServer(lambda r: said(json.dumps(answers.pop(0)))) as server:
        client = ChatClient(ChatSettings(base_url=server.url, model='m'))
        policy = ChatPolicy(client)
        exemplar = (spec_of('box', 0, 0), StructuredGenerator().generate(spec_of('box', 0, 0),
                                                                         (), 0))
        solution = policy.generate(SPEC, [exemplar], 0)
        assert (solution.task, solution.policy, len(solution.subtasks)) == (SPEC.name, 'chat:m', 1)
        assert len(policy.complete(SPEC, solution, [exemplar], 1).subtasks) == 2
        for seed in (2, 3):
            with pytest.raises(ModelBadReply):
                policy.generate(SPEC, [], seed)
        client.close()
    sent = [r['messages'][1]['content'] for r in server.requests]
    assert Counter('# Begun' in text for text in sent) == {False: 3, True: 1}
    assert 'A similar task that was done' in sent[0]
    assert 'A similar task that was done' not in sent[2]


PAPER_REPLY = """\
The task can be decomposed into the following subtasks.

subtask 1: grasp the tray
```primitive
    rgbs, final_state = grasp_object_link(self, "drawer", "drawer_tray")
\tsuccess = check_grasped(self, "drawer", "drawer_tray")
```

subtask 2: pull the tray out
```reward
def _compute_reward(self):
    angle = get_joint_state(self, "drawer", "drawer_tray_joint")
    low, high = get_joint_limit(self, "drawer", "drawer_tray_joint")
    diff = np.abs(angle - high)
    success = diff < 0.1 * (high - low)
    return -diff, success
```
```action space
normalized-direct-translation
```
"""


def test_a_reply_in_the_form_of_the_paper_is_read():
    replies = [PAPER_REPLY, PAPER_REPLY.replace('subtask', 'substep'),
               PAPER_REPLY.replace('normalized-direct-translation', 'joint-velocity'),
               PAPER_REPLY.replace('```reward', '```motion').replace('```primitive', '```code')]
    with ChatServer(lambda r: said(replies.pop(0))) as server:
        policy = ChatPolicy(ChatClient(ChatSettings(server.url, 'm')))
        solutions = [policy.generate(SPEC, (), seed) for seed in range(2)]
        for seed in (2, 3):
            with pytest.raises(ModelBadReply):
                policy.generate(SPEC, (), seed)
        replies.append(PAPER_REPLY)
        assert len(policy.complete(SPEC, solutions[0], (), 4).subtasks) == 4
    assert solutions[0] == solutions[1]
    grasp, pull = solutions[0].subtasks
    assert solutions[0].scene['objects'] == ['drawer']
    assert (grasp.name, grasp.kind, grasp.action_space) == (
        'grasp the tray', SubtaskKind.PRIMITIVE, SkillActionSpace.NONE)
    assert PrimitiveCode(grasp.code)
    assert pull.action_space is SkillActionSpace.DIRECTION
    facts = facts_of(pull, SPEC.objects)
    assert (facts.of, facts.goal) == (('drawer', 'drawer_tray_joint'), 'upper')


def test_a_prompt_has_the_tree_the_functions_and_not_the_family():
    spec = spec_of('mixer', 0, 0)
    text = solution_prompt(spec, ())
    for part in ('joint mixer_fader_joint: slide from 0 to 1', 'starts at 0 of its range',
                 'get_bounding_box_link', 'grasp_object_link(self', spec.description):
        assert part in text
    assert 'family' not in text


def solved(spec, subtasks=None):
    solution = StructuredGenerator().generate(spec, (), 3)
    return Solution(solution.task, solution.scene, solution.subtasks[:subtasks], solution.policy)


def pool_of(specs):
    pool = ExemplarPool()
    for spec in specs:
        pool = pool.grown(spec, solved(spec), 'a test')
    return pool


def test_the_papers_first_neighbours_are_found():
    others = [*PAPER.values(), 'Open Toilet Lid', 'Rotate Laptop Screen', 'Rotate Fan Rotor']
    nearest = {name: others[int(np.argmax(cosines(name, others)))]
               for name in PAPER}
    assert nearest == PAPER


def test_rows_have_length_one_and_texts_without_words_none():
    rows = HashedNgrams(64).embed(['open the drawer', '…'])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1.0, 0.0])


def test_the_nearest_are_of_other_tasks_and_like_the_task():
    pool = pool_of(all_specs())
    spec = spec_of('drawer', 0, 0)
    near = pool.nearest(spec, 3)
    assert [exemplar.spec.family for exemplar, _ in near] == ['drawer'] * 3
    assert spec.name not in [exemplar.spec.name for exemplar, _ in near]
    assert [like for _, like in near] == sorted((like for _, like in near), reverse=True)
    assert pool.nearest(spec, 0) == []
    assert ExemplarPool().nearest(spec, 2) == []


def test_a_pool_keeps_the_shortest_solution_and_bars_test_tasks():
    spec, other = spec_of('box', 0, 0), spec_of('box', 0, 1)
    long = solved(spec)
    pool = ExemplarPool(barred=frozenset({other.name})).grown(spec, long)
    assert pool.grown(spec, solved(spec, 1)).exemplars[0].solution.subtasks == long.subtasks[:1]
    assert pool.grown(spec, solved(spec, 1)).grown(spec, long).exemplars[0].solution.subtasks \
        == long.subtasks[:1]
    with pytest.raises(DataError, match='kept for tests'):
        pool.grown(other, solved(other))
    with pytest.raises(DataError, match='is of'):
        pool.grown(spec, solved(other))
    smaller = pool.without([spec.name])
    assert smaller.exemplars == ()
    with pytest.raises(DataError):
        smaller.grown(spec, long)


def test_a_pool_is_read_as_it_was_written(tmp_path):
    pool = pool_of(all_specs(1)).without([spec_of('lamp', 0, 0).name])
    path = tmp_path / 'pool.json'
    write_pool(path, pool)
    assert read_pool(path) == pool
    assert [p.name for p in tmp_path.iterdir()] == ['pool.json']
    path.write_text(path.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(DataError, match='version 7'):
        read_pool(path)
    path.write_text('{"version": 1}')
    with pytest.raises(DataError, match='no exemplar pool'):
        read_pool(path)
    with pytest.raises(ConfigError, match='cannot read'):
        read_pool(tmp_path / 'none.json')


def test_there_are_enough_tasks_with_opposite_goals():
    families = Counter(task.spec.family for task in SKILL_TASKS.values())
    assert len(SKILL_TASKS) >= 36
    assert len(families) >= 12
    assert min(families.values()) >= 2
    for family in families:
        goals = {(goal.joint, goal.target > 0.5) for task in SKILL_TASKS.values()
                 for goal in task.goals
                 if task.spec.family == family and isinstance(goal, JointGoal)}
        joints = {joint for joint, _ in goals}
        assert all({(joint, True), (joint, False)} <= goals for joint in joints), family


@pytest.mark.parametrize('task', SKILL_TASKS.values(), ids=lambda task: slug(task.spec.name))
def test_names_of_a_task_belong_together(task):
    spec = task.spec
    links = {f'{thing.name}/{link.name}' for thing in spec.objects for link in thing.links}
    joints = {f'{thing.name}/{joint.name}' for thing in spec.objects for joint in thing.joints}
    assert joints == set(spec.initial)
    assert set(task.untouched) < joints | {''}
    for goal in task.goals:
        if isinstance(goal, JointGoal | PressGoal):
            key = f'{goal.object}/{goal.joint}'
            assert key in joints
            assert f'{goal.object}/{task.held[key]}' in links
    for thing in spec.objects:
        names = {link.name for link in thing.links}
        assert all(link.parent in names | {''} for link in thing.links)
        assert all(joint.link in names and joint.low < joint.high for joint in thing.joints)
    assert find_task(slug(spec.name)) is task
    for step in reference_solution(task).subtasks:
        (RewardCode if step.kind is SubtaskKind.REWARD else PrimitiveCode)(step.code)


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'open_drawer'"):
        find_task('open_draw')


def test_a_solution_survives_its_file(tmp_path):
    solution = reference_solution(find_task('open_drawer'))
    write_solution(tmp_path / 'a.json', solution)
    assert read_solution(tmp_path / 'a.json') == solution
    for text in ('[1]', '{', json.dumps(to_json(solution) | {'taks': 1})):
        (tmp_path / 'b.json').write_text(text)
        with pytest.raises(DataError, match=r'b\.json'):
            read_solution(tmp_path / 'b.json')


def test_a_task_folder_is_written_and_read(tmp_path):
    task = find_task('move_cube_to_left_mark')
    solution = reference_solution(task)
    twice = dataclasses.replace(
        solution, subtasks=(*solution.subtasks, *solution.subtasks[:1]), policy='me')
    write_task_folder(tmp_path / 'a', task.spec, twice)
    assert (tmp_path / 'a' / 'substep_types.txt').read_text() == (
        'primitive\nreward\nprimitive\nprimitive\n')
    assert read_task_folder(tmp_path / 'a', 'me') == twice


def test_a_folder_without_numbers_is_read(tmp_path):
    for name, text in {
            'open.yaml': '- use_table: true\n- name: Chair\n  type: urdf\n- joint_0: "0.5"\n'
                         '  set_joint_angle_object_name: Chair\n- task_name: Fold Chair\n',
            'substeps.txt': 'fold the seat\n', 'substep_types.txt': 'reward\n',
            'action_spaces.txt': 'delta-translation\n', 'fold_the_seat.py': 'code\n'}.items():
        (tmp_path / name).write_text(text)
    assert read_task_folder(tmp_path) == Solution(
        'Fold Chair', {'objects': ['Chair'], 'joints': {'Chair/joint_0': 0.5}},
        (Subtask('fold the seat', SubtaskKind.REWARD, 'code\n', SkillActionSpace.TRANSLATION),),
        'robogen')


@pytest.mark.parametrize(('name', 'text', 'found'), [
    ('config.yaml', 'a: 1', 'list of mappings'), ('config.yaml', '- a: 1', 'no task_name'),
    ('config.yaml', '[', 'no YAML'), ('substeps.txt', 'a\nb\n', 'as many'),
    ('substep_types.txt', 'primitive\nmagic\nprimitive\n', 'magic'),
    ('config.yaml', 'x' * 200_000, 'larger')])
def test_a_wrong_folder_is_a_data_error(tmp_path, name, text, found):
    task = find_task('open_drawer')
    write_task_folder(tmp_path, task.spec, reference_solution(task))
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=found):
        read_task_folder(tmp_path)
