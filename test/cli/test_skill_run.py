"""`arena skill spec` and `arena skill run`."""

import json

from arena_robot.cli.main import main
from arena_robot.recording.episode.frames import read_video
from arena_robot.skills.robogen import write_task_folder
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS, find_task


def said(capsys, *words):
    code = main(['skill', *map(str, words)])
    return code, capsys.readouterr()


def test_tasks_are_listed_and_shown(capsys):
    code, out = said(capsys, 'spec')
    assert (code, len(out.out.splitlines())) == (0, len(SKILL_TASKS) + 1)
    assert len(json.loads(said(capsys, 'spec', '--json')[1].out)) == len(SKILL_TASKS)
    assert 'joint slide (slide) moves tray: 0 to 0.13 m' in said(capsys, 'spec',
                                                                 'open_drawer')[1].out
    spec = json.loads(said(capsys, 'spec', 'open_drawer', '--json')[1].out)
    assert spec['objects'][0]['joints'][0]['link'] == 'tray'
    code, out = said(capsys, 'spec', 'opn_drawer')
    assert (code, "did you mean 'open_drawer'" in out.err) == (2, True)
    assert said(capsys, 'spec', '--reference')[0] == 2


def test_a_solution_is_run_and_filmed(capsys, tmp_path):
    path = tmp_path / 'drawer.json'
    path.write_text(said(capsys, 'spec', 'turn_on_left_lamp', '--reference')[1].out)
    code, out = said(capsys, 'run', 'turn_on_left_lamp', '--solution', path, '--video',
                     tmp_path / 'lamp.mp4', '--json')
    found = json.loads(out.out)
    assert (code, found['success'], len(found['results'])) == (0, True, 1)
    frames = sum(1 for _ in read_video(tmp_path / 'lamp.mp4'))
    assert 10 < frames <= found['results'][0]['sim_steps'] + 10
    assert said(capsys, 'run', 'open_drawer', '--solution', path)[0] == 2


def test_a_folder_that_fails_says_why(capsys, tmp_path):
    task = find_task('open_drawer')
    write_task_folder(tmp_path / 'task', task.spec, reference_solution(task))
    (tmp_path / 'task' / '00_grasp_the_handle.py').write_text('import os\n')
    code, out = said(capsys, 'run', 'open_drawer', '--solution', tmp_path / 'task')
    assert code == 1
    assert 'failed grasp the handle' in out.out
    assert '2 subtasks were not run' in out.out
    assert 'claimed: no; oracle: no' in out.out
