"""A scripted station behind the real page, and the page in a browser, for each test."""

import pytest
from console_rig import Page, Station

from arena_robot.server import renewed_values
from arena_robot.web.console.app import ConsoleServer


@pytest.fixture(scope='session', autouse=True)
def no_rest():
    """Have the site make pictures and results without rests, so that tests need not wait."""
    rest, renewed_values.REST = renewed_values.REST, 0.0
    yield
    renewed_values.REST = rest


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
