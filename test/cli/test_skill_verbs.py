"""The verbs of `arena skill`, from a specification to a labelled and verified solution."""

import json
import re
import time
from html import escape

import pytest
from http_server import ChatServer
from http_server import said as answered
from skill_worlds import StructuralExecutor
from task_folders import write_task_folder

from arena_robot.cli.main import main
from arena_robot.recording.episode.frames import read_video
from arena_robot.skills.dataset import LabelMakers, Provenance, make_dataset
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.labelling import LabelSettings
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS, find_task

NAMES = ('Open Drawer', 'Close Drawer', 'Open Window', 'Close Window', 'Open Door', 'Close Door')


@pytest.fixture(scope='module')
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp('skills') / 'skills.jsonl'
    specs = [SKILL_TASKS[name].spec for name in NAMES]
    settings = LabelSettings(bases=5, completions=1)
    make_dataset(path, specs, Provenance('grammar-1', 'structure', settings, 3, NAMES),
                 LabelMakers(StructuredGenerator, StructuralExecutor, settings))
    return path


def said(capsys, *words):
    code = main(['skill', *map(str, words)])
    return code, capsys.readouterr().out


def test_solutions_are_written_and_scored(dataset, tmp_path, capsys):
    pool, model = tmp_path / 'pool.json', tmp_path / 'verifier.json'
    code, out = said(capsys, 'pool', pool, '--grow', dataset, '--bar', 'open_drawer', '--json')
    answer = json.loads(out)
    assert (code, answer['barred']) == (0, ['Open Drawer'])
    assert 'Open Drawer' not in [exemplar['task'] for exemplar in answer['exemplars']]
    code, out = said(capsys, 'pool', pool, '--like', 'open_drawer')
    assert out.count('likeness') == 2
    code, out = said(capsys, 'generate', 'open_drawer', '--count', '3', '--pool', pool, '--out',
                     tmp_path / 'made', '--json')
    made = json.loads(out)
    assert (code, len(made['solutions']), len(made['exemplars'])) == (0, 3, 2)
    files = sorted((tmp_path / 'made').iterdir())
    code, out = said(capsys, 'train', dataset, '--out', model, '--without', 'open_drawer',
                     '--json')
    assert (code, len(json.loads(out)['tasks'])) == (0, len(NAMES) - 1)
    code, out = said(capsys, 'verify', model, *files, '--json', '--threshold', '0')
    rows = json.loads(out)['solutions']
    assert code == 0
    assert [len(row['prefixes']) for row in rows] == [
        len(solution['subtasks']) for solution in made['solutions']]
    assert any(row['best'] for row in rows)
    assert said(capsys, 'verify', 'rule', *files, '--threshold', '1.1')[0] == 1


def test_a_dataset_is_shown_as_a_table_and_as_text(dataset, tmp_path, capsys):
    code, out = said(capsys, 'show', dataset)
    assert (code, out.count('succeed')) == (0, len(NAMES) + 1)
    code, out = said(capsys, 'show', dataset, 'open_window', '--code')
    assert code == 0
    assert '_compute_reward' in out
    code, out = said(capsys, 'show', dataset, 'open_window', '--json')
    rows = json.loads(out)
    assert {step['good'] for row in rows for step in row['subtasks']} <= {True, False}
    assert all(step['good'] for row in rows if row['success'] for step in row['subtasks'])
    assert main(['skill', 'show', str(dataset), 'close_box_lid']) == 2
    assert 'has nothing of Close Box Lid' in capsys.readouterr().err


