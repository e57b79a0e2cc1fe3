"""The verifier, its baselines and the metrics."""

import json
from dataclasses import replace

import numpy as np
import pytest
from http_server import ChatServer, said
from scipy.optimize import check_grad
from skill_worlds import StructuralExecutor, all_specs, spec_of

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.skills.base import Solution, Subtask, SubtaskKind
from arena_robot.skills.baselines import (
    ModelJudge,
    RuleScorer,
    StrongRuleScorer,
    broken_rules,
    doubts,
)
from arena_robot.skills.code_facts import facts_of
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.labelling import LabelSettings, label_task
from arena_robot.skills.metrics import (
    TaskScores,
    auc,
    best_of,
    calibration,
    difference,
    filtered,
    mean_success,
    oracle_best,
    over_tasks,
)
from arena_robot.skills.prefix_features import meaning
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS
from arena_robot.skills.subtask_lines import expand, parse_lines
from arena_robot.skills.verifier import (
    STRATEGIES,
    TrainingSettings,
    focal,
    read_verifier,
    score,
    strategy,
    train_verifier,
    write_verifier,
)

SPEC = spec_of('drawer', 0, 0)


@pytest.fixture(scope='module')
def labelled():
    settings = LabelSettings(bases=6, completions=1)
    return [label_task(spec, StructuredGenerator(), StructuralExecutor(), (), settings)
            for spec in all_specs()]


def rows(scorer, tasks):
    return [TaskScores(task.spec.name, np.array([float(t.execution.success) for t in task.tried]),
                       np.array([score(scorer, task.spec, t.solution) for t in task.tried]))
            for task in tasks]


@pytest.mark.parametrize('name', list(SKILL_TASKS))
def test_the_strong_rule_has_no_doubt_of_a_reference_solution(name):
    task = SKILL_TASKS[name]
    assert StrongRuleScorer().prefixes(task.spec, reference_solution(task)).min() == 1.0


@pytest.mark.parametrize(('old', 'new', 'words'), [
    ('(low + 1 * ', '(low + 0.02 * ', 'stands at the goal'),
    ('"Drawer", "slide"', '"Dimmer", "slide"', 'another joint'),
    ('diff < 0.225', 'diff < 0.01', 'tight')])
def test_doubts_of_a_motion(old, new, words):
    task = SKILL_TASKS['Open Drawer']
    grasp, pull, _ = reference_solution(task).subtasks
    assert old in pull.code
    facts = facts_of(replace(pull, code=pull.code.replace(old, new)), task.spec.objects)
    held = facts_of(grasp, task.spec.objects).names('grasp_object_link')
    assert words in '; '.join(doubts(task.spec, facts, held))
    assert 'something else is held' in doubts(task.spec, facts, [('Cube',)])


def test_a_pull_to_the_upper_limit_needs_a_grasp():
    task = SKILL_TASKS['Open Drawer']
    facts = facts_of(reference_solution(task).subtasks[1], task.spec.objects)
    assert doubts(task.spec, facts, []) == ['a pull without a grasp']
    assert doubts(task.spec, facts, [('Drawer', 'handle')]) == []


def test_on_other_tasks_the_verifier_beats_chance_rules_and_permuted_labels(labelled):
    train = [task for k, task in enumerate(labelled) if k % 4]
    test = labelled[::4]
    scored = {name: rows(scorer, test) for name, scorer in {
        'verifier': train_verifier(train, TrainingSettings(ridge=3.0)),
        'name': train_verifier(train, TrainingSettings(ridge=3.0, sees='name')),
        'rule': RuleScorer()}.items()}
    scored['permuted'] = [row for seed in range(3) for row in rows(train_verifier(
        train, TrainingSettings(ridge=3.0, permuted=True, seed=seed)), test)]
    within = {name: over_tasks(scores_of, auc).value for name, scores_of in scored.items()}
    best = {name: over_tasks(scores_of, best_of).value for name, scores_of in scored.items()}
    assert within['verifier'] > 0.7
    assert within['verifier'] > within['rule']
    assert within['permuted'] < 0.65
    assert within['name'] == 0.5
    assert best['verifier'] > best['name'] + 0.2
    assert best['name'] == pytest.approx(over_tasks(scored['name'], mean_success).value)


def test_a_verifier_is_read_as_it_was_written(labelled, tmp_path):
    model = train_verifier(labelled[:8], TrainingSettings(ridge=3.0, soft=True), 'grammar-1')
    path = tmp_path / 'v.json'
    write_verifier(path, model)
    again = read_verifier(path)
    task = labelled[9]
    for t in task.tried:
        assert again.prefixes(task.spec, t.solution) == pytest.approx(
            model.prefixes(task.spec, t.solution), abs=1e-4)
    assert again.card == model.card
    assert again.card.good < again.card.prefixes
    with pytest.raises(ConfigError, match='cannot read'):
        read_verifier(tmp_path / 'none.json')
    path.write_text('{}')
    with pytest.raises(DataError, match='no verifier'):
        read_verifier(path)


def test_one_label_alone_cannot_be_learned(labelled):
    with pytest.raises(DataError, match='one label only'):
        train_verifier([])


