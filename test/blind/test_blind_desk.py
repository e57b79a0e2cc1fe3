"""The order of a study's steps, what is kept of them, and what nobody may learn."""

import dataclasses
import json
import random
import stat

import pytest
from blind_rig import YES, Lab, Numbered, study

from arena_robot.blind.desk import MOVES
from arena_robot.blind.report import HUMAN, arm_rows, blind_words
from arena_robot.blind.results import study_result
from arena_robot.blind.study import DecisionRule, Stopping
from arena_robot.blind.trials import read_study, study_seed
from arena_robot.core.errors import ConfigError, Conflict, DataError, PolicyRefused, SessionError
from arena_robot.records.session_file import JOURNAL


@pytest.fixture
def policies():
    return {'azure-one': ('openpi', Numbered(1)), 'olive-two': ('openpi', Numbered(2))}


@pytest.fixture
def lab(tmp_path, policies):
    with Lab(tmp_path, policies) as made:
        yield made


def again(lab, **more):
    """Go on with the study in a new process, as it were."""
    lab.desk.close()
    lab.desk = lab.enter_context(lab.new_desk(**more))
    return lab.desk.shown()


def test_a_study_from_its_first_trial_to_the_reveal(lab):
    lab.press('start')
    query = lab.desk.admit('robot')
    lab.clock.advance_ns(5 * 10**9)
    lab.desk.check(query)
    assert lab.press('end') == 'scoring'
    assert lab.press('score', **YES, evaluator='ada') == 'ready'
    lab.press('start')
    assert lab.press('end') == 'scoring'
    assert lab.press('score', success=False, progress=40) == 'judging'
    assert lab.press('judge', preference='B', reason='smoother') == 'ready'
    for _ in range(4):
        lab.run_trial()
    assert lab.desk.state.phase.value == 'done'
    assert read_study(lab.folder).seed == ''
    assert lab.press('reveal') == 'revealed'
    record = read_study(lab.folder)
    assert record.fits()
    assert record.sealed_first
    first, second = record.with_arms()[:2]
    assert (first.success, first.progress, first.time_to_success_s, first.evaluator) == (
        True, 1.0, 5.0, 'ada')
    assert (second.success, second.progress, second.time_to_success_s) == (False, 0.4, None)
    assert (second.preference.value, second.reason) == ('B', 'smoother')
    assert {first.arm, second.arm} == {'azure-one', 'olive-two'}
    with pytest.raises(Conflict, match='not possible now: the study has ended'):
        lab.press('start')


@pytest.mark.parametrize(('name', 'words', 'says'), [
    ('score', {}, 'yes or no'), ('score', {'success': 1}, 'yes or no'),
    ('score', {'success': True, 'progress': 101}, 'runs from 0 to 1'),
    ('score', {'success': True, 'stage': 'flying'}, "furthest stage of A cannot be 'flying'"),
    ('score', {'success': True, 'failure_tags': ['odd']}, "failure tags of A cannot be 'odd'"),
    ('void', {}, 'say why'), ('void', {'reason': 'x' * 10_001}, 'at most')])
def test_what_cannot_be_kept_is_refused(lab, name, words, says):
    lab.press('start')
    lab.press('end')
    with pytest.raises(DataError, match=says):
        lab.press(name, **words)
    assert lab.press('score', **YES) == 'ready'


def test_moves_at_the_wrong_time_are_refused(lab):
    for name in ('pause', 'resume', 'end', 'score', 'judge', 'void', 'back', 'undo', 'fly'):
        with pytest.raises(Conflict):
            lab.press(name)
    with pytest.raises(DataError, match='before its last trial'):
        lab.press('reveal')


def test_everything_can_be_taken_back_within_the_trial(lab):
    assert lab.press('start') == 'running'
    assert lab.press('undo') == 'ready', 'no query has passed'
    lab.press('start')
    lab.desk.admit('robot')
    with pytest.raises(Conflict, match='nothing can be taken back'):
        lab.press('undo')
    lab.clock.advance_ns(2 * 10**9)
    lab.press('end')
    assert lab.press('undo') == 'running'
    lab.desk.admit('robot')
    lab.clock.advance_ns(10**9)
    lab.press('end')
    lab.press('score', **YES)
    assert lab.press('undo') == 'scoring'
    assert lab.desk.shown()['draft']['progress'] == 100
    lab.press('score', success=False)
    lab.press('start')
    lab.press('end')
    lab.press('score', **YES)
    lab.press('judge', preference='A', reason='because')
    assert lab.press('undo') == 'judging'
    assert lab.desk.shown()['draft']['reason'] == 'because'
    assert lab.press('undo') == 'scoring'
    lab.press('score', **YES)
    lab.press('judge', preference='TIE')
    first, second = read_study(lab.folder).results
    assert (first.success, first.time_to_success_s) == (False, None)
    assert second.preference.value == 'TIE'
    assert len(read_study(lab.folder).undone) == 2


