"""A citation of a report in the browser: its moment in both films, and what a person says."""

import json

import pytest
from selenium.webdriver.support.ui import WebDriverWait

from arena_robot.core.clock import SystemClock
from arena_robot.reports.policy_report.statements import (
    CheckCounts,
    Citation,
    PolicyReport,
    ReportSection,
    Statement,
    report_to_json,
)
from arena_robot.server.store.reports import Reports


def a_citation_leads_to_its_moment(place, browser, times):
    """Follow a report's citation to both films at its second, and say that it holds."""
    wait = WebDriverWait(browser, 20)
    Reports(place.server.database, SystemClock()).add('crimson-7b', 1, 'statistics', json.dumps(
        report_to_json(PolicyReport('crimson-7b', '2026-01-01', 1, (ReportSection('Strengths', (
            Statement('Seen.', citations=(Citation(place.sessions[0], at_s=2.4),)),)),),
            CheckCounts(citations=1)))))
    browser.get(f'{place.web.address}/policies/crimson-7b/report')
    browser.find_element('css selector', '#checks [name=token]').send_keys(place.token)
    said = browser.find_element('css selector', '.opinion output')
    wait.until(lambda _: browser.execute_script('return document.readyState') == 'complete')
    for word, then in (('holds', 'yes 1, no 0'), ('fails', 'yes 0, no 1')):
        browser.find_element('css selector', f'button[value="{word} 0.0.0"]').click()
        wait.until(lambda _, then=then: said.text == then)
    browser.find_element('css selector', '.report a').click()
    wait.until(lambda b: b.execute_script(times % 'v => v.currentTime') == pytest.approx(
        [2.4, 2.4], abs=0.05))
    assert browser.current_url.endswith('#t=2.4')
