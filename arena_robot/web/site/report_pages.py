"""Pages of the reports on policies: the newest, each by its number, and what changed."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.reports.policy_report.difference import difference_of
from arena_robot.reports.policy_report.render import HOW, as_markdown, head_words
from arena_robot.reports.policy_report.statements import SECTIONS
from arena_robot.server.store.citation_checks import CitationChecks
from arena_robot.server.store.reports import Reports
from arena_robot.web.site.citation_pages import opinion_words
from arena_robot.web.site.stored_report import read_report


def add_report_pages(app: FastAPI, pages: Jinja2Templates, reports: Reports,
                     checks: CitationChecks) -> None:
    """Add the pages to the site."""
    pages.env.globals['reports_on'] = reports.list
    _add_pair(app, pages, reports)

    @app.get('/policies/{name}/report', include_in_schema=False)
    def newest(name: str) -> Response:
        return RedirectResponse(f'/policies/{name}/reports/{reports.get(name).number}')

    @app.get('/policies/{name}/reports/{number}', response_class=HTMLResponse,
             include_in_schema=False)
    def report(request: Request, name: str, number: int) -> Response:
        stored = reports.get(name, number)
        found = read_report(stored)
        said = checks.of(name, stored.number)
        return pages.TemplateResponse(request, 'report.html', {
            'report': found, 'stored': stored, 'head': head_words(found), 'how': HOW,
            'said': said, 'opinions': opinion_words(found, said),
            'others': [one for one in reports.list(name) if one.number != stored.number]})

    @app.get('/policies/{name}/reports/{number}/changes', response_class=HTMLResponse,
             include_in_schema=False)
    def changes(request: Request, name: str, number: int, since: int) -> Response:
        before, after = reports.get(name, since), reports.get(name, number)
        return pages.TemplateResponse(request, 'report_changes.html', {
            'before': before, 'after': after,
            'found': difference_of(read_report(before), read_report(after))})

    @app.get('/policies/{name}/reports/{number}/report.md', response_class=PlainTextResponse,
             include_in_schema=False)
    def markdown(request: Request, name: str, number: int) -> Response:
        return PlainTextResponse(as_markdown(read_report(reports.get(name, number)),
                                             str(request.base_url).rstrip('/')))

    @app.get('/api/policies/{name}/reports/{number}')
    def report_json(name: str, number: int) -> dict[str, Any]:
        """Return a report on a policy with its claims, citations and findings; 0: the newest."""
        found: dict[str, Any] = json.loads(reports.get(name, number).content)
        return found


def _add_pair(app: FastAPI, pages: Jinja2Templates, reports: Reports) -> None:
    """Add the page with the newest reports on two policies, section by section."""
    @app.get('/reports/versus', response_class=HTMLResponse, include_in_schema=False)
    def pair(request: Request, a: str, b: str) -> Response:
        shown = [(one, read_report(one)) for one in map(reports.get, (a, b))]
        return pages.TemplateResponse(request, 'report_pair.html', {
            'titles': SECTIONS, 'how': HOW, 'pair': [
                {'stored': one, 'report': found, 'head': head_words(found)}
                for one, found in shown]})
