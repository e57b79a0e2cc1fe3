"""A scripted station behind the real page, and the page in a browser, for each test."""

import pytest
from console_rig import Page, Station

from arena_robot.web.console.serve import ConsoleServer


@pytest.fixture
def station():
    return Station()


@pytest.fixture
def page(browser, station):
    with ConsoleServer(station, port=0) as server:
        yield Page(browser, station, server.url)
        station.end()