def test_label_executes_on_the_simulated_station_and_goes_on(tmp_path, capsys):
    path = tmp_path / 'made.jsonl'
    words = ('label', path, '--tasks', 'close_window', '--bases', '2', '--completions', '0')
    code, out = said(capsys, *words, '--json')
    report = json.loads(out)
    assert (code, report['tasks'], report['solutions'], report['malformed']) == (0, 1, 2, 0)
    first = path.read_bytes()
    assert said(capsys, *words)[0] == 0
    assert path.read_bytes() == first
    code, out = said(capsys, 'show', path, 'close_window', '--page', tmp_path / 'page', '--json')
    page = (tmp_path / 'page' / 'index.html').read_text()
    films = re.findall(r'<video[^>]* src="([^"]+)" aria-label="Video of solution', page)
    assert code == 0
    assert all(sum(1 for _ in read_video(tmp_path / 'page' / film)) > 10 for film in films)
    assert 1 <= len(films) == page.count('<video')
    for row in json.loads(out):
        assert all(escape(step['name']) in page for step in row['subtasks'])
    assert (page.count('<h1'), page.count('<h2')) == (1, 2)
    assert 'ended in another way' not in page
    assert said(capsys, 'show', path, '--page', tmp_path / 'page')[0] == 2
    assert main(['skill', 'label', str(path), '--tasks', 'open_window']) == 2
    assert 'other tasks or settings' in capsys.readouterr().err


def test_a_chat_model_writes_and_what_cannot_be_read_is_counted(monkeypatch, capsys):
    grasp = {'name': 'grasp', 'kind': 'primitive', 'action_space': 'None', 'code':
             'rgbs, final_state = grasp_object(self, "Drawer")\nsuccess = True'}
    answers = ['I cannot', json.dumps({'objects': ['Drawer'], 'subtasks': [grasp]})]
    with ChatServer(lambda r: answered(answers.pop())) as server:
        monkeypatch.setenv('ARENA_MODEL_URL', server.url)
        monkeypatch.setenv('ARENA_MODEL', 'm')
        code, out = said(capsys, 'generate', 'open_drawer', '--policy', 'chat', '--count', '2',
                         '--json')
    answer = json.loads(out)
    assert (code, answer['policy'], answer['malformed']) == (0, 'chat:m', 1)
    assert [solution['policy'] for solution in answer['solutions']] == ['chat:m']


GOOD_TASK = {'name': 'Pull Drawer Half Out', 'description': 'The robot arm pulls the drawer',
             'object': 'Drawer', 'joint': 'slide', 'target': 0.5, 'starts': []}


def proposed(monkeypatch, capsys, replies, *words, scene='open_drawer'):
    with ChatServer(lambda r: answered(json.dumps({'tasks': replies.pop(0)}))) as server:
        monkeypatch.setenv('ARENA_MODEL_URL', server.url)
        monkeypatch.setenv('ARENA_MODEL', 'm')
        code, out = said(capsys, 'propose', scene, *words, '--json')
    return code, json.loads(out), [r['messages'][1]['content'] for r in server.requests]


@pytest.mark.parametrize(('wrong', 'reason'), [
    ({'object': 'Fridge'}, "no object 'Fridge'; it has Drawer"),
    ({'joint': 'hinge'}, "no joint 'Drawer/hinge'; it has Drawer/slide"),
    ({'starts': [{'joint': 'Lamp/knob', 'start': 0.5}]}, "no joint 'Lamp/knob'"),
    ({'target': 0.1}, 'starts at 0, where the goal 0.1 holds already'),
    ({'target': 1.2}, "1.2 is beyond the limits of 'Drawer/slide'"),
    ({'starts': [{'joint': 'Dimmer/slide', 'start': -1}]}, '-1 is beyond the limits'),
    ({'name': 'Open Drawer'}, 'is the name of another task'),
    ({'name': '../drawer'}, 'letters, digits and spaces')])
def test_a_proposal_that_the_scene_does_not_allow_is_refused(wrong, reason, monkeypatch, capsys):
    row = {**GOOD_TASK, **wrong}
    code, answer, asked = proposed(monkeypatch, capsys, [[row], [row]])
    assert (code, answer['tasks']) == (1, [])
    assert [reason in refused['reason'] for refused in answer['refused']] == [True, True]
    assert [reason in text for text in asked] == [False, True]


