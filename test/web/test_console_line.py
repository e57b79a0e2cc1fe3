"""STOP goes out by a request and by the line: each alone stops the arm, and the page tells."""

import pytest
from console_rig import Page

from arena_robot.session.protocol.states import State
from arena_robot.web.console.serve import ConsoleServer

NO_LINE = """
window.RealWebSocket = window.WebSocket;
window.WebSocket = function() { throw new Error('no way'); };"""


@pytest.fixture
def without_line(browser):
    """Open no WebSocket in pages that are loaded from now on."""
    made = browser.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': NO_LINE})
    yield
    browser.execute_cdp_cmd('Page.removeScriptToEvaluateOnNewDocument', made)


@pytest.fixture
def without_requests(page, browser):
    """Let no request for STOP out."""
    browser.execute_cdp_cmd('Network.enable', {})
    browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': ['*/api/stop?*']})
    yield
    browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': []})
    browser.execute_cdp_cmd('Network.disable', {})


def test_the_line_alone_stops_the_arm(page, without_requests):
    page.shows(State.RUNNING_A)
    page.stops(page.find('#stop').click, 'no request gets out')
    assert not page.find('#line').is_displayed()


def test_a_request_alone_stops_the_arm(without_line, page, browser):
    page.until(lambda: page.find('#line').is_displayed(), 'nothing says that the line is down')
    page.shows(State.RUNNING_A)
    page.stops(page.find('#stop').click, 'no line')
    browser.execute_script('window.WebSocket = window.RealWebSocket')
    page.until(lambda: not page.find('#line').is_displayed(), 'it is not connected again')


def test_the_line_comes_back_with_the_console(browser, station):
    with ConsoleServer(station, port=0) as server:
        page = Page(browser, station, server.url)
        port = int(server.url.rsplit(':', 1)[1].strip('/'))
    page.until(lambda: page.find('#line').is_displayed(), 'nothing says that the line is down')
    with ConsoleServer(station, port=port):
        page.until(lambda: not page.find('#line').is_displayed(), 'it is not connected again')
        page.until(lambda: 'does not answer' not in page.find('#problem').text, 'still lost')


def test_nothing_on_the_page_is_kept_from_loading(page, browser):
    page.shows(State.RESET)
    page.until(lambda: browser.execute_script(
        "return document.querySelector('figure .live').src.startsWith('blob:')"), 'no picture')
    assert [one for one in browser.get_log('browser')
            if 'Content Security Policy' in one['message']] == []
