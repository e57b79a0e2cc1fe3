"""What people say of a report's citations, in one click each."""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response

from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.reports.policy_report.statements import PolicyReport
from arena_robot.server.base import Caller, Role
from arena_robot.server.store.citation_checks import CitationChecks, CitationOpinion
from arena_robot.server.store.reports import Reports
from arena_robot.web.bounds import FORM_BYTES
from arena_robot.web.site.stored_report import read_report

WORDS = {'holds': True, 'fails': False}


def places_of(report: PolicyReport) -> set[str]:
    """Return the places of a report's citations: section.statement.citation, from 0."""
    return {f'{s}.{t}.{c}' for s, section in enumerate(report.sections)
            for t, statement in enumerate(section.statements)
            for c in range(len(statement.citations))}


def opinion_words(report: PolicyReport, said: Mapping[str, CitationOpinion]) -> str:
    """Return how many citations people checked and what they found, as a sentence."""
    places = places_of(report)
    told = [said[place] for place in places if place in said]
    good = sum(one.holds > one.fails for one in told)
    bad = sum(one.fails > one.holds for one in told)
    split = f', {len(told) - good - bad} are disputed' if len(told) > good + bad else ''
    return (f'People checked {len(told)} of {len(places)} citations: {good} are about their '
            f'statement, {bad} are not{split}.')


def add_citation_checks(app: FastAPI, reports: Reports, checks: CitationChecks,
                        caller: Callable[[str], Caller]) -> None:
    """Add the address of the buttons; the token is in the body of the form and not stored."""
    @app.post('/policies/{name}/reports/{number}/checks', include_in_schema=False)
    async def check(request: Request, name: str, number: int) -> Response:
        form = parse_qs((await request.body())[:FORM_BYTES].decode('utf-8', 'replace'))
        given = {key: value[0].strip() for key, value in form.items()}
        said = await run_in_threadpool(stored, name, number, given)
        if 'application/json' in request.headers.get('accept', ''):
            return JSONResponse({'holds': said.holds, 'fails': said.fails})
        return RedirectResponse(f'/policies/{name}/reports/{number}', 303)

    def stored(name: str, number: int, given: Mapping[str, str]) -> CitationOpinion:
        person = caller(given.get('token', ''))
        if Role.STATION in person.roles:
            raise Unauthorised('a person checks a citation, no station')
        word, _, place = given.get('said', '').partition(' ')
        if word not in WORDS or place not in places_of(read_report(reports.get(name, number))):
            raise DataError(f"said is '{given.get('said', ''):.40}'; it has to be holds or fails "
                            'and the place of a citation of this report')
        checks.add(name, number, place, WORDS[word], person.name)
        return checks.of(name, number)[place]