def test_the_simulator_refuses_a_proposal_whose_start_does_not_last(monkeypatch, capsys):
    press = {**GOOD_TASK, 'object': 'Dishwasher', 'joint': 'start', 'target': 0.0}
    pressed = {**GOOD_TASK, 'object': 'Dimmer', 'target': 1.0,
               'starts': [{'joint': 'Dishwasher/stop', 'start': 0.2}]}
    code, answer, _ = proposed(monkeypatch, capsys, [[press], [pressed]],
                               scene='press_start_button')
    assert (code, answer['tasks']) == (1, [])
    first, second = (refused['reason'] for refused in answer['refused'])
    assert 'spring moves it back' in first
    assert "joint 'Dishwasher/stop' comes to rest at" in second


def test_a_proposed_task_is_shown_solved_and_run(tmp_path, monkeypatch, capsys):
    again = {**GOOD_TASK, 'name': 'Push Drawer In', 'target': 0.0,
             'starts': [{'joint': 'Drawer/slide', 'start': 0.7}]}
    absent = {**GOOD_TASK, 'name': 'Open Cube', 'object': 'Cube'}
    code, answer, asked = proposed(monkeypatch, capsys, [[GOOD_TASK, absent, GOOD_TASK], [again]],
                                   '--count', '2', '--out', tmp_path)
    assert (code, len(asked)) == (0, 2)
    assert [task['name'] for task in answer['tasks']] == ['Pull Drawer Half Out', 'Push Drawer In']
    assert "no joint 'Cube/slide'" in answer['refused'][0]['reason']
    assert answer['refused'][1]['reason'] == 'it was proposed already'
    task = tmp_path / 'push_drawer_in.json'
    assert json.loads(said(capsys, 'spec', task, '--json')[1])['initial']['Drawer/slide'] == 0.7
    assert said(capsys, 'generate', task, '--out', tmp_path / 'made')[0] == 0
    for name in ('pull_drawer_half_out', 'push_drawer_in'):
        code, out = said(capsys, 'run', tmp_path / f'{name}.json')
        assert (code, 'success: yes' in out) == (0, True)
    words = ('solve', task, '--verifier', 'strong_rule', '--seed', '1', '--out', tmp_path / 's')
    code, out = said(capsys, *words)
    assert code == 0, out
    assert main(['skill', 'export', str(task), '--out', str(tmp_path / 'x')]) == 2
    assert 'no skill task is named' in capsys.readouterr().err


def test_a_scene_that_fails_in_the_simulator_is_sent_back_once(tmp_path, monkeypatch, capsys):
    grasp = {'name': 'grasp', 'kind': 'primitive', 'action_space': 'None', 'code':
             'rgbs, final_state = grasp_object(self, "Drawer")\nsuccess = True'}

    task = tmp_path / 'half.json'
    task.write_text(json.dumps({**GOOD_TASK, 'scene': 'Open Drawer', 'starts': {}}))

    def reply(start):
        return json.dumps({'objects': ['Drawer'], 'subtasks': [grasp],
                           'joints': [{'joint': 'Drawer/slide', 'start': start}]})

    replies = [reply(0.4), reply(0.02), reply(0.4), reply(7), reply(0.02)]
    with ChatServer(lambda r: answered(replies.pop(0))) as server:
        monkeypatch.setenv('ARENA_MODEL_URL', server.url)
        monkeypatch.setenv('ARENA_MODEL', 'm')
        code, out = said(capsys, 'generate', 'open_drawer', '--policy', 'chat', '--count', '2',
                         '--json')
        assert said(capsys, 'generate', task, '--policy', 'chat')[0] == 0
    answer = json.loads(out)
    assert (code, answer['malformed'], len(answer['solutions'])) == (0, 1, 1)
    assert answer['solutions'][0]['scene']['joints']['Drawer/slide'] == 0.02
    reason = "joint 'Drawer/slide' comes to rest at 0.40 of its range, and starts at 0.00"
    assert [reason in request['messages'][1]['content'] for request in server.requests] == [
        False, True, False, True, False]


