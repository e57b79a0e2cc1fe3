"""The `arena sim …` verbs."""

import cv2
import pytest

from arena_robot.cli.main import main
from arena_robot.drivers.sim.tasks import TASKS


def test_tasks_are_listed_with_their_wordings(capsys):
    assert main(['sim', 'tasks']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TASKS.built_in)
    assert main(['sim', 'tasks', '--wordings']) == 0
    assert 'set the mug down on the plate' in capsys.readouterr().out


def test_the_experts_table_counts_successes(capsys):
    assert main(['sim', 'expert', '--tasks', 'press_button,lift_cube', '--seeds', '1']) == 0
    out = capsys.readouterr().out
    assert 'press_button      1/1' in out
    assert '100.0%' in out


def test_too_few_successes_fail(capsys):
    assert main(['sim', 'expert', '--tasks', 'do_not_move', '--seeds', '1', '--at-least',
                 '1.1']) == 1
    capsys.readouterr()


def test_a_wrong_task_names_the_nearest(capsys):
    assert main(['sim', 'expert', '--tasks', 'lift_cubes']) == 2
    assert "Did you mean 'lift_cube'" in capsys.readouterr().err


def test_the_contact_sheet_has_a_strip_for_each_task(tmp_path, capsys):
    out = tmp_path / 'sheet.png'
    assert main(['sim', 'contact-sheet', str(out), '--tasks', 'lift_cube,press_button',
                 '--width', '64', '--plain']) == 0
    assert '2 tasks' in capsys.readouterr().out
    height, width, _ = cv2.imread(str(out)).shape
    assert width == 2 * (3 * (64 + 6) + 6)
    assert height > 36 + 30


@pytest.mark.parametrize('name', ['sheet.txt', 'missing/sheet.png'])
def test_a_picture_that_cannot_be_written_says_why(tmp_path, capsys, name):
    assert main(['sim', 'contact-sheet', str(tmp_path / name), '--tasks', 'do_not_move',
                 '--width', '64', '--plain']) == 2
    assert 'cannot write' in capsys.readouterr().err
