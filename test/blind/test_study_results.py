"""What studies say: sentences, tests by block and evaluator, the report's page, the Hub."""

import base64
import dataclasses
import itertools
import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from http_server import HttpServer
from sample_episodes import SampleEpisode, SampleMaker
from studies import SEED, cup_study, run_study

from arena_robot.blind.desk import StudyDesk
from arena_robot.blind.report import blind_words, deviations, interval_rows, write_study_report
from arena_robot.blind.results import (
    exchange_test,
    is_decided,
    result_to_json,
    study_result,
    study_sessions,
)
from arena_robot.blind.study import Design, Measure, Stopping, StudyArm, Unit, schedule
from arena_robot.blind.trials import StudyMove, TrialResult, declare, plain_result, read_study
from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Preference
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.recording.formats.exporting import sources
from arena_robot.recording.formats.lerobot import export_lerobot
from arena_robot.records.roboarena_files import write_tables
from arena_robot.records.session_file import JOURNAL, SessionFile, write_session
from arena_robot.session.protocol.journal import Journal


def mostly(shares):
    """Return who succeeds: an arm in the first part of every ten blocks, in another order each."""
    def succeeds(arm, block):
        order = np.random.default_rng([(block - 1) // 10, len(arm)]).permutation(10)
        return bool(order[(block - 1) % 10] < 10 * shares[arm])
    return succeeds


BETTER, ALIKE = mostly({'pi0': 0.3, 'pi05': 0.9}), mostly({'pi0': 0.5, 'pi05': 0.6})


def result_of(tmp_path, study, succeeds=BETTER, **how):
    return study_result(read_study(run_study(tmp_path / 'cup', study, succeeds, **how)))


def test_the_sentence_of_a_better_policy(tmp_path):
    [words] = result_of(tmp_path, cup_study(20)).sentences()
    assert re.fullmatch(r'pi05 is better than pi0 at \*cup in bowl\*: 36 of 40 against 12 of 40, '
                        r'difference \+\d+ to \+\d+ points, test chosen before\.', words)


def test_the_sentence_of_what_cannot_be_told_apart(tmp_path):
    [words] = result_of(tmp_path, cup_study(10), ALIKE).sentences()
    assert 'pi05 and pi0 cannot be told apart at *cup in bowl*: 12 of 20 against 10 of 20' in words
    assert re.search(r'−\d+ to \+\d+ points', words)
    assert re.search(r'a new study of \d+ blocks would in 80% of cases', words)
    [words] = result_of(tmp_path / 'same', cup_study(4), lambda *_: True).sentences()
    assert 'do not tell how many more' in words


@pytest.mark.parametrize('unit', Unit)
@pytest.mark.parametrize('stopping', Stopping)
def test_each_rule_finds_a_large_difference_and_none_where_none_is(unit, stopping, tmp_path):
    study = cup_study(20, unit=unit, stopping=stopping)
    people = {'evaluator': lambda block: f'e{block % 8}'}
    [found] = result_of(tmp_path, study, **people).contrasts
    assert (found.better, found.first, found.wins > found.losses) == ('pi05', 'pi05', True)
    assert (found.decided_after is None) == (stopping is Stopping.FIXED)
    assert found.p_value <= 0.05
    if found.interval:
        assert 0 < found.interval[0] < found.difference < found.interval[1]
    [none] = result_of(tmp_path / 'none', study, ALIKE, **people).contrasts
    assert none.better is None
    assert none.p_value > 0.05


@pytest.mark.parametrize(('measure', 'words'), [
    (Measure.PREFERENCE, 'preferred in 40 of 40 blocks against 0'),
    (Measure.PROGRESS, 'further in 0 of 40 blocks against 0')])
def test_other_measures_say_what_they_count(measure, words, tmp_path):
    study = cup_study(20, measure=measure)
    [sentence] = result_of(tmp_path, study,
                           prefer=lambda a, b: 'A' if a == 'pi05' else 'B').sentences()
    assert words in sentence


def test_several_comparisons_share_the_level(tmp_path):
    arms = tuple(map(StudyArm, ('a', 'bb', 'ccc')))
    study = cup_study(6, arms=arms, design=Design.TASK_LIST)
    result = result_of(tmp_path, study, mostly({'a': 0.2, 'bb': 0.9, 'ccc': 0.9}))
    better = {(c.first, c.second): c.better for c in result.contrasts}
    assert better['bb', 'a'] == 'bb'
    p_values = [c.p_value for c in result.contrasts]
    assert all(0 <= p <= 1 for p in p_values)
    assert len(result.sentences()) == 3
    control = cup_study(6, arms=arms, design=Design.CONTROL, control='a')
    assert len(result_of(tmp_path / 'c', control, mostly({'a': 0.2, 'bb': 0.9, 'ccc': 0.9}))
               .contrasts) == 2


def test_the_exchange_test_is_exact():
    sums = np.array([3, 1, 1, 2, 1, 2])
    outcome = np.concatenate([np.ones(n, int) for n in sums])
    names = np.repeat([f'e{k}' for k in range(6)], sums)
    assert exchange_test(outcome, names) == 2 / 64
    some = np.where(names == 'e0', -1, 1)
    signs = np.array(list(itertools.product((1, -1), repeat=6)))
    total = abs(-3 + sums[1:].sum())
    assert exchange_test(some, names) == np.mean(np.abs(signs @ sums) >= total)
    many = np.repeat([f'e{k}' for k in range(20)], 2)
    assert exchange_test(np.ones(40, int), many) == pytest.approx(1 / 20_001, rel=2)


def test_who_keeps_the_seed_can_ask_whether_a_sequential_study_may_end(tmp_path):
    study = cup_study(20, stopping=Stopping.SEQUENTIAL)
    record = read_study(run_study(tmp_path, study, BETTER, reveal=False))
    assert is_decided(record, SEED)
    alike = read_study(run_study(tmp_path / 'a', study, ALIKE, reveal=False))
    assert not is_decided(alike, SEED)
    fixed = read_study(run_study(tmp_path / 'f', cup_study(20), BETTER, reveal=False))
    assert not is_decided(fixed, SEED)


def test_a_study_that_was_run_with_the_page_is_reported(tmp_path):
    study = cup_study(6)
    plan = schedule(study, SEED)
    said = {'start': {}, 'end': {}, 'judge': {'preference': 'TIE', 'reason': 'alike'}}
    with StudyDesk(tmp_path, study, SEED, ManualClock(1), print, lambda arm: None) as desk:
        while desk.state.phase.value != 'done':
            said['score'] = {'success': plan[desk.state.done].arm == 'pi05', 'evaluator': 'ann'}
            moves = {'ready': 'start', 'running': 'end', 'scoring': 'score', 'judging': 'judge'}
            name = moves[desk.state.phase.value]
            desk.move(name, said[name])
        desk.move('reveal', {})
    result = study_result(read_study(tmp_path))
    assert result.sentences()[0].startswith('pi05 is better than pi0 at *cup in bowl*: 12 of 12')
    assert deviations(result) == []
    assert write_study_report(result, tmp_path / 'report.html').is_file()


class Page(HTMLParser):
    """The texts of a page, and everything that it loads."""

    def __init__(self, path):
        super().__init__()
        self.texts, self.loads, self.opened = [], [], []
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attributes):
        self.opened.append(tag)
        self.loads += [value for name, value in attributes if name in ('src', 'href')]

    def handle_data(self, data):
        self.texts += [data.strip()] if data.strip() else []


def test_the_page_begins_with_the_sentence_and_loads_nothing(tmp_path):
    result = result_of(tmp_path, cup_study(20), evaluator=lambda block: f'<b>{block % 3}')
    page = Page(write_study_report(result, tmp_path / 'report.html'))
    start = [text.startswith('pi05 is') for text in page.texts].index(True)
    assert ' '.join(page.texts[start:start + 3]) == result.sentences()[0].replace(
        '*cup in bowl*:', 'cup in bowl :')
    assert page.loads == []
    assert 'b' in page.opened
    assert {'<b>0', '<b>1', '<b>2', 'left', 'right', 'None.'} <= set(page.texts)
    assert any('takes evaluators as alike' in text for text in page.texts)
    assert page.opened.count('svg') == 3    # the comparison and its two start conditions
    assert len([text for text in page.texts if text in ('yes', 'no')]) == 80


def test_a_clip_of_a_trial_is_linked(tmp_path):
    study = cup_study(1)
    folder = run_study(tmp_path, study, BETTER, reveal=False)
    with Journal(folder / JOURNAL, ManualClock(2)) as log:
        log.append(StudyMove.TRIAL.value, plain_result(TrialResult(
            1, 1, 'A', 'left', success=True, clip='clips/1.mp4', time_to_success_s=4.0)))
        log.append(StudyMove.TRIAL.value, plain_result(TrialResult(
            0, 0, '', 'left', success=True, human=True)))
        log.append(StudyMove.REVEALED.value, {'seed': SEED})
    result = study_result(read_study(folder))
    page = Page(write_study_report(result, folder / 'report.html'))
    assert page.loads == []
    assert 'missing' in page.texts
    (folder / 'clips').mkdir()
    (folder / 'clips' / '1.mp4').touch()
    assert Page(write_study_report(result, folder / 'report.html')).loads == ['clips/1.mp4']
    page = Page(write_study_report(result, tmp_path / 'pages' / 'cups.html', folder))
    assert page.loads == [f'../{folder.relative_to(tmp_path) / "clips/1.mp4"}']
    assert 'a person, by hand' in page.texts
    assert any('taken back and entered again: 1.' in text for text in page.texts)


def test_deviations_are_told(tmp_path):
    study, line = cup_study(2), {'block': 1, 'condition': 'left'}
    with Journal(tmp_path / JOURNAL, ManualClock(1)) as log:
        declare(log, study)
        log.append(StudyMove.TRIAL.value, line | {'trial': 2, 'slot': 'B', 'void': 'no light'})
        log.append(StudyMove.TRIAL.value, line | {'trial': 2, 'slot': 'B', 'success': True})
        log.append(StudyMove.TRIAL.value, line | {'trial': 1, 'slot': 'A', 'success': True})
        declare(log, cup_study(3, unit=Unit.EVALUATOR), 'more light')
        log.append(StudyMove.SEALED.value, {'sha256': 'of another seed'})
        log.append(StudyMove.REVEALED.value, {'seed': SEED, 'reason': 'it rained'})
        log.append(StudyMove.TRIAL.value, line | {'trial': 1, 'slot': 'A', 'success': True})
    result = study_result(read_study(tmp_path))
    words = '\n'.join(deviations(result))
    for part in ('not in the journal before', 'not the one whose hash', 'after the reveal: 1.',
                 'Version 2 was declared after 3 trials: more light',
                 'void and run again: 1 (no light 1)', 'not run in the order', '1 of 6 blocks',
                 'took part: 1;', 'before its last trial: it rained'):
        assert part in words, part
    assert 'the revealed seed is not the promised one' in result.sentences()[0]
    assert 'does not fit' in ' '.join(blind_words(result.record))


def test_the_sentence_says_when_the_test_was_chosen_and_that_the_study_ended_early(tmp_path):
    folder = run_study(tmp_path, cup_study(20), BETTER, reveal=False)
    with Journal(folder / JOURNAL, ManualClock(2)) as log:
        declare(log, cup_study(30), 'to see more')
        log.append(StudyMove.REVEALED.value, {'seed': SEED, 'reason': 'the arm broke'})
    [words] = study_result(read_study(folder)).sentences()
    assert words.endswith(', test chosen after 80 trials, but the study ended early.')


def test_parts_by_condition_have_the_sign_of_the_whole(tmp_path):
    def succeeds(arm, block):
        return arm == 'pi05'
    for row in interval_rows(result_of(tmp_path, cup_study(8), succeeds)):
        assert row['difference'] == 1
        assert row['interval'][0] > 0


def test_json_has_the_numbers_of_the_sentences(tmp_path):
    result = result_of(tmp_path, cup_study(20))
    values = json.loads(json.dumps(result_to_json(result)))
    [row] = values['contrasts']
    assert (row['better'], row['successes'], row['blocks']) == ('pi05', [36, 12], 40)
    assert row['sentence'] == result.sentences()[0]
    assert math.isclose(row['difference'], 0.6)


class FakeHub(HttpServer):
    """Answers as the Hub's HTTP API is documented; keeps what was committed and uploaded."""

    def __init__(self):
        super().__init__(None)
        self.asked, self.files, self.large, self.refuses = [], {}, {}, False

    def respond(self, path, body, headers):
        kind = path.partition('?')[0].removeprefix('/api/')
        self.asked.append((kind, headers.get('Authorization')))
        if self.refuses:
            return 403, {}, b'{"error": "no write access"}'
        if kind.startswith('upload/'):
            self.large[kind.removeprefix('upload/')] = body
            return 200, {}, b''
        return 200, {'Content-Type': 'application/json'}, json.dumps(
            self.answered(kind, body)).encode()

    def answered(self, kind, body):
        if kind.endswith('/commit/main'):
            for line in map(json.loads, body.splitlines()):
                if line['key'] == 'file':
                    self.files[line['value']['path']] = base64.b64decode(line['value']['content'])
                elif line['key'] == 'lfsFile':
                    self.files[line['value']['path']] = self.large[line['value']['oid']]
            return {'commitUrl': f'{self.url}/datasets/lab/cup/commit/1', 'commitOid': '1'}
        if not body:    # what there is already
            return {'_id': '0', 'id': 'lab/cup', 'sha': '0' * 40, 'siblings': []}
        values = json.loads(body)
        if kind == 'validate-yaml':
            return {'errors': [], 'warnings': []}
        if kind == 'repos/create':
            assert values['type'] == 'dataset'
            return {'url': f"{self.url}/datasets/{values['organization']}/{values['name']}"}
        if kind.endswith('/preupload/main'):
            return {'files': [{'path': file['path'], 'shouldIgnore': False, 'uploadMode':
                               'lfs' if file['path'].endswith('.mp4') else 'regular'}
                              for file in values['files']]}
        assert kind.endswith('/info/lfs/objects/batch'), kind
        return {'transfer': 'basic', 'objects': [{**row, 'actions': {'upload': {
            'href': f"{self.url}/api/upload/{row['oid']}"}}} for row in values['objects']]}


def publish(hub, folder, *words, typed=''):
    """Run the verb as its own process: the Hub's library reads its settings when it is loaded."""
    return subprocess.run(
        [sys.executable, '-m', 'arena_robot.cli.main', 'publish', str(folder), 'hub:lab/cup',
         '--licence', 'cc-by-4.0', *words], input=typed, capture_output=True, text=True,
        check=False, timeout=120, env={
            **os.environ, 'HF_ENDPOINT': hub.url, 'HF_TOKEN': 'hf_x', 'HF_HUB_DISABLE_XET': '1'})


def published(tmp_path, **how):
    """Return the folder of a study with an address, a person and a clip."""
    pytest.importorskip('huggingface_hub', reason="pip install 'droid-arena[hub]'")
    study = cup_study(20, arms=(StudyArm('pi0', 'grpc://10.0.0.7:8000'), StudyArm('pi05')))
    folder = run_study(tmp_path / 'cup', study, BETTER, **how)
    (folder / 'clips').mkdir()
    (folder / 'clips' / '1.mp4').write_bytes(b'a film')
    return folder


def test_publishing_says_what_would_leave_the_lab_and_asks(tmp_path):
    folder = published(tmp_path)
    with FakeHub() as hub:
        for words in (('--dry-run', '--clips'), ('--clips',)):
            said = publish(hub, folder, *words, typed='yes\n')
            assert said.returncode == (0 if '--dry-run' in words else 2)
            for part in ('Names of people: ann.', 'grpc://10.0.0.7:8000', 'clips/1.mp4',
                         'with whoever is in them: 1.', 'To lab/cup would go 9 files'):
                assert part in said.stdout, (part, said)
        assert 'clips/1.mp4' not in publish(hub, folder, '--dry-run').stdout
        assert publish(hub, published(tmp_path / 'blind', reveal=False), '--yes').returncode == 2
        assert hub.asked == []


def test_a_published_study_has_card_plot_tables_and_results_as_the_hub_reads_them(tmp_path):
    folder = published(tmp_path)
    from huggingface_hub import DatasetCard, parse_eval_result_entries
    with FakeHub() as hub:
        said = publish(hub, folder, '--clips', '--json', typed='lab/cup\n')
        assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)['commit'] == f'{hub.url}/datasets/lab/cup/commit/1'
    assert {token for path, token in hub.asked if path.endswith(('create', 'commit/main'))} == {
        'Bearer hf_x'}
    assert hub.files['clips/1.mp4'] == b'a film'
    card = DatasetCard(hub.files['README.md'].decode())
    assert (card.data.license, card.data.pretty_name) == ('cc-by-4.0', 'cup in bowl')
    result = study_result(read_study(folder))
    assert result.sentences()[0] in card.text
    assert result.record.versions[-1].sha256 in card.text
    assert hub.files['result.png'][:4] == b'\x89PNG'
    for name, value in (('pi0', 0.3), ('pi05', 0.9)):
        [entry] = parse_eval_result_entries(yaml.safe_load(
            hub.files[f'models/{name}/.eval_results/lab-cup.yaml']))
        assert (entry.dataset_id, entry.task_id, entry.value) == ('lab/cup', 'cup-in-bowl', value)
        assert entry.source_url == f'{hub.url}/datasets/lab/cup'
    (tmp_path / 'back').mkdir()
    for name in ('journal.jsonl', 'sessions.csv', 'episodes.csv'):
        (tmp_path / 'back' / name).write_bytes(hub.files[name])
    assert study_result(read_study(tmp_path / 'back')).sentences() == result.sentences()


