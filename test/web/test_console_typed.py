"""What is typed on the evaluator's page survives a reload, a second tab, and a lost station."""

import dataclasses

import pytest
from console_rig import TASK, Station
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import NAMES, OPTIONAL, Extras, Verdict, with_said
from arena_robot.session.protocol.states import State


class Keeping(Station):
    """A station that keeps drafts, unless it refuses."""

    refuses = False

    def draft(self, words):
        if self.refuses:
            raise SessionError('refused')
        self.log.append(('draft', dict(words)))
        with self.changed:
            self.now = dataclasses.replace(self.now, draft=with_said(
                self.now.draft, {name: words[name] for name in words if name in NAMES}))
            self.changed.notify_all()


@pytest.fixture
def station():
    return Keeping()


def reload(page):
    page.browser.refresh()
    page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')


def value(page, css):
    return page.find(css).get_attribute('value')


def test_half_a_sentence_survives_a_reload_at_once(page, station):
    station.refuses = True    # also when the station has none of it
    page.shows(State.SCORING_A)
    page.press('[data-mark="75"]')
    page.find('#notes').send_keys('slow at the')
    reload(page)
    page.until(lambda: value(page, '#notes') == 'slow at the', 'lost')
    assert page.find('#percent').text == '75'
    station.refuses = False
    reload(page)    # what was refused is sent by the next page
    typed = {'progress_a': 0.75, 'notes_a': 'slow at the', 'unsafe_a': False}
    page.until(lambda: ('draft', typed) in station.log, 'what was not sent before is not sent')


def test_cleared_text_stays_cleared(page, station):
    page.shows(State.PREFERENCE, draft=Verdict(explanation='B was fas', preference='B'))
    page.until(lambda: value(page, '#explanation') == 'B was fas', 'no draft')
    page.find('#explanation').send_keys(Keys.CONTROL, 'a', Keys.NULL, Keys.BACKSPACE)
    reload(page)
    page.until(lambda: page.find('#panel h2').text.startswith('Which'), 'no panel')
    assert value(page, '#explanation') == ''
    assert page.find('#preference [aria-pressed=true]').get_attribute('data-value') == 'B'
    page.until(lambda: station.now.draft.explanation == '', 'the station keeps the old text')


def test_the_name_and_the_task_survive(page, station):
    page.shows(State.PREFLIGHT, evaluator='', instruction='', session_id='')
    assert 'ask Ada for deletion' in page.find('#consent').text, 'what the cameras see is told'
    page.find('#evaluator').send_keys('Grace H')
    page.find('#instruction').send_keys('open the dr')
    reload(page)
    page.until(lambda: value(page, '#evaluator') == 'Grace H', 'the name is lost')
    assert value(page, '#instruction') == 'open the dr'
    page.until(lambda: ('draft', {'evaluator': 'Grace H', 'instruction': 'open the dr'})
               in station.log, 'no draft')
    page.shows(State.PREFLIGHT, evaluator='', instruction='', session_id='', created_ns=7)
    page.until(lambda: value(page, '#instruction') == '', 'another session')
    assert value(page, '#evaluator') == 'Grace H'


def test_a_second_tab_shows_what_was_typed(page, station, browser):
    station.refuses = True
    page.shows(State.SCORING_B)
    page.find('#notes').send_keys('it dropped')
    first, url = browser.current_window_handle, browser.current_url
    browser.switch_to.new_window('tab')
    try:
        browser.get(url)
        page.until(lambda: value(page, '#notes') == 'it dropped', 'lost in a second tab')
    finally:
        browser.close()
        browser.switch_to.window(first)


@pytest.mark.parametrize(('css', 'words'), [('#invalidate', 'the table was bumped'),
                                            ('#abort', 'I must leave now')])
def test_the_answer_to_a_question_survives(page, css, words):
    page.shows(State.SCORING_A)
    page.press(css)
    page.find('#answer').send_keys(words)
    page.press('#no')
    page.press(css)
    assert value(page, '#answer') == words
    reload(page)
    page.press(css)
    assert value(page, '#answer') == words


def test_what_is_final_is_not_shown_as_typed(page, station):
    page.shows(State.SCORING_A)
    page.press('[data-mark="75"]')
    page.press('#primary')
    page.until(lambda: station.asked('score'), 'not scored')
    page.shows(State.RESET)
    page.shows(State.SCORING_A, draft=Verdict(progress_a=0.25))
    assert page.find('#percent').text == '25'


def test_the_chosen_outside_camera_is_sent_and_a_code_is_shown(page, station):
    page.shows(State.PREFLIGHT, session_id='', outside_cameras=('left', 'right'),
               third_person='left')
    choice = Select(page.find('#third-person'))
    assert choice.first_selected_option.text == 'left', "the station's own choice"
    choice.select_by_visible_text('right')
    page.find('#instruction').send_keys(TASK)
    page.press('#primary')
    page.until(lambda: station.asked('open_session'), 'not opened')
    assert station.asked('open_session') == [('open_session', 'ada', TASK, False, 'right')]
    page.shows(State.ASSIGNED, photo_code='K7F3')
    assert 'asks for a code: K7F3' in page.find('#photo-code').text


def test_a_report_that_a_policy_was_unsafe_is_seen_to_be_pressed(page):
    page.shows(State.SCORING_A)

    def colours():
        flag = page.find('.flag')
        return flag.value_of_css_property('background-color'), flag.get_attribute('aria-pressed')
    before = colours()
    page.press('.flag')
    page.until(lambda: colours()[1] == 'true', 'not pressed')
    assert colours()[0] != before[0]
    page.press('.flag')
    page.until(lambda: colours() == before, 'not taken back')


def test_only_what_a_station_asks_for_is_on_its_page(page, station):
    page.shows(State.SCORING_A)
    assert not page.browser.find_elements('css selector', ', '.join(f'#{key}' for key in OPTIONAL))
    station.asks = Extras(OPTIONAL, ('reach', 'grasp'), ('stuck', 'collision', 'lost'))
    reload(page)
    page.until(lambda: page.find('#stage').is_displayed(), 'not asked')
    page.press('[data-mark="25"]')
    for css in ('#success [data-value=no]', '#stage [data-value=reach]',
                '#stage [data-value=grasp]', '#failure_tags [data-value=lost]',
                '#failure_tags [data-value=stuck]', '#failure_tags [data-value=collision]',
                '#failure_tags [data-value=lost]'):
        page.press(css)
    page.find('#interventions').send_keys('2')
    page.find('#intervention_s').send_keys('3.5')
    said = {'success_a': 'no', 'stage_a': 'grasp', 'failure_tags_a': 'stuck; collision',
            'interventions_a': 2.0, 'intervention_s_a': 3.5, 'progress_a': 0.25}
    page.until(lambda: station.now.draft == with_said(Verdict(), said), 'not kept')
    reload(page)
    page.until(lambda: value(page, '#intervention_s') == '3.5', 'lost')
    page.press('#primary')
    page.until(lambda: station.asked('score'), 'not scored')
    assert station.asked('score') == [('score', 'A', with_said(Verdict(), said))]
    page.shows(State.REVIEW, verdict=with_said(Verdict(), said))
    shown = page.find('#review').text
    for words in ('Furthest stage of A', 'stuck; collision', '3.5 s'):
        assert words in shown