def test_timeout_and_most_tokens_reach_the_request(monkeypatch, capsys):
    wait_s = 0.6

    def answer(request):
        time.sleep(wait_s)
        return answered('no solution')

    with ChatServer(answer) as server:
        monkeypatch.setenv('ARENA_MODEL_URL', server.url)
        monkeypatch.setenv('ARENA_MODEL', 'm')
        chat = ('--policy', 'chat', '--max-tokens', '321', '--timeout')
        assert main(['skill', 'generate', 'open_drawer', *chat, '0.2']) != 0
        assert 'within 0.2 s' in capsys.readouterr().err
        wait_s = 0.0
        for verb in (('generate', 'open_drawer'), (
                'solve', 'open_drawer', '--verifier', 'rule', '--drafts', '1', '--runs', '1')):
            assert main(['skill', *verb, *chat, '20']) == 1
    assert {request['max_tokens'] for request in server.requests} == {321}


def test_a_task_is_solved_verified_and_joins_the_pool(tmp_path, capsys):
    pool, out = tmp_path / 'pool.json', tmp_path / 'window.json'
    code, told = said(capsys, 'solve', 'close_window', '--verifier', 'strong_rule',
                      '--threshold', '0.6', '--pool', pool, '--out', out, '--seed', '1', '--json')
    answer = json.loads(told)
    assert code == 0
    assert answer['runs'][-1]['success']
    assert answer['cost']['sim_steps'] == answer['runs'][-1]['sim_steps'] > 0
    assert said(capsys, 'run', 'close_window', '--solution', out, '--seed', '1')[0] == 0
    assert 'Close Window' in said(capsys, 'pool', pool)[1]
    code, told = said(capsys, 'solve', 'press_start_button', '--verifier', 'rule', '--threshold',
                      '1', '--runs', '1', '--drafts', '1', '--seed', '2')
    assert code in (0, 1)
    assert 'run 1: ' + ('succeeded' if code == 0 else 'failed') in told
    assert main(['skill', 'solve', 'close_window', '--verifier', 'rule', '--runs', '0']) == 2
    assert 'at least 1' in capsys.readouterr().err


def executed(capsys, *words):
    code = main(['skill', *map(str, words)])
    return code, capsys.readouterr()


def test_tasks_are_listed_and_shown(capsys):
    code, out = executed(capsys, 'spec')
    assert (code, len(out.out.splitlines())) == (0, len(SKILL_TASKS) + 1)
    assert len(json.loads(executed(capsys, 'spec', '--json')[1].out)) == len(SKILL_TASKS)
    assert 'joint slide (slide) moves tray: 0 to 0.13 m' in executed(capsys, 'spec',
                                                                 'open_drawer')[1].out
    spec = json.loads(executed(capsys, 'spec', 'open_drawer', '--json')[1].out)
    assert spec['objects'][0]['joints'][0]['link'] == 'tray'
    code, out = executed(capsys, 'spec', 'opn_drawer')
    assert (code, "Did you mean 'open_drawer'" in out.err) == (2, True)
    assert executed(capsys, 'spec', '--reference')[0] == 2


def test_a_solution_is_run_and_filmed(capsys, tmp_path):
    path = tmp_path / 'drawer.json'
    path.write_text(executed(capsys, 'spec', 'turn_on_left_lamp', '--reference')[1].out)
    code, out = executed(capsys, 'run', 'turn_on_left_lamp', '--solution', path, '--video',
                     tmp_path / 'lamp.mp4', '--json')
    result = json.loads(out.out)
    assert (code, result['success'], len(result['results'])) == (0, True, 1)
    frames = sum(1 for _ in read_video(tmp_path / 'lamp.mp4'))
    assert 10 < frames <= result['results'][0]['sim_steps'] + 10
    assert executed(capsys, 'run', 'open_drawer', '--solution', path)[0] == 2


def test_a_folder_that_fails_says_why(capsys, tmp_path):
    task = find_task('open_drawer')
    write_task_folder(tmp_path / 'task', task.spec, reference_solution(task))
    (tmp_path / 'task' / '00_grasp_the_handle.py').write_text('import os\n')
    code, out = executed(capsys, 'run', 'open_drawer', '--solution', tmp_path / 'task')
    assert code == 1
    assert 'failed grasp the handle' in out.out
    assert '2 subtasks were not run' in out.out
    assert 'claimed: no; oracle: no' in out.out
