"""Studies: their file, hash and schedule; results and the journal they stand in."""

import collections
import dataclasses

import pytest
from studies import SEED, cup_study, run_study

from arena_robot.blind.study import (
    Design,
    Measure,
    StudyArm,
    load_study,
    schedule,
    seed_hash,
    study_hash,
    study_yaml,
)
from arena_robot.blind.trials import (
    SAID,
    StudyMove,
    TrialResult,
    block_verdict,
    declare,
    read_results,
    read_study,
    seal,
    write_results,
)
from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Preference
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.verdict import OPTIONAL, Success, Verdict
from arena_robot.records.session_file import JOURNAL
from arena_robot.session.protocol.journal import Journal

THREE = tuple(StudyArm(name) for name in ('old', 'new', 'newer'))
DESIGNS = [cup_study(), cup_study(7), cup_study(arms=THREE, design=Design.ROUND_ROBIN),
           cup_study(arms=THREE, design=Design.TASK_LIST),
           cup_study(arms=THREE, design=Design.CONTROL, control='old')]


@pytest.mark.parametrize('study', DESIGNS, ids=lambda study: study.design.value)
def test_a_file_gives_the_same_study_and_hash(study, tmp_path):
    path = tmp_path / 'study.yaml'
    path.write_text(study_yaml(study))
    assert load_study(path) == study
    assert study_hash(load_study(path)) == study_hash(study)
    assert study_hash(dataclasses.replace(study, repeats=99)) != study_hash(study)


@pytest.mark.parametrize(('text', 'words'), [
    ('arm: []', "unknown key 'arm'. Did you mean 'arms'?"),
    ('design: pair', "unknown value 'pair'. Did you mean 'pairs'?"),
    ('decision: {mesure: success}', "unknown key 'mesure'. Did you mean 'measure'?"),
    ('design: control', "control is ''"), ('repeats: 0', 'at least 1'),
    ('decision: {level: 0.7}', '0 < level < 0.5'),
    ('decision: {measure: preference, assumed: [0.4, 0.7]}', 'together they are at most 1'),
    ('design: task_list\ndecision: {measure: preference, assumed: [0.2, 0.5]}', 'nobody is asked'),
    ('conditions: [{name: a}, {name: a}]', 'each needs a name of its own'),
    ('arms: [{name: a}, {name: b}, {name: c}]', 'pairs compares two arms, found 3')])
def test_a_wrong_study_says_what_is_wrong(text, words, tmp_path):
    path = tmp_path / 'study.yaml'
    keys = {line.partition(':')[0] for line in text.splitlines()}
    rest = {'name': 'name: cup', 'arms': 'arms: [{name: a}, {name: b}]',
            'conditions': 'conditions: [{name: left}]', 'success': 'success: it stands'}
    path.write_text('\n'.join([text, *(line for key, line in rest.items() if key not in keys)]))
    with pytest.raises(ConfigError) as error:
        load_study(path)
    assert words in str(error.value)


