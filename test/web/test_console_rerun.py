"""After a failure of the station: run the slot again, recover the arm, activate the gripper."""

from arena_robot.core.episode import Slot
from arena_robot.session.evaluator.desk import HINTS, SlotView
from arena_robot.session.ports import Check
from arena_robot.session.protocol.states import State

FAILED = SlotView(Slot.A, 'driver_error', 'left camera: no frame; check its cable', 12,
                  again='fault')
AGAIN = [('press', 'rerun', ''), ('press', 'prepare_reset', '')]


def has(page, css):
    return bool(page.browser.find_elements('css selector', css))


def test_the_main_button_runs_the_slot_again(page, station):
    page.shows(State.SCORING_A, slots=(FAILED, SlotView(Slot.B)))
    assert page.find('#primary').text.startswith('Run A again')
    assert 'check its cable' in page.find('#panel').text
    assert not has(page, '#progress')
    page.press('#primary')
    page.until(lambda: station.asked('press') == AGAIN, 'not run again')


def test_scoring_asks_and_can_be_declined(page, station):
    page.shows(State.SCORING_A, slots=(FAILED, SlotView(Slot.B)))
    page.press('#score-anyway')
    assert 'The station failed, not the policy' in page.find('#question').text
    assert page.focused().get_attribute('id') == 'no'
    page.press('#no')
    assert not has(page, '#progress')
    page.press('#score-anyway')
    page.press('#yes')
    page.press('[data-mark="50"]')
    page.press('#primary')
    page.until(lambda: station.asked('press') == AGAIN[1:], 'not scored')
    assert station.asked('score')


def test_a_mistake_needs_its_reason(page, station):
    done = SlotView(Slot.B, 'stopped', '', 12, reruns=1, again='mistake')
    page.shows(State.SCORING_B, slots=(SlotView(Slot.A, 'done', '', 9), done))
    assert page.find('#primary').text.startswith('Keep the score')
    assert 'run again once' in page.find('#reruns').text
    page.browser.execute_script("document.getElementById('mistake').scrollIntoView()")
    page.press('#mistake')
    page.press('#yes')
    assert page.find('#ask').is_displayed(), 'a reason is needed'
    page.find('#answer').send_keys('the bowl was upside down')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [
        ('press', 'rerun', 'the bowl was upside down'), AGAIN[1]], 'not run again')


def test_what_cannot_be_run_again_is_scored(page):
    page.shows(State.SCORING_A, slots=(
        SlotView(Slot.A, 'driver_error', '', 12, reruns=2), SlotView(Slot.B)))
    assert has(page, '#progress')
    assert not has(page, '#mistake')
    assert 'run again 2 times' in page.find('#reruns').text


def test_the_reset_starts_the_slot_that_is_next(page, station):
    page.shows(State.RESET, slots=(SlotView(Slot.A, reruns=1), SlotView(Slot.B)))
    assert page.find('#primary').text.endswith('start A')
    page.press('#primary')
    page.until(lambda: station.asked('start') == [('start', Slot.A)], 'A does not run')
    page.shows(State.RESET, match=0.1, matches={'left_left': 0.1})
    assert HINTS[State.RESET] == page.find('#panel h2').text
    page.until(lambda: page.find('#primary').text.endswith('start B'), 'B is not next')


def test_an_arm_in_a_reflex_is_recovered_by_the_typed_word_and_checked_again(page, station):
    page.shows(State.PREFLIGHT, checks=(Check('arm', False, 'arm: it is in REFLEX'),))
    assert not has(page, '#recover'), 'the arm does not say so now'
    page.shows(State.PREFLIGHT, checks=(Check('arm', False, 'arm: it is in REFLEX'),),
               repairs=('recover',))
    page.until(lambda: has(page, '#recover'), 'no button')
    assert 'stopped by itself' in page.find('#panel .bad').text
    assert not has(page, '#activate_gripper')
    page.press('#recover')
    assert 'may move a little' in page.find('#question').text
    page.press('#yes')
    assert page.find('#ask').is_displayed(), 'the word is needed'
    page.find('#answer').send_keys('clear')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [
        ('press', 'recover', 'clear'), ('press', 'check', '')], 'not recovered')


def test_the_gripper_is_activated_before_a_motion_and_not_during_one(page, station):
    page.shows(State.RUNNING_B)
    assert not has(page, '#activate_gripper')
    page.shows(State.RESET, repairs=('activate_gripper',))
    page.press('#activate_gripper')
    assert 'fingers open and close fully' in page.find('#question').text
    page.press('#no')
    assert not station.asked('press')
    page.press('#activate_gripper')
    page.find('#answer').send_keys('clear')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [('press', 'activate_gripper', 'clear')],
               'not activated')
