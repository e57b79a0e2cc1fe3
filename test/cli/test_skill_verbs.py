"""The verbs of `arena skill`, from a specification to a labelled and verified solution."""

import json
import re
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
