"""The verbs `compare` and `study new`, `plan`, `check`, `report`."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / 'blind'))

from studies import cup_study, run_study

from arena_robot.blind.study import (
    DecisionRule,
    Design,
    StudyArm,
    Unit,
    load_study,
    study_hash,
    study_yaml,
)
from arena_robot.cli.main import main
from arena_robot.records.roboarena_files import read_tables

ANSWERS = ('cup in bowl\npi0=openpi://gpu1:8000 pi05=grpc://gpu2:8000\nput the cup into the bowl\n'
           'left, right\nthe cup stands in the bowl\n0.5 0.75\n')


def ask(capsys, *words):
    code = main([str(word) for word in words])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_two_counts_are_one_sentence_and_a_picture(capsys):
    code, out, _ = ask(capsys, 'compare', '17/20', '14/20')
    first, *picture = out.splitlines()
    assert code == 0
    assert first == ('A and B cannot be told apart: 17 of 20 against 14 of 20, difference −11 to '
                     '+39 points; a new comparison of 121 trials each would in 80% of cases, if '
                     'the difference is as observed.')
    assert [line.count('●') for line in picture] == [0, 1, 1, 1, 0, 0]
    assert '64 to 95 %' in picture[1]
    assert all(re.search(r' [·├─┤●│┼]{51} ', line) for line in picture[1:4])
    code, out, _ = ask(capsys, 'compare', '9/40', '31/40', '--arms', 'old,new')
    assert out.startswith('new is better than old: 31 of 40 against 9 of 40, difference +34 to')


def test_json_has_the_same_numbers(capsys):
    _, out, _ = ask(capsys, 'compare', '17/20', '14/20', '--json')
    values = json.loads(out)
    assert values['interval'] == pytest.approx([-0.11, 0.39], abs=0.005)
    assert (values['better'], values['trials_needed']) == (None, 121)
    _, out, _ = ask(capsys, 'compare', '5/10', '5/10', '--json')
    assert json.loads(out)['trials_needed'] is None


def lerobot(folder, successes, old=False):
    folder.mkdir()
    info = {'per_episode': [{'episode_ix': k, 'success': s} for k, s in enumerate(successes)]} \
        if old else {'per_task': [{'task_id': 0, 'metrics': {'successes': successes}}]}
    (folder / 'eval_info.json').write_text(json.dumps(info))
    return folder


def test_evaluations_of_lerobot_are_read(capsys, tmp_path):
    one = lerobot(tmp_path / 'pi0', [True] * 3 + [False] * 17, old=True)
    two = lerobot(tmp_path / 'pi05', [True] * 18 + [False] * 2)
    _, out, _ = ask(capsys, 'compare', one, two / 'eval_info.json', '--arms', 'x,y')
    assert out.startswith('y is better than x: 18 of 20 against 3 of 20')
    _, out, _ = ask(capsys, 'compare', one, two)
    assert out.startswith('pi05 is better than pi0')


def test_a_table_is_read(capsys, tmp_path):
    table = tmp_path / 't.csv'
    table.write_text('policy,binary_success\n' + 'pi0,0\n' * 9 + 'pi0,1\npi05,\n' + 'pi05,1\n' * 10
                     + 'other,yes\n')
    code, _, err = ask(capsys, 'compare', table)
    assert (code, 'name two of them with --arms' in err) == (2, True)
    code, out, _ = ask(capsys, 'compare', table, '--arms', 'pi0,pi05')
    assert (code, out.partition(':')[0]) == (0, 'pi05 is better than pi0')
    table.write_text('policy,binary_success\npi0,maybe\n')
    code, _, err = ask(capsys, 'compare', table)
    assert (code, "t.csv:2: binary_success is 'maybe'" in err) == (2, True)


@pytest.mark.parametrize(('words', 'expected'), [
    (('21/20', '3/20'), '21/20 are no counts'), (('0/0', '3/20'), '0/0 are no counts'),
    (('17/20',), 'cannot be read'), (('17-20', '3/20'), "'17-20' is neither"),
    (('1/2', '1/2', '1/2'), 'two policies'), (('1/2', '1/2', '--arms', 'a'), 'two policies'),
    (('1/2', '1/2', '--level', '2'), '0 < level < 0.5'), (('.', '1/2'), 'no eval_info.json')])
def test_wrong_input_says_what_is_wrong(words, expected, capsys):
    code, _, err = ask(capsys, 'compare', *words)
    assert code == 2
    assert expected in err


def test_counts_need_no_other_package_than_numpy_and_scipy():
    code = ("import sys\nfrom arena_robot.cli.main import main\nmain(['compare', '1/2', '2/2'])\n"
            "print(*{'matplotlib', 'jinja2', 'yaml', 'scipy.stats', 'scipy.optimize', 'cv2'} "
            '& set(sys.modules))')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60,
                          check=True)
    assert done.stdout.splitlines()[-1] == ''


def test_six_answers_make_a_study_that_is_large_enough(capsys, monkeypatch, tmp_path):
    path = tmp_path / 'study.yaml'
    monkeypatch.setattr('sys.stdin', io.StringIO(ANSWERS))
    code, out, err = ask(capsys, 'study', 'new', '--output', path)
    assert code == 0
    assert err.count('?') == 6
    study = load_study(path)
    assert [arm.address for arm in study.arms] == ['openpi://gpu1:8000', 'grpc://gpu2:8000']
    assert f'{study.blocks_per_contrast()} blocks' in out
    assert ask(capsys, 'study', 'check', path)[0] == 0
    monkeypatch.setattr('sys.stdin', io.StringIO(ANSWERS))
    code, _, err = ask(capsys, 'study', 'new', '--output', path)
    assert (code, 'exists already' in err) == (2, True)


@pytest.mark.parametrize(('answers', 'words'), [
    ('cup\n', "no answer to 'Which policies?"), (ANSWERS.replace('0.5 0.75', 'high'), 'no study'),
    (ANSWERS.replace('0.75', '0.51'), 'too close'), (ANSWERS.replace(' pi05=grpc://gpu2:8000', ''),
                                                     'found 1 and 2')])
def test_answers_that_make_no_study_write_nothing(answers, words, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr('sys.stdin', io.StringIO(answers))
    code, _, err = ask(capsys, 'study', 'new', '--output', tmp_path / 'study.yaml')
    assert (code, words in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_sequential_study_of_six_answers_reaches_its_power(capsys, monkeypatch, tmp_path):
    path = tmp_path / 'study.yaml'
    monkeypatch.setattr('sys.stdin', io.StringIO(ANSWERS))
    assert ask(capsys, 'study', 'new', '--output', path, '--sequential')[0] == 0
    assert ask(capsys, 'study', 'check', path)[0] == 0


def test_a_plan_has_both_rules(capsys, tmp_path):
    code, out, _ = ask(capsys, 'study', 'plan', '--rates', '0.5', '0.7', '--json')
    plan = json.loads(out)
    assert (code, plan['assumed']) == (0, [0.5, 0.7])
    assert 90 < plan['needed'] < 110
    assert plan['mean'] < plan['planned']
    path = tmp_path / 'study.yaml'
    path.write_text(study_yaml(cup_study(3)))
    _, out, _ = ask(capsys, 'study', 'plan', path)
    assert 'planned:    6 blocks' in out
    assert 'by evaluator' not in out
    path.write_text(study_yaml(cup_study(3, unit=Unit.EVALUATOR)))
    assert 'by evaluator more are needed' in ask(capsys, 'study', 'plan', path)[1]
    assert ask(capsys, 'study', 'plan', '--rates', '0.7', '0.5')[0] == 2


def test_a_study_of_several_policies_is_ranked(capsys, tmp_path):
    arms = tuple(map(StudyArm, ('pi0', 'pi05', 'fast')))
    study = cup_study(12, arms=arms, design=Design.ROUND_ROBIN)
    best = ('pi05', 'pi0', 'fast')
    folder = run_study(tmp_path / 'cup', study, lambda arm, block: arm != 'fast',
                       prefer=lambda a, b: 'A' if best.index(a) < best.index(b) else 'B',
                       evaluator=lambda block: f'e{block % 9}')
    assert ask(capsys, 'study', 'report', folder, '--tables', tmp_path / 'tables')[0] == 0
    _, out, _ = ask(capsys, 'rank', '--sessions', tmp_path / 'tables' / 'sessions.csv',
                    '--episodes', tmp_path / 'tables' / 'episodes.csv', '--json')
    rows = json.loads(out)['standings']
    assert [row['policy'] for row in rows] == list(best)
    assert [row['n'] for row in rows] == [48, 48, 48]
    [first, *_] = read_tables(tmp_path / 'tables' / 'sessions.csv',
                              tmp_path / 'tables' / 'episodes.csv').sessions
    assert (first.origin, first.chosen, first.prompt) == ('local', False,
                                                          'put the cup into the bowl')
    assert {r.success for r in first.rollouts} <= {True, False}


def test_the_page_has_what_is_printed_and_the_keys_of_the_file(capsys):
    page = (Path(__file__).parents[2] / 'docs' / 'blind.md').read_text(encoding='utf-8')
    assert ask(capsys, 'compare', '17/20', '14/20')[1].splitlines()[0] in page
    assert ask(capsys, 'study', 'plan', '--rates', '0.5', '0.75')[1] in page
    tables = page.split('## Declare a study')[1].split('## How many')[0]
    keys = re.findall(r'^\| (`.+?) \|', tables, re.MULTILINE)[1:]
    named = [name for key in keys for name in re.findall('`(.+?)`', key)]
    assert set(named) == {design.value for design in Design} | {
        field.name for field in dataclasses.fields(DecisionRule)} | {'decision'}


def test_a_study_that_is_too_small_or_changed_is_told(capsys, tmp_path):
    path = tmp_path / 'study.yaml'
    path.write_text(study_yaml(cup_study(3)))
    code, out, _ = ask(capsys, 'study', 'check', path)
    assert (code, '80% are asked for' in out) == (1, True)
    assert f'sha256: {study_hash(cup_study(3))}' in out
    folder = run_study(tmp_path / 'cup', cup_study(40), lambda *_: True)
    path.write_text(study_yaml(cup_study(41)))
    code, out, _ = ask(capsys, 'study', 'check', path, '--folder', folder, '--json')
    [problem] = json.loads(out)['problems']
    assert (code, 'this file is a new version' in problem) == (1, True)


def test_a_study_is_reported_by_both_verbs(capsys, tmp_path):
    folder = run_study(tmp_path / 'cup', cup_study(10), lambda arm, block: arm == 'pi05')
    code, out, _ = ask(capsys, 'study', 'report', folder)
    assert code == 0
    assert out.startswith('pi05 is better than pi0 at *cup in bowl*: 20 of 20 against 0 of 20')
    assert '<em>cup in bowl</em>: 20 of 20' in (folder / 'report.html').read_text()
    _, again, _ = ask(capsys, 'compare', folder)
    assert again.splitlines() == out.splitlines()[:1]
    _, out, _ = ask(capsys, 'study', 'report', folder, '--json', '--output', tmp_path / 'r.html')
    assert json.loads(out)['page'] == str(tmp_path / 'r.html')
    blind = run_study(tmp_path / 'blind', cup_study(1), lambda *_: True, reveal=False)
    code, _, err = ask(capsys, 'study', 'report', blind)
    assert (code, 'still blind' in err) == (2, True)
