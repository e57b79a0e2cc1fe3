"""
Audits of the newest evaluations: a profile per policy, and preference against audit.

Beside them the reports on policies, what changed, and what people say of their citations.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
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

from arena_robot.audit.aggregate import Audited, Fingerprint, Mean, fingerprints, summaries
from arena_robot.audit.opd import METRICS
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.ranking.pairwise.progress import MARGIN
from arena_robot.ranking.standings import plain
from arena_robot.records.audit_file import EpisodeAudit
from arena_robot.reports.audit_agreement import (
    FULL,
    ROWS,
    audit_winner,
    not_comparable,
    refusals_of,
    task_words,
    untrusted,
)
from arena_robot.reports.policy_report.render import HOW, as_markdown, difference_of, head_words
from arena_robot.reports.policy_report.statements import SECTIONS, PolicyReport, report_from_json
from arena_robot.server.base import Caller, Role
from arena_robot.server.renewed_values import RenewedValues
from arena_robot.server.store.browse import MOST, Browse, Evaluation, Filter
from arena_robot.server.store.reports import CitationChecks, CitationOpinion, Reports, StoredReport
from arena_robot.web.bounds import FORM_BYTES
from arena_robot.web.site.recorded import AuditCurves
from arena_robot.web.site.view_models import Gathered

PAGES = 5      # of the newest sessions, whose audits are compared with preferences
LOOKS = 200    # into stored files at a renewal; the next one looks at more sessions
RENEW_S = 30.0     # audits are added in the background, some in a minute
AGAIN_S = 600.0    # a session without an audit is looked at again
KEPT_REPORTS = 32    # the last ones that were read, of some 100 kB each
Winner = str


@dataclass(frozen=True)
class AuditedEvaluation:
    """One evaluation whose slots a judge audited; ``winner`` is empty where it cannot tell."""

    evaluation: Evaluation
    audits: Mapping[str, EpisodeAudit]
    winner: str

    @property
    def preference(self) -> str:
        """Return the preference that counts, or ''."""
        verdict = self.evaluation.verdict
        preference = verdict.preference if verdict.valid and self.evaluation.counts else None
        return preference.value if preference else ''

    @property
    def decisive(self) -> bool:
        """Tell whether neither the evaluator nor the audit calls it a tie."""
        return {self.preference, self.winner} <= {'A', 'B'}


@dataclass(frozen=True)
class AuditProfile:
    """
    One judge on one policy; ``rows`` are (which rollouts, means by metric, count).

    ``refused`` are metrics that some rollouts lack, with the reasons.
    """

    judge: str
    sessions: int
    metrics: tuple[str, ...]
    rows: tuple[tuple[str, Mapping[str, Mean], int], ...]
    fingerprints: tuple[Fingerprint, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlaceAgreement:
    """Agreement of preferences and audit at one institution ('' is all of them)."""

    name: str
    agree: int
    decisive: int


@dataclass(frozen=True)
class JudgeAgreement:
    """
    One judge against the preferences: everywhere, by institution, and where they differ.

    Nothing is compared with a judge that is ``untrusted``, for the reason given.
    """

    judge: str
    audited: int
    not_calibrated: int
    everywhere: PlaceAgreement
    places: tuple[PlaceAgreement, ...]
    against: tuple[AuditedEvaluation, ...]
    untrusted: str = ''


class AuditIndex:
    """
    Reads the audits of the newest 1000 evaluations, anew every half minute.

    One look reads the folders of up to 200 evaluations; one without audits is looked at again
    after ten minutes.
    """

    def __init__(self, browse: Browse, audits: AuditCurves, results: RenewedValues) -> None:
        self._browse, self._audits, self._results = browse, audits, results
        self._kept: dict[str, dict[str, AuditedEvaluation]] = {}
        self._empty: dict[str, float] = {}

    def by_judge(self) -> Mapping[str, list[AuditedEvaluation]]:
        """Return the audited evaluations by judge, newest first."""
        return self._results.get('audits', self._look, RENEW_S, slow=True, late=True)

    def profile(self, policy: str) -> list[AuditProfile]:
        """Return what each judge says of a policy; nothing where it was not audited."""
        def profiles() -> list[AuditProfile]:
            return [profile for judge, rows in self.by_judge().items()
                    if (profile := _profile(judge, rows, policy)) is not None]
        return self._results.get(('audits', policy), profiles, RENEW_S, slow=True, late=True)

    def agreement(self) -> list[JudgeAgreement]:
        """Return how far preferences and audits agree, by judge."""
        return self._results.get('agreement', lambda: [
            _agreement(judge, rows) for judge, rows in self.by_judge().items()], RENEW_S,
            slow=True, late=True)

    def _look(self) -> dict[str, list[AuditedEvaluation]]:
        by_judge: dict[str, list[AuditedEvaluation]] = {}
        key, left = '', LOOKS
        for _ in range(PAGES):
            page = self._browse.page(Filter(before=key, limit=MOST))
            for evaluation in page.evaluations:
                left -= self._look_at(evaluation, left > 0)
                for judge, audited in self._kept.get(evaluation.id, {}).items():
                    by_judge.setdefault(judge, []).append(replace(audited, evaluation=evaluation))
            key = page.next
            if not key:
                break
        return dict(sorted(by_judge.items()))

    def _look_at(self, evaluation: Evaluation, may: bool) -> bool:
        """Read the audits of an evaluation where that is due; tell whether it was."""
        now_s, session_id = time.monotonic(), evaluation.id
        if session_id in self._kept or now_s < self._empty.get(session_id, 0.0) or not may:
            return False
        audits = self._slots(session_id)
        if audits:
            self._kept[session_id] = {judge: _evaluated(evaluation, slots)
                                      for judge, slots in audits.items()}
        else:
            self._empty[session_id] = now_s + AGAIN_S
        return True

    def _slots(self, session_id: str) -> dict[str, dict[str, EpisodeAudit]]:
        """Return the audits by judge and slot of those that audited both."""
        by_judge: dict[str, dict[str, EpisodeAudit]] = {}
        for slot in Slot:
            for name in self._audits.names(session_id, slot.value):
                if (audit := self._audits.audit(session_id, slot.value, name)) is not None:
                    by_judge.setdefault(audit.judge, {})[slot.value] = audit
        return {judge: slots for judge, slots in by_judge.items() if len(slots) == len(Slot)}


def _evaluated(evaluation: Evaluation, slots: Mapping[str, EpisodeAudit]) -> AuditedEvaluation:
    winner, _ = audit_winner(slots['A'], slots['B'], MARGIN)
    return AuditedEvaluation(evaluation, {slot: replace(audit, phi=(), times_s=())
                                          for slot, audit in slots.items()}, winner)


def _profile(judge: str, rows: list[AuditedEvaluation], policy: str) -> AuditProfile | None:
    audits = [a for row in rows for a in row.audits.values()]
    refused = not_comparable(audits)
    every = [Audited(a.name, row.evaluation.id, name, task_words(row.evaluation.prompt),
                     None if score is None else score >= FULL,
                     {m: None if m in refused else v for m, v in a.metrics.items()})
             for row in rows for slot, a in row.audits.items()
             for name, score in [_rollout(row.evaluation, slot)]]
    mine = [e for e in every if e.policy == policy]
    if not mine:
        return None
    summary = summaries(mine)[0]
    counted = {'all': summary.episodes, 'successes': sum(e.success is True for e in mine),
               'failures': sum(e.success is False for e in mine)}
    means = {'all': summary.overall, 'successes': summary.successes, 'failures': summary.failures}
    return AuditProfile(
        judge, len({e.session for e in mine}), METRICS,
        tuple((words, means[part], counted[part]) for part, words in ROWS if counted[part]),
        tuple(f for f in fingerprints(every) if f.policy == policy
              and any(z is not None for z in f.z.values())), {**refusals_of(audits), **refused})


def _rollout(evaluation: Evaluation, slot: str) -> tuple[str, Any]:
    return (evaluation.policy_a if slot == Slot.A.value else evaluation.policy_b,
            evaluation.verdict.of_slot('progress', Slot(slot)))


def _agreement(judge: str, rows: list[AuditedEvaluation]) -> JudgeAgreement:
    decisive = [row for row in rows if row.decisive]
    names = sorted({row.evaluation.institution for row in decisive})
    return JudgeAgreement(
        judge, len(rows), sum(not all(a.calibrated for a in row.audits.values()) for row in rows),
        _place('', decisive),
        tuple(_place(name, [r for r in decisive if r.evaluation.institution == name])
              for name in names),
        tuple(row for row in decisive if row.preference != row.winner),
        untrusted([a for row in rows for a in row.audits.values()]))


def _place(name: str, rows: list[AuditedEvaluation]) -> PlaceAgreement:
    return PlaceAgreement(name, sum(row.preference == row.winner for row in rows), len(rows))


def add_audit_pages(app: FastAPI, pages: Jinja2Templates, index: AuditIndex) -> None:
    """Add the pages to the site."""
    @app.get('/audit', response_class=HTMLResponse, include_in_schema=False)
    def audit(request: Request) -> Response:
        later = Gathered()
        return pages.TemplateResponse(request, 'audit.html', {
            'judges': later(index.agreement) or [], 'later': later})

    @app.get('/api/audit')
    def audit_json() -> list[dict[str, Any]]:
        """Return how far preferences and audits agree, by judge, and where they differ."""
        return [_plain(agreement) for agreement in index.agreement()]

    @app.get('/api/policies/{name}/audit')
    def policy_audit(name: str) -> list[dict[str, Any]]:
        """Return the OPD profile of a policy, by judge."""
        return [dict(plain(asdict(agreement))) for agreement in index.profile(name)]


def _plain(agreement: JudgeAgreement) -> dict[str, Any]:
    return {'judge': agreement.judge, 'audited': agreement.audited,
            'untrusted': agreement.untrusted,
            'not_calibrated': agreement.not_calibrated,
            **{key: asdict(agreement.everywhere)[key] for key in ('agree', 'decisive')},
            'institutions': [asdict(place) for place in agreement.places],
            'against': [{'session': row.evaluation.id, 'institution': row.evaluation.institution,
                         'preference': row.preference, 'audit': row.winner}
                        for row in agreement.against]}


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


@lru_cache(maxsize=KEPT_REPORTS)
def read_report(stored: StoredReport) -> PolicyReport:
    """Return a stored report; DataError when it cannot be read."""
    return report_from_json(json.loads(stored.content),
                            f'report {stored.number} on {stored.policy}')