def test_tables_are_published_after_the_reveal_and_a_hub_that_refuses_is_named(tmp_path):
    sessions = study_sessions(study_result(read_study(published(tmp_path))))
    for name, rows in (('named', sessions), ('blind', [
            dataclasses.replace(row, policy_a='A', policy_b='B') for row in sessions])):
        (tmp_path / name).mkdir()
        write_tables(tmp_path / name, rows)
    with FakeHub() as hub:
        said = publish(hub, tmp_path / 'blind', '--yes')
        assert said.returncode == 2
        assert 'still blind' in said.stderr
        assert publish(hub, tmp_path / 'named', '--yes').returncode == 0
        assert b'pi05' in hub.files['sessions.csv']
        hub.refuses = True
        said = publish(hub, tmp_path / 'named', '--yes')
    assert said.returncode == 1
    assert 'the Hub did not take lab/cup' in said.stderr


def test_a_published_dataset_has_its_files_each_policys_share_and_no_policy_before_the_reveal(
        tmp_path, message_folders):
    pytest.importorskip('huggingface_hub', reason="pip install 'droid-arena[hub]'")
    session = tmp_path / SampleEpisode().session_id
    for slot in ('A', 'B'):
        SampleMaker(SampleEpisode(slot=slot, steps=4, width=64, height=36),
                    message_folders).write(session / slot)
    verdict = Verdict(0.25, 1.0, preference=Preference.B, explanation='B was surer')
    kept = SessionFile(session.name, station='lab', evaluator='e1', created='2026',
                       verdict=verdict)
    for name, reveal in (('blind', None), ('named', Reveal('00', 'first policy', 'second'))):
        write_session(session, dataclasses.replace(kept, reveal=reveal))
        export_lerobot(sources(session), tmp_path / name)
    with FakeHub() as hub:
        said = publish(hub, tmp_path / 'blind', '--yes')
        assert (said.returncode, 'still blind' in said.stderr) == (2, True), said
        assert hub.files == {}
        said = publish(hub, tmp_path / 'named', typed='lab/cup\n')
        assert said.returncode == 0, said.stderr
    assert 'Texts that people typed: 2.' in said.stdout
    assert 'with whoever is in them: 3.' in said.stdout
    for path in filter(Path.is_file, (tmp_path / 'named').rglob('*')):
        assert hub.files[path.relative_to(tmp_path / 'named').as_posix()] == path.read_bytes()
    card = hub.files['README.md'].decode()
    assert '2 episodes, a LeRobotDataset v3' in card
    for name, share in (('first-policy', 0.0), ('second', 1.0)):
        [entry] = yaml.safe_load(hub.files[f'models/{name}/.eval_results/lab-cup.yaml'])
        assert entry['value'] == share, entry
    assert hub.files['result.png'][:4] == b'\x89PNG'