def test_a_trial_that_does_not_count_is_run_again(lab):
    lab.press('start')
    lab.press('void', reason='somebody bumped the table')
    shown = lab.desk.shown()
    assert (shown['phase'], shown['trial'], shown['attempt']) == ('ready', 1, 2)
    assert read_study(lab.folder).results[0].void == 'somebody bumped the table'
    assert lab.press('undo') == 'scoring'
    lab.press('score', **YES)
    assert [result.void for result in read_study(lab.folder).results] == ['']


def test_a_person_runs_a_trial_without_a_policy(lab):
    """It is no trial of the schedule, passes no query, and can be thrown away or taken back."""
    lab.run_trial()
    for words in ({'success': True, 'progress': 100, 'evaluator': 'bob'}, {'success': False}):
        assert lab.press('human') == 'running'
        with pytest.raises(PolicyRefused, match='a person runs this trial by hand'):
            lab.desk.admit('robot')
        assert lab.desk.on_turn('robot') is None
        lab.clock.advance_ns(7 * 10**9)
        assert (lab.desk.shown()['human'], lab.desk.shown()['seconds']) == (True, 7.0)
        assert lab.press('end') == 'scoring'
        assert lab.press('score', **words) == 'ready', 'a preference is not asked for'
    assert lab.press('undo') == 'scoring'
    lab.press('void', reason='the arm was not homed')
    lab.press('human')
    shown = again(lab)
    assert (shown['phase'], shown['trial'], shown['attempt'], shown['human']) == (
        'ready', 2, 1, False)
    lab.run_trial(success=False)
    for _ in range(4):
        lab.run_trial()
    lab.press('reveal')
    record = read_study(lab.folder)
    human = [result for result in record.with_arms() if result.human]
    assert [bool(result.void) for result in human] == [False, True, True]
    assert (human[0].success, human[0].time_to_success_s, human[0].evaluator, human[0].condition,
            human[0].arm) == (True, 7.0, 'bob', 'start', '')
    assert [result.trial for result in record.results if result.counts] == [1, 2, 3, 4, 5, 6]
    result = study_result(record)
    assert len(result.contrasts[0].blocks) == 3
    *policies, person = arm_rows(result)
    assert (len(policies), person['name'], person['human'], person['trials']) == (
        2, HUMAN, True, 1)
    assert any('ran by hand: 1.' in words for words in blind_words(record))


def test_a_break(lab):
    assert lab.press('rest') == 'break'
    with pytest.raises(PolicyRefused, match='has a break'):
        lab.desk.admit('robot')
    assert lab.press('back') == 'ready'


def test_two_people_press_at_once(lab):
    version = lab.desk.shown()['version']
    lab.press('start', version=version)
    with pytest.raises(Conflict):
        lab.press('start', version=version)
    with pytest.raises(Conflict, match='somebody else pressed'):
        lab.press('end', version=version)


def test_a_killed_program_goes_on_where_it_was(lab):
    lab.run_trial()
    lab.press('start')
    lab.press('end')
    lab.desk.draft({'success': True, 'progress': 70})
    shown = again(lab)
    assert (shown['phase'], shown['trial']) == ('scoring', 2)
    assert shown['draft'] == {'success': True, 'progress': 70}
    lab.press('score', success=True)
    assert again(lab)['phase'] == 'judging'
    lab.press('judge', preference='A')
    lab.press('start')
    shown = again(lab)
    assert (shown['phase'], shown['trial'], shown['attempt']) == ('ready', 3, 2)
    assert 'this program ended in the middle' in shown['notice']
    assert len(read_study(lab.folder).results) == 3


def test_a_computer_that_slept_in_a_trial(lab):
    lab.press('start')
    lab.sleep(3600)
    assert lab.desk.shown()['attempt'] == 2
    assert 'slept for 3600 s' in lab.desk.notice
    lab.sleep(3600)
    assert 'nothing is lost' in lab.desk.shown()['notice']


def test_a_clock_that_was_set(lab):
    lab.press('start')
    lab.clock.set_by_ns = 90 * 10**9
    assert 'was set by +90 s' in lab.desk.shown()['notice']
    assert lab.desk.state.phase.value == 'running'


