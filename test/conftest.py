"""
What tests of several rooms share: a headless Chromium, and patience with a busy machine.

Tests of these rooms run real processes, threads and sockets in real time. One that fails
there is run again, at most twice, and shown as rerun: what is broken fails three times.
"""

import shutil
from pathlib import Path

import pytest

REAL_TIME = ('nodes/', 'web/', 'drivers/', 'cli/', 'server/', 'policy/', 'recording/', 'session/')
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.relative_to(HERE).as_posix().startswith(REAL_TIME):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2))


@pytest.fixture(scope='session')
def browser(tmp_path_factory):
    """A Selenium driver of headless Chromium, 1280 x 900."""
    webdriver = pytest.importorskip('selenium.webdriver', reason='selenium is missing')
    chromium, chromedriver = shutil.which('chromium'), shutil.which('chromedriver')
    if not chromium or not chromedriver:
        pytest.skip('chromium or chromedriver is missing: apt-get install chromium-driver')
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic',
                     '--no-first-run', '--disable-background-networking', '--disable-sync',
                     '--disable-component-update', '--disable-dev-shm-usage',
                     '--hide-scrollbars', '--window-size=1280,900',
                     f'--user-data-dir={tmp_path_factory.mktemp("chromium")}'):
        options.add_argument(argument)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=chromedriver))
    driver.set_page_load_timeout(30.0)
    yield driver
    driver.quit()
