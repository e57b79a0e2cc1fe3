"""The phone's page of a blind study in headless Chromium at the size of a phone."""

import importlib.util
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from blind_rig import INSTRUCTION, SEEN, Lab, Numbered, study
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from arena_robot.blind.page import create_page
from arena_robot.blind.study import schedule
from arena_robot.blind.trials import read_study
from arena_robot.policy.connect import connect
from arena_robot.web.page_server import PageServer

WIDTH, HEIGHT, WAIT_S = 390, 844, 20.0
ARMS = ('azure', 'olive')
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations.filter(
  (one) => ['serious', 'critical'].includes(one.impact)).map(
    (one) => [one.id, one.nodes[0].html])));
"""
HEAR = """
window.heard = false;
if (!window.hears) document.addEventListener('click', () => { window.heard = true; }, true);
window.hears = true;
"""
WORDS = {'robot_stop': 'the red button on the left', 'report': 'arena study report study'}


@pytest.fixture
def lab(tmp_path):
    policies = {arm: ('openpi', Numbered(k)) for k, arm in enumerate(ARMS, 1)}
    plan = study(*policies, rounds=1, stages=('grasped', 'carried', 'placed'))
    with Lab(tmp_path, policies, plan) as made:
        yield made


@pytest.fixture
def server(lab):
    with PageServer(lambda token, hosts: create_page(lab.desk, token, hosts, WORDS),
                    '127.0.0.1', 0, token='t0ken') as made:
        yield made


class Phone:
    """A person with the page on a phone."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': WIDTH, 'height': HEIGHT, 'deviceScaleFactor': 2, 'mobile': True})
        browser.get(url)
        browser.execute_script('localStorage.clear()')

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def until(self, look, missed):
        return WebDriverWait(self.browser, WAIT_S, 0.05, [StaleElementReferenceException]).until(
            lambda _: look(), missed)

    def phase(self, name):
        self.until(lambda: self.browser.execute_script(
            'return document.body.dataset.phase') == name, name)
        wide = self.browser.execute_script('return document.documentElement.scrollWidth')
        assert wide <= WIDTH, f'{name} is {wide} pixels wide'
        text = self.browser.page_source
        assert name == 'revealed' or not [arm for arm in ARMS if arm in text], 'a policy is named'

    def serious(self, axe):
        """Return what axe-core finds serious on the page as it is."""
        self.until(lambda: all(button.is_enabled() for button in self.browser.find_elements(
            By.CSS_SELECTOR, '#actions button')), 'buttons')
        self.browser.execute_script(axe)
        found = []
        for theme in ('light', 'dark'):
            self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
                'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
            found += [(theme, *row) for row in self.browser.execute_async_script(AXE)]
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})
        return found

    def press(self, css):
        """Press a button once it may be pressed."""
        self.until(lambda: self.browser.find_elements(By.CSS_SELECTOR, css)
                   and self.find(css).is_enabled(), css)
        self.browser.execute_script(
            'arguments[0].scrollIntoView({block: "center"})', self.find(css))
        self.until(lambda: self.find(css).is_enabled() and self._clicked(css), css)

    def judge(self, reason):
        """Type a reason from right to left, and go on with Ctrl+Enter."""
        self.find('#reason').send_keys(reason)
        assert self.browser.execute_script(
            "return getComputedStyle(document.getElementById('reason')).direction") == 'rtl'
        self.until(lambda: self.find('#judge').is_enabled(), 'the button')
        self.find('#reason').send_keys(Keys.CONTROL, Keys.ENTER)

    def _clicked(self, css):
        """Click; return whether the page took it, which it does of a button that stands still."""
        self.browser.execute_script(HEAR)
        self.find(css).click()
        return self.browser.execute_script('return window.heard')


@pytest.fixture
def phone(browser, server):
    yield Phone(browser, server.url)
    browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


def test_a_study_on_the_phone(phone, lab):
    phone.phase('ready')
    assert INSTRUCTION in phone.find('.task').text
    phone.find('#evaluator').send_keys('ada')
    with connect(lab.address('openpi')) as robot:
        phone.press('#start')
        phone.phase('running')
        assert 'has not asked yet' in phone.find('#robot').text
        assert 'the red button on the left' in phone.find('#panel').text
        robot.infer(SEEN, 'e')
        phone.until(lambda: 'gets its actions' in phone.find('#robot').text, 'the robot')
        phone.press('#pause')
        phone.phase('paused')
        phone.press('#resume')
        phone.phase('running')
    phone.press('#end')
    phone.phase('scoring')
    phone.until(lambda: phone.browser.execute_script(
        "return document.querySelector('#clips video')?.videoWidth"), 'the video of the trial')
    phone.press('#success [data-value=true]')
    phone.press('#stage [data-value=placed]')
    phone.press('#score')
    phone.phase('ready')
    phone.until(lambda: 'Trial 2 of 2 · B' in phone.find('#count').text, 'the next trial')
    phone.press('#start')
    phone.press('#end')
    phone.press('#success [data-value=false]')
    phone.press('#score')
    phone.phase('judging')
    phone.press('#preference [data-value=A]')
    phone.judge('لم يتحرك B')
    phone.phase('done')
    phone.press('#reveal')
    phone.phase('revealed')
    first, second = read_study(lab.folder).with_arms()
    assert (first.success, first.stage, first.evaluator, first.interventions) == (
        True, 'placed', 'ada', 1)
    assert (second.success, second.preference.value, second.reason) == (
        False, 'A', 'لم يتحرك B')