def test_the_seed_lies_outside_and_only_its_hash_inside(lab):
    seed, = lab.home.iterdir()
    assert stat.S_IMODE(seed.stat().st_mode) == 0o600
    first = [json.loads(line)['move'] for line in
             (lab.folder / JOURNAL).read_text(encoding='utf-8').splitlines()][:2]
    assert sorted(first) == ['declared', 'sealed']
    assert study_seed(lab.folder, lab.home) == seed.read_text(encoding='ascii').strip()
    seed.write_text('0' * 32, encoding='ascii')
    with pytest.raises(ConfigError, match='does not have the seed'):
        study_seed(lab.folder, lab.home)
    seed.unlink()
    with pytest.raises(ConfigError, match='the computer and as the user that began it'):
        study_seed(lab.folder, lab.home)
    with pytest.raises(ConfigError, match='would lie in the study'):
        study_seed(lab.home.parent, lab.home)


def test_a_changed_study_needs_a_reason(lab):
    lab.run_trial()
    lab.study = dataclasses.replace(lab.study, repeats=5)
    lab.desk.close()
    with pytest.raises(ConfigError, match='say why it was changed'), lab.new_desk():
        pass
    shown = again(lab, reason='more rounds')
    assert (shown['trial'], shown['total']) == (1, 10)


def test_another_program_on_the_same_study_is_refused(lab):
    with pytest.raises(SessionError, match='a session node or arena blind'), lab.new_desk():
        pass


def test_nothing_tells_which_policy_is_which(lab):
    """A study of which each trial is void once: seed and order are in no file and no sentence."""
    seed = study_seed(lab.folder, lab.home)
    shown = [lab.desk.shown()]
    while lab.desk.state.phase.value != 'done':
        lab.press('start')
        lab.desk.failed(lab.desk.admit('robot'), 'the policy failed')
        shown.append(lab.desk.shown())
        lab.run_trial()
        shown.append(lab.desk.shown())
    after = (lab.folder / JOURNAL).read_text(encoding='utf-8').splitlines()[2:]
    said = [*after, *lab.told, *map(json.dumps, shown), *map(repr, lab.desk.trials),
            repr(lab.desk.state), *(path.name for path in lab.folder.iterdir())]
    assert len(said) > 30
    for word in (seed, 'azure-one', 'olive-two', *(server.address.partition('://')[2]
                                                   for server in lab.servers.values())):
        assert [text for text in said if word in text] == [], word
    assert seed not in (lab.folder / JOURNAL).read_text(encoding='utf-8')


def test_a_sequential_study_says_when_its_test_has_decided(tmp_path, policies):
    rule = DecisionRule(stopping=Stopping.SEQUENTIAL)
    with Lab(tmp_path, policies, study(*policies, rounds=40, decision=rule)) as lab:
        while not lab.desk.shown()['decided']:
            assert lab.desk.state.phase.value == 'ready', 'it never decides'
            lab.press('start')
            best = lab.desk.trial.arm == 'azure-one'
            lab.press('end')
            if lab.press('score', success=best) == 'judging':
                lab.press('judge', preference='TIE')
        assert 10 < lab.desk.state.done < 40
        assert again(lab)['decided']
        lab.press('undo')
        assert not lab.desk.shown()['decided']
        lab.press('judge', preference='TIE')
        assert lab.press('reveal') == 'revealed'
        assert study_result(read_study(lab.folder)).contrasts[0].better == 'azure-one'


def test_a_plan_of_more_pairs_than_two_policies(tmp_path, policies):
    with pytest.raises(ValueError, match='compares two arms'):
        Lab(tmp_path, policies, study('a', 'b', 'c'))


@pytest.mark.parametrize('seed', range(8))
def test_any_buttons_in_any_order_and_kills_lose_nothing(lab, seed):
    """What counts in the journal is what the desk has done, also in a new process."""
    chance, refused = random.Random(seed), 0
    words = {'score': YES, 'judge': {'preference': 'B'}, 'void': {'reason': 'bumped'}}
    for _ in range(150):
        name = chance.choice([*MOVES, 'score', 'judge', 'end', 'ask', 'fail', 'kill', 'draft'])
        before = lab.desk.state
        try:
            if name == 'ask':
                lab.desk.check(lab.desk.admit('robot'))
            elif name == 'fail' and chance.random() < 0.3:
                lab.desk.failed(lab.desk.admit('robot'), 'the policy failed')
            elif name == 'kill':
                runs = before.phase.value in ('running', 'paused')
                shown = again(lab)
                assert runs or (shown['phase'], shown['draft']) == (before.phase, before.draft)
            elif name == 'draft':
                lab.desk.draft({'progress': 10})
            elif name in MOVES and name != 'reveal':
                lab.press(name, **words.get(name, {}))
        except (Conflict, PolicyRefused):
            refused += 1
            assert lab.desk.state is before, 'a refused button changes nothing'
        lab.clock.advance_ns(10**8)
        counted = [result for result in read_study(lab.folder).results if result.counts]
        assert [result.trial for result in counted] == list(range(1, lab.desk.state.done + 1))
    assert 0 < refused < 150
    assert read_study(lab.folder).results
