"""A scripted station behind the real page, and the page in a browser, for each test."""

import pytest
from console_rig import Page, Station

from arena_robot.web.console.app import ConsoleServer


@pytest.fixture
def station():
    station = Station()
    yield station
    station.end()


@pytest.fixture
def url(station):
    with ConsoleServer(station, port=0) as server:
        yield server.url
        station.end()


@pytest.fixture
def page(browser, station, url):
    return Page(browser, station, url)