def test_what_is_typed_survives_a_reload_and_another_phone(phone, lab):
    lab.run_trial()
    for name, words in (('start', {}), ('end', {}), ('score', {'success': True})):
        lab.press(name, **words)
    phone.phase('judging')
    phone.find('#reason').send_keys('it hesi')
    phone.press('#preference [data-value=B]')
    phone.browser.refresh()
    phone.phase('judging')
    assert phone.find('#reason').get_attribute('value') == 'it hesi'
    phone.until(lambda: lab.desk.shown()['draft'].get('reason') == 'it hesi', 'the draft')
    phone.browser.execute_script('localStorage.clear()')    # another phone
    phone.browser.refresh()
    phone.phase('judging')
    assert phone.find('#reason').get_attribute('value') == 'it hesi'
    assert phone.find('#preference .chosen').text == 'B'


def test_a_person_runs_a_trial(phone, lab):
    phone.phase('ready')
    phone.find('#seen summary').click()
    assert 'watches the GPU machines' in phone.find('#seen').text
    phone.find('#human summary').click()
    phone.press('#human-yes')
    phone.phase('running')
    assert 'No query passes' in phone.find('#robot').text
    assert not phone.browser.find_elements(By.CSS_SELECTOR, '#pause')
    phone.press('#end')
    phone.press('#success [data-value=true]')
    phone.press('#score')
    phone.phase('ready')
    phone.until(lambda: 'Trial 1 of 2' in phone.find('#count').text, 'the first trial')
    assert [result.human for result in read_study(lab.folder).results] == [True]


def test_a_trial_is_taken_back_and_thrown_away(phone, lab):
    phone.press('#start')
    phone.press('#undo')
    phone.phase('ready')
    phone.press('#start')
    phone.phase('running')
    phone.find('#void summary').click()
    phone.find('#void-reason').send_keys('the cup fell')
    phone.press('#void-yes')
    phone.phase('ready')
    assert read_study(lab.folder).results[0].void == 'the cup fell'


@pytest.fixture(scope='module')
def axe():
    spec = importlib.util.find_spec('axe_core_python')
    if spec is None:
        pytest.skip('axe-core-python is not installed (make setup installs it)')
    return (Path(spec.submodule_search_locations[0]) / 'axe.min.js').read_text(encoding='utf-8')


def test_every_phase_can_be_read_by_everybody(phone, lab, axe):
    found = {}
    lab.run_trial()
    for name, words in (('rest', {}), ('back', {}), ('start', {}), ('pause', {}), ('end', {}),
                        ('score', {'success': True}), ('judge', {'preference': 'A'}),
                        ('reveal', {'reason': 'it is late'})):
        lab.press(name, **words)
        phone.phase(lab.desk.state.phase.value)
        found[name] = phone.serious(axe)
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_a_test_that_has_decided_ends_the_study_without_a_reason(phone, lab, monkeypatch):
    monkeypatch.setattr('arena_robot.blind.desk.is_decided', lambda record, seed: True)
    lab.desk.trials = schedule(study(*lab.policies, rounds=2), 'seed')    # one block is enough
    lab.run_trial()
    lab.run_trial()
    phone.until(lambda: phone.browser.find_elements(By.CSS_SELECTOR, '#decided'), 'the decision')
    phone.press('#reveal')
    phone.phase('revealed')
    assert read_study(lab.folder).seed


def call(url, method='GET', **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10.0) as reply:
        return json.load(reply)


def test_a_pedal_takes_over(server, lab):
    base, key = server.url.partition('?')[0], {'Authorization': 'Bearer t0ken'}
    lab.press('start')
    assert call(f'{base}pause', 'POST', **key)['phase'] == 'paused'
    assert call(f'{base}resume', 'POST', **key)['phase'] == 'running'
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(f'{base}resume', 'POST', **key)
    with caught.value:
        assert caught.value.code == 409


def test_only_the_link_opens_the_page(server):
    base = server.url.partition('?')[0]
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(f'{base}api/state')
    with caught.value:
        assert caught.value.code == 401
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(f'{base}pause', 'POST', Authorization='Bearer t0ken', Origin='http://evil.example')
    with caught.value:
        assert caught.value.code == 403