@pytest.mark.parametrize('gamma', [0.0, 2.0])
def test_the_derivative_of_the_focal_loss(gamma):
    y = np.array([0.0, 1.0, 0.3, 1.0])
    z = np.array([-1.5, 0.2, 3.0, -4.0])
    for good in (0.5, 0.2):
        assert check_grad(lambda v, s=good: focal(v, y, gamma, s)[0].sum(),
                          lambda v, s=good: focal(v, y, gamma, s)[1], z) < 1e-5
    if not gamma:
        q = 1 / (1 + np.exp(-z))
        assert focal(z, y, 0.0)[0] == pytest.approx(-y * np.log(q) - (1 - y) * np.log(1 - q))


def test_what_left_means_is_learned_from_every_verb():
    from_slider = meaning(spec_of('mixer', 0, 1), plan(spec_of('mixer', 0, 1)), 1)
    assert 'left: goal lower' in from_slider
    assert 'slide left: goal lower' in from_slider
    assert not any('mixer fader' in name for name in from_slider)


def plan(spec):
    line = f'joint {spec.family} {spec.family}_fader_joint lower 0.1'
    return Solution(spec.name, {}, (expand(parse_lines(line)[0], spec),))


def test_strategies():
    p = np.array([0.9, 0.4, 0.6])
    assert {name: round(of(p), 4) for name, of in STRATEGIES.items()} == {
        'last': 0.6, 'mean': 0.6333, 'min': 0.4, 'max': 0.9,
        'product': round(float((0.9 * 0.4 * 0.6) ** (1 / 3)), 4)}
    with pytest.raises(ConfigError, match=r"no strategy 'lost'.*last"):
        strategy('lost')


def subtask(line):
    return expand(parse_lines(line)[0], SPEC)


@pytest.mark.parametrize(('one', 'told'), [
    (subtask('joint drawer drawer_tray_joint upper 0.3'), []),
    (subtask('grasp drawer drawer_tray'), []),
    (subtask('joint drawer drawer_tray_joint lower 0.9'), ['the tolerance is lax']),
    (subtask('grasp drawer handle_7'), ['drawer has no handle_7']),
    (Subtask('x', SubtaskKind.PRIMITIVE, 'open("f")'),
     ["it cannot run: line 1: a call of 'open' is not allowed"]),
    (Subtask('x', SubtaskKind.PRIMITIVE, 'success = True'), ['no primitive']),
    (Subtask('x', SubtaskKind.REWARD, 'success = True'),
     ['it cannot run: reward code is one function, _compute_reward']),
    (Subtask('x', SubtaskKind.REWARD, 'def _compute_reward(self):\n    return 0, True\n'),
     ['nothing bounds the success'])])
def test_rules(one, told):
    broken = broken_rules(SPEC, one)
    assert list(dict.fromkeys(broken)) == told
    assert RuleScorer().prefixes(SPEC, Solution(SPEC.name, {}, (one, one))) == pytest.approx(
        [0.5 ** len(broken), 0.25 ** len(broken)])


def test_a_model_judges_each_subtask():
    answers = ['{"score": 1}', '{"score": 0.0}', 'well', 'well', 'well']
    with ChatServer(lambda r: said(answers.pop(0))) as server:
        client = ChatClient(ChatSettings(base_url=server.url, model='m'))
        judge = ModelJudge(client)
        line = subtask('grasp drawer drawer_tray')
        prefixes = judge.prefixes(SPEC, Solution(SPEC.name, {}, (line,) * 3))
        client.close()
    assert prefixes.tolist() == [1.0, 0.0, 0.5]
    assert judge.malformed == 1
    assert 'grasp_object_link(self' in server.requests[0]['messages'][0]['content']


def scores(success, given, task='t'):
    return TaskScores(task, np.array(success, float), np.array(given, float))


def test_metrics_by_hand():
    mixed = scores([1, 0, 1, 0], [0.9, 0.9, 0.2, 0.1])
    other = scores([0, 0], [0.6, 0.4], 'u')
    assert (mean_success(mixed), best_of(mixed)) == (0.5, 0.5)
    assert (oracle_best(mixed), auc(mixed)) == (1.0, 0.625)
    many = scores([0] * 8 + [1] * 8, range(16))
    assert (mean_success(many), best_of(many), oracle_best(many)) == (0.5, 0.5, 0.5)
    assert np.isnan(auc(other))
    assert over_tasks([mixed, other], auc).value == 0.625
    mean = over_tasks([mixed, other], mean_success)
    assert (mean.value, mean.low, mean.high) == (0.25, 0.0, 0.5)
    precision, coverage = filtered([mixed, other])
    assert (precision.value, coverage.value) == (1 / 3, 0.5)
    assert difference([mixed, other], best_of, [other, mixed], oracle_best).value == -0.25
    assert calibration([other], 2) == [{'score': 0.4, 'success': 0.0, 'count': 1},
                                       {'score': 0.6, 'success': 0.0, 'count': 1}]
    nothing = filtered([scores([1, 0], [0.1, 0.1])])[0]
    assert json.dumps(nothing.as_json()) == '[null, null, null]'
