import pytest

from arena_robot.core.errors import SessionError
from arena_robot.session.evaluator.checks import (
    EXAMPLES,
    check_instruction,
    instruction_problem,
    is_repeat,
)


@pytest.mark.parametrize('text', EXAMPLES)
def test_the_examples_are_instructions(text):
    assert check_instruction(f'  {text}\n') == text


@pytest.mark.parametrize(('text', 'problem'), [
    ('', 'type what'), (' \t\n', 'type what'), ('grasp', 'one word'), ('!!! ???', 'one word'),
    ('a ' * 200, 'at most 300')])
def test_what_is_no_instruction_is_told_why(text, problem):
    assert problem in instruction_problem(text)
    with pytest.raises(SessionError, match=problem):
        check_instruction(text)


def test_a_repetition_must_be_meant():
    earlier = ['Put the cube in the bowl.']
    assert is_repeat('put  the CUBE in the bowl', earlier)
    assert not is_repeat('put the cube on the bowl', earlier)
    with pytest.raises(SessionError, match='earlier today'):
        check_instruction('put the cube in the bowl', earlier)
    assert check_instruction('put the cube in the bowl', earlier, repeat=True)
