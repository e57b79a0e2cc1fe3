"""The verbs `compare` and `study new`, `plan`, `check`, `report`, `send`."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / 'blind'))
sys.path.insert(0, str(Path(__file__).parents[1] / 'server'))

from arena_setting import Setting
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
from arena_robot.core.errors import Conflict, DataError
from arena_robot.records.roboarena_files import read_tables
from arena_robot.server.base import PolicyState
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.results.exports import export_tables
from arena_robot.server.store.evaluations import insert_local
from arena_robot.server.store.policies import NewPolicy
from arena_robot.web.site.serve import SiteServer

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


@pytest.fixture
def arena(tmp_path):
    setting = Setting(tmp_path / 'server', '', {'pi0': 'grpc://127.0.0.1:9'})
    site = SiteServer(setting.server, '127.0.0.1', 0)
    site.open()
    setting.site = httpx.Client(base_url=site.address)
    for name in ('ada', 'owner'):
        (tmp_path / name).write_text(setting.tokens[name])
    yield setting
    setting.site.close()
    site.close()
    setting.close()


def send(capsys, arena, folder, who='ada'):
    return ask(capsys, 'study', 'send', folder, '--server', arena.target, '--token-file',
               arena.config.data.parent / who, '--json')


def test_a_study_is_sent_shown_logged_and_never_counted(capsys, arena, tmp_path):
    folder = run_study(tmp_path / 'cup', cup_study(6), lambda arm, block: arm == 'pi05')
    assert send(capsys, arena, folder, 'owner')[0] == 1
    code, out, err = send(capsys, arena, folder)
    sent = json.loads(out)
    assert (code, sent['sent'], sent['known']) == (0, 12, 0), err
    assert json.loads(send(capsys, arena, folder)[1]) | {'sent': 12, 'known': 0} == sent
    listed = arena.site.get('/api/evaluations', params={'origin': 'local study'}).json()
    assert {e['id'] for e in listed['evaluations']} == set(sent['sessions'])
    for origin in ('relayed', 'imported'):
        assert not arena.site.get('/api/evaluations', params={'origin': origin}).json()[
            'evaluations']
    first = listed['evaluations'][0]
    assert {first['policy_a'], first['policy_b']} == {
        f"{name} (study {sent['sha256'][:8]})" for name in ('pi0', 'pi05')}
    assert {first['success_a'], first['success_b']} == {'yes', 'no'}
    assert [card['name'] for card in arena.site.get('/api/policies').json()] == ['pi0']
    page = arena.site.get(f"/evaluations/{first['id']}").text
    assert '/policies/pi0' not in page
    assert sent['sha256'] in page
    assert 'Local study' in page
    assert '<dt>Success of A</dt>' in page
    assert arena.server.results.comparisons() == []
    bundle = tmp_path / 'log.json'
    assert arena.site.get('/api/log').headers['retry-after'] == '5'    # it is put together now
    assert arena.server.results.settle()
    bundle.write_text(arena.site.get('/api/log').text)
    code, out, err = ask(capsys, 'results', 'verify', bundle, '--json')
    assert (code, json.loads(out)['origins']) == (0, {'local study': 12}), err
    export_tables(arena.server.database, tmp_path / 'tables')
    rows = read_tables(tmp_path / 'tables' / 'sessions.csv', tmp_path / 'tables' / 'episodes.csv')
    assert {(row.origin, row.counts) for row in rows.sessions} == {('local study', False)}
    assert {r.success for row in rows.sessions for r in row.rollouts} == {True, False}


def test_an_interrupted_sending_goes_on(capsys, arena, tmp_path, monkeypatch):
    folder = run_study(tmp_path / 'cup', cup_study(3), lambda arm, block: True)
    left = iter(range(4))

    def cut(*given):
        if next(left, None) is None:
            raise Conflict('the line is cut')
        return insert_local(*given)
    monkeypatch.setattr('arena_robot.server.app.insert_local', cut)
    code, _, err = send(capsys, arena, folder)
    assert (code, '4 of 6 sessions are at the server; the same command' in err) == (1, True)
    monkeypatch.undo()
    sent = json.loads(send(capsys, arena, folder)[1])
    assert (sent['sent'], sent['known']) == (2, 4)
    entries = [json.loads(body) for body in arena.server.log.entries(0)]
    assert sorted(entry['session'] for entry in entries) == sorted(sent['sessions'])
    assert {entry['study_sha256'] for entry in entries} == {sent['sha256']}


def test_a_policy_of_the_arena_is_never_one_of_a_study(capsys, arena, tmp_path):
    study = cup_study(2)
    arena.server.policies.add(NewPolicy(f'pi05 (study {study_hash(study)[:8]})', 'grpc://h:1'),
                              arena.owner.id, PolicyState.POOL)
    code, _, err = send(capsys, arena, run_study(tmp_path / 'cup', study, lambda *_: True))
    assert (code, 'a policy of the arena has the name' in err) == (1, True)
    assert arena.server.log.size() == 0


def test_what_was_sent_once_is_not_changed(capsys, arena, tmp_path):
    one, other = (run_study(tmp_path / name, cup_study(3), lambda arm, block, said=said: said)
                  for name, said in (('one', True), ('other', False)))
    assert send(capsys, arena, one)[0] == 0
    code, _, err = send(capsys, arena, other)
    assert (code, 'differs in' in err, 'success_a' in err) == (1, True, True)


@pytest.mark.parametrize(('study', 'changes', 'words'), [
    (cup_study(2), {'reveal': False}, 'still blind'),
    (cup_study(2, arms=tuple(map(StudyArm, 'abc')), design=Design.TASK_LIST), {},
     'a block of this study has more'),
    (cup_study(2), {'sealed': False}, 'was not promised before its first trial')])
def test_what_is_no_blind_study_of_pairs_is_not_sent(study, changes, words, capsys, arena,
                                                     tmp_path):
    sealed = changes.pop('sealed', True)
    folder = run_study(tmp_path / 'cup', study, lambda arm, block: True, **changes)
    if not sealed:
        path = folder / 'journal.jsonl'
        lines = path.read_text().splitlines()
        lines[1:3] = [line.replace('"n": 2', '"n": 1') if '"n": 2' in line else
                      line.replace('"n": 1', '"n": 2') for line in (lines[2], lines[1])]
        path.write_text('\n'.join(lines) + '\n')
    code, _, err = send(capsys, arena, folder)
    assert (code, words in err) == (2, True), err
    assert arena.server.log.size() == 0


@pytest.mark.parametrize(('changes', 'words'), [
    ({'study_sha256': 'ab'}, 'SHA-256'), ({'study': ' '}, 'the name'), ({'ended_ns': 0}, 'clock'),
    ({'policy_b': 'a\nb'}, 'printable'), ({'prompt': 501 * 'x'}, 'at most 500'),
    ({'policy_b': 'pi0'}, 'expected two names'), ({'policy_a': 101 * 'x'}, 'at most 100'),
    ({'session_id': '../etc'}, 'an identifier'), ({'valid': False}, 'only sessions that count'),
    ({'progress_a': 2.0}, 'runs from 0 to 1'), ({'success_a': 'maybe'}, 'choose yes or no'),
    ({'interventions_a': 0.5}, 'whole number'), ({'time_to_success_s_b': 1.0}, 'its success')])
def test_a_server_refuses_what_is_no_session_of_a_study(changes, words, arena):
    verdict = {'session_id': 'a' * 20, 'valid': True, 'success_a': 'yes', 'success_b': 'no'}
    fields = {'study': 'cup', 'study_sha256': 64 * 'a', 'policy_a': 'pi0', 'policy_b': 'pi05',
              'prompt': 'put it in', 'started_ns': 1, 'ended_ns': 2}
    for name, value in changes.items():
        (fields if name in fields else verdict)[name] = value
    with pytest.raises(DataError, match=words):
        arena.calls('ada')('StoreLocal', pb.LocalSession(
            verdict=pb.FeedbackRequest(**verdict), **fields))
    assert arena.server.log.size() == 0


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