@pytest.mark.parametrize('study', DESIGNS, ids=lambda study: study.design.value)
def test_a_schedule_has_each_meeting_equally_often_in_each_order(study):
    trials = schedule(study, SEED)
    assert trials == schedule(study, SEED) != schedule(study, 'another')
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    blocks = collections.defaultdict(list)
    for trial in trials:
        blocks[trial.block].append(trial)
    met, slots = collections.Counter(), collections.Counter()
    for block in blocks.values():
        assert len({(trial.condition, trial.round) for trial in block}) == 1
        assert [trial.slot for trial in block] == list('ABC')[:len(block)]
        arms = frozenset(trial.arm for trial in block)
        met[block[0].condition, arms] += 1
        slots.update((block[0].condition, arms, trial.arm, trial.slot) for trial in block)
    assert {arms for _, arms in met} == set(map(frozenset, study.meetings()))
    assert set(met.values()) == {study.repeats}
    for (_, arms, *_), count in slots.items():
        assert count in (study.repeats // len(arms), -(-study.repeats // len(arms)))


def test_each_round_has_every_condition_and_the_rounds_differ():
    rounds = collections.defaultdict(list)
    for trial in schedule(cup_study(), SEED):
        if trial.slot == 'A':
            rounds[trial.round].append(trial.condition)
    assert {tuple(sorted(names)) for names in rounds.values()} == {('left', 'right')}
    assert len({tuple(names) for names in rounds.values()}) == 2


def test_the_order_is_that_of_any_program_that_sorts_digests():
    """If this fails, revealed seeds of earlier studies no longer give their order."""
    assert [(t.condition, t.arm) for t in schedule(cup_study(2), SEED)] == ORDER


ORDER = [
    ('left', 'pi05'), ('left', 'pi0'),
    ('right', 'pi0'), ('right', 'pi05'),
    ('right', 'pi05'), ('right', 'pi0'),
    ('left', 'pi0'), ('left', 'pi05')]


def test_a_plan_shows_no_arm():
    assert 'pi0' not in repr(schedule(cup_study(), SEED)[0])


def test_a_block_says_what_a_station_says():
    first = TrialResult(1, 1, 'A', 'left', success=True, stage='place', progress=1.0,
                        time_to_success_s=12.5, interventions=1, intervention_s=3.0)
    second = TrialResult(2, 1, 'B', 'left', success=False, preference=Preference.A,
                         reason='B stood still', failure_tags=('stuck', 'lost'))
    said = block_verdict({'A': first, 'B': second})
    assert said == Verdict(
        progress_a=1.0, success_a=Success.YES, success_b=Success.NO, stage_a='place',
        failure_tags_b='stuck; lost', time_to_success_s_a=12.5, interventions_a=1.0,
        interventions_b=0.0, intervention_s_a=3.0, intervention_s_b=0.0,
        preference=Preference.A, explanation='B stood still')
    assert {*OPTIONAL, 'progress'} == set(SAID), 'a study asks all by default'


def test_results_are_the_same_from_their_lines(tmp_path):
    results = (TrialResult(1, 1, 'A', 'left', evaluator='ann', success=True, stage='place',
                           progress=1.0, time_to_success_s=12.5, interventions=1,
                           intervention_s=3.0, clip='clips/1.mp4'),
               TrialResult(2, 1, 'B', 'left', success=False, preference=Preference.A,
                           reason='ä', failure_tags=('stuck',), void='the camera fell'))
    write_results(tmp_path / 'trials.jsonl', results)
    assert read_results(tmp_path / 'trials.jsonl') == results


@pytest.mark.parametrize(('line', 'words'), [
    ('{"trial": 1, "blok": 1}', "Did you mean 'block'?"), ('[]', 'line 1 is no JSON object'),
    ('{"trial": 1, "block": 1, "slot": "A", "condition": "x", "progress": 2}', 'from 0 to 1'),
    ('{"trial": 1, "block": 1, "slot": "A", "condition": "x", "time_to_success_s": 2}',
     'needs success'), ('x', 'not a file of trials')])
def test_a_wrong_line_is_named(line, words, tmp_path):
    (tmp_path / 't').write_text(line)
    with pytest.raises(DataError) as error:
        read_results(tmp_path / 't')
    assert words in str(error.value)


def test_a_journal_has_study_seed_and_trials(tmp_path):
    study = cup_study(2)
    record = read_study(run_study(tmp_path, study, lambda arm, block: arm == 'pi05'))
    assert record.study == study
    assert (record.sealed_first, record.fits(), record.after_reveal) == (True, True, 0)
    assert record.seed_sha256 == seed_hash(SEED)
    assert all(r.success == (r.arm == 'pi05') for r in record.with_arms())
    assert all(r.arm == '' for r in record.results)


def test_before_the_reveal_no_arm_is_told(tmp_path):
    record = read_study(run_study(tmp_path, cup_study(1), lambda *_: True, reveal=False))
    assert record.fits() is None
    with pytest.raises(DataError, match='still blind'):
        record.with_arms()
    text = (tmp_path / JOURNAL).read_text()
    assert text.count('pi05') == 1    # in the declared study
    assert SEED not in text


@pytest.fixture
def log(tmp_path):
    with Journal(tmp_path / JOURNAL, ManualClock(1)) as log:
        yield log


def test_a_change_is_a_new_version_with_a_reason(log, tmp_path):
    study = cup_study(2)
    assert declare(log, study) == declare(log, study) == 1
    seal(log, SEED)
    log.append(StudyMove.TRIAL.value, {'trial': 1, 'block': 1, 'slot': 'A', 'condition': 'left'})
    with pytest.raises(ConfigError, match='say why it was changed'):
        declare(log, cup_study(3))
    assert declare(log, cup_study(3), 'the cup was too slippery') == 2
    log.append(StudyMove.TRIAL.value, {'trial': 1, 'block': 1, 'slot': 'A', 'condition': 'left'})
    record = read_study(tmp_path)
    assert [(v.reason, v.trials) for v in record.versions] == [
        ('', 0), ('the cup was too slippery', 1)]
    assert [r.version for r in record.results] == [1, 2]


def test_a_study_keeps_its_seed(log):
    seal(log, SEED)
    seal(log, SEED)
    assert len(log.entries) == 1
    with pytest.raises(DataError, match='its own seed'):
        seal(log, 'another')


def test_the_newest_result_of_a_trial_counts_and_void_ones_stay(log, tmp_path):
    declare(log, cup_study(1))
    line = {'trial': 1, 'block': 1, 'slot': 'A', 'condition': 'left'}
    for more in ({'void': 'the camera fell'}, {'success': False}, {'success': True},
                 {'human': True, 'success': True}):
        log.append(StudyMove.TRIAL.value, line | more)
    log.append(StudyMove.TRIAL.value, line | {'trial': 2, 'slot': 'B', 'success': True})
    log.append(StudyMove.UNDONE.value, {'trial': 2})
    record = read_study(tmp_path)
    assert [(r.void, r.success, r.human) for r in record.results] == [
        ('the camera fell', None, False), ('', True, False), ('', True, True)]
    assert [(r.trial, r.success) for r in record.undone] == [(1, False), (2, True)]
    assert record.sealed_first is False


@pytest.mark.parametrize(('entries', 'words'), [
    ([], 'nothing was declared'), ([('declared', {'study': {}})], 'declares no study'),
    ([('trial', {'trial': 1})], 'missing block')])
def test_a_damaged_journal_is_told(entries, words, log, tmp_path):
    for move, data in entries:
        log.append(move, data)
    with pytest.raises(DataError, match=words):
        read_study(tmp_path)


def test_a_declared_study_that_was_edited_is_told(log, tmp_path):
    declare(log, cup_study(1))
    text = (tmp_path / JOURNAL).read_text()
    (tmp_path / JOURNAL).write_text(text.replace('pi05', 'pi06'))
    with pytest.raises(DataError, match='the journal says'):
        read_study(tmp_path)


def test_a_folder_that_is_no_study_is_told(tmp_path):
    with pytest.raises(DataError, match='is no study'):
        read_study(tmp_path)
    assert Measure('success') is Measure.SUCCESS
