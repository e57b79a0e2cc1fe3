"""Drafts, also what was cleared, and checks of instructions."""

import dataclasses

import pytest
from test_session_machine import until

from arena_robot.core.episode import Preference
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import Asked, Verdict
from arena_robot.session.evaluator.checks import (
    EXAMPLES,
    check_instruction,
    check_said,
    instruction_problem,
    is_repeat,
)
from arena_robot.session.evaluator.desk import shown
from arena_robot.session.protocol.record import replay
from arena_robot.session.protocol.states import State


def test_drafts_are_kept_until_the_words_are_final():
    session = until(State.PREFERENCE)
    session.draft({'explanation': 'B was fas', 'preference': 'B', 'progress_a': 0.5})
    session.draft({'notes': 'cable in the way'})
    assert session.record.draft == {'explanation': 'B was fas', 'preference': 'B',
                                    'progress_a': 0.5, 'notes': 'cable in the way'}
    for words, problem in (({'progress_a': float('nan')}, 'from 0 to 1'),
                           ({'progress_a': 1.5}, 'from 0 to 1'),
                           ({'preference': 'C'}, 'choose A, TIE or B'),
                           ({'valid': False}, "no 'valid'"), ({'color': 'red'}, "no 'color'"),
                           ({'evaluator': 'eve'}, "evaluator cannot be changed in 'preference'"),
                           ({'instruction': 'x'}, "cannot be changed in 'preference'")):
        with pytest.raises(SessionError, match=problem):
            session.draft(words)
    session.judge(Verdict(preference=Preference.B, explanation='B was faster than A'))
    assert session.record.draft == {'progress_a': 0.5}


def test_what_was_cleared_stays_cleared_after_a_reload():
    session = until(State.PREFERENCE)
    session.draft({'notes': 'cable', 'lighting': 'dim', 'progress_a': 0.5})
    session.draft({'notes': '', 'lighting': None})
    again = replay(session.journal.entries)
    assert shown(again).draft == dataclasses.replace(again.verdict, progress_a=0.5)
    session.judge(Verdict(preference=Preference.B, explanation='B was faster than A',
                          notes='said'))
    session.draft({'notes': '', 'explanation': ''})
    again = replay(session.journal.entries)
    assert again.verdict.notes == 'said'
    assert (shown(again).draft.notes, shown(again).draft.explanation) == ('', '')


def test_evaluator_and_instruction_are_kept_as_they_were_typed_and_cleared():
    session = until(State.PREFLIGHT)
    session.draft({'evaluator': 'ad', 'instruction': 'put the'})
    again = replay(session.journal.entries)
    assert (shown(again).evaluator, shown(again).draft_instruction) == ('ad', 'put the')
    session.draft({'instruction': ''})
    assert shown(replay(session.journal.entries)).draft_instruction == ''
    session.enter_task('ada', 'put the cube in the bowl')
    assert shown(session.record).draft_instruction == 'put the cube in the bowl'


@pytest.mark.parametrize('text', EXAMPLES)
def test_the_examples_are_instructions(text):
    assert check_instruction(f'  {text}\n') == text


@pytest.mark.parametrize('text', [
    '把红色方块放进碗里', '关抽屉', '引き出しを閉める', 'दराज़ बंद करो', 'أغلق الدرج العلوي',
    'ปิดลิ้นชัก', '서랍을 닫아', 'schließ die Schublade'])
def test_instructions_in_every_script(text):
    assert check_instruction(text) == text


def test_a_reason_is_as_long_in_every_script():
    for text, is_enough in (('A先抓到方块', True), ('A更快', False), ('A रुक गया, B नहीं', True),
                            ('A أسرع من B', True), ('A won', False)):
        said = Verdict(preference=Preference.A, explanation=text)
        if is_enough:
            assert check_said(said, Asked.JUDGE)['explanation'] == text
        else:
            with pytest.raises(SessionError, match='in a sentence'):
                check_said(said, Asked.JUDGE)


@pytest.mark.parametrize(('text', 'problem'), [
    ('', 'type what'), (' \t\n', 'type what'), ('grasp', 'one word'), ('!!! ???', 'one word'),
    ('抓取', 'one word'), ('拾う', 'one word'), ('दराज़', 'one word'), ('أغلق', 'one word'),
    ('a ' * 200, 'at most 300')])
def test_what_is_no_instruction_is_told_why(text, problem):
    assert problem in instruction_problem(text)
    with pytest.raises(SessionError, match=problem):
        check_instruction(text)


def test_a_repetition_must_be_meant():
    earlier = ['Put the cube in the bowl.']
    assert is_repeat('put  the CUBE in the bowl', earlier)
    assert not is_repeat('put the cube on the bowl', earlier)
    assert not is_repeat('कप के पास', ['कप का पास']), 'they differ in a mark'
    assert is_repeat('关 抽屉。', ['关抽屉'])
    with pytest.raises(SessionError, match='earlier today'):
        check_instruction('put the cube in the bowl', earlier)
    assert check_instruction('put the cube in the bowl', earlier, repeat=True)
