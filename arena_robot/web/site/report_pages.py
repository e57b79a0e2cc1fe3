"""Pages of the reports on policies, what changed, and what people say of their citations."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from fastapi.templating import Jinja2Templates

from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.reports.policy_report.render import HOW, as_markdown, difference_of, head_words
from arena_robot.reports.policy_report.statements import SECTIONS, PolicyReport, report_from_json
from arena_robot.server.base import Caller, Role
from arena_robot.server.store.reports import CitationChecks, CitationOpinion, Reports, StoredReport
from arena_robot.web.bounds import FORM_BYTES

WORDS = {'holds': True, 'fails': False}


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
        content = read_report(stored)
        opinion = checks.of(name, stored.number)
        return pages.TemplateResponse(request, 'report.html', {
            'report': content, 'stored': stored, 'head': head_words(content), 'how': HOW,
            'said': opinion, 'opinions': opinion_words(content, opinion),
            'others': [r for r in reports.list(name) if r.number != stored.number]})

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
        content: dict[str, Any] = json.loads(reports.get(name, number).content)
        return content


def _add_pair(app: FastAPI, pages: Jinja2Templates, reports: Reports) -> None:
    """Add the page with the newest reports on two policies, section by section."""
    @app.get('/reports/versus', response_class=HTMLResponse, include_in_schema=False)
    def pair(request: Request, a: str, b: str) -> Response:
        shown = [(stored, read_report(stored)) for stored in map(reports.get, (a, b))]
        return pages.TemplateResponse(request, 'report_pair.html', {
            'titles': SECTIONS, 'how': HOW, 'pair': [
                {'stored': stored, 'report': report, 'head': head_words(report)}
                for stored, report in shown]})


def places_of(report: PolicyReport) -> set[str]:
    """Return the places of a report's citations: section.statement.citation, from 0."""
    return {f'{s}.{t}.{c}' for s, section in enumerate(report.sections)
            for t, statement in enumerate(section.statements)
            for c in range(len(statement.citations))}


def opinion_words(report: PolicyReport, by_place: Mapping[str, CitationOpinion]) -> str:
    """Return how many citations people checked and what they found, as a sentence."""
    places = places_of(report)
    opinions = [by_place[place] for place in places if place in by_place]
    good = sum(opinion.holds > opinion.fails for opinion in opinions)
    bad = sum(opinion.fails > opinion.holds for opinion in opinions)
    split = f', {len(opinions) - good - bad} are disputed' if len(opinions) > good + bad else ''
    return (f'People checked {len(opinions)} of {len(places)} citations: {good} are about their '
            f'statement, {bad} are not{split}.')


def add_citation_checks(app: FastAPI, reports: Reports, checks: CitationChecks,
                        caller: Callable[[str], Caller]) -> None:
    """Add the address of the buttons; the token is in the body of the form and not stored."""
    @app.post('/policies/{name}/reports/{number}/checks', include_in_schema=False)
    async def check(request: Request, name: str, number: int) -> Response:
        form = parse_qs((await request.body())[:FORM_BYTES].decode('utf-8', 'replace'))
        values = {key: value[0].strip() for key, value in form.items()}
        opinion = await run_in_threadpool(stored, name, number, values)
        if 'application/json' in request.headers.get('accept', ''):
            return JSONResponse({'holds': opinion.holds, 'fails': opinion.fails})
        return RedirectResponse(f'/policies/{name}/reports/{number}', 303)

    def stored(name: str, number: int, values: Mapping[str, str]) -> CitationOpinion:
        person = caller(values.get('token', ''))
        if Role.STATION in person.roles:
            raise Unauthorised('a person checks a citation, no station')
        word, _, place = values.get('said', '').partition(' ')
        if word not in WORDS or place not in places_of(read_report(reports.get(name, number))):
            raise DataError(f"said is '{values.get('said', ''):.40}'; it has to be holds or fails "
                            'and the place of a citation of this report')
        checks.add(name, number, place, WORDS[word], person.name)
        return checks.of(name, number)[place]


def read_report(stored: StoredReport) -> PolicyReport:
    """Return a stored report; DataError when it cannot be read."""
    return report_from_json(json.loads(stored.content),
                            f'report {stored.number} on {stored.policy}')
