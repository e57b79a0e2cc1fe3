"""The page of audits against preferences, and the same as JSON."""

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.ranking.as_json import plain
from arena_robot.web.site.audit_index import AuditIndex, JudgeAgreement


def add_audit_pages(app: FastAPI, pages: Jinja2Templates, index: AuditIndex) -> None:
    """Add the pages to the site."""
    @app.get('/audit', response_class=HTMLResponse, include_in_schema=False)
    def audit(request: Request) -> Response:
        return pages.TemplateResponse(request, 'audit.html', {'judges': index.agreement()})

    @app.get('/api/audit')
    def audit_json() -> list[dict[str, Any]]:
        """Return how far preferences and audits agree, by judge, and where they differ."""
        return [_plain(one) for one in index.agreement()]

    @app.get('/api/policies/{name}/audit')
    def policy_audit(name: str) -> list[dict[str, Any]]:
        """Return the OPD profile of a policy, by judge."""
        return [dict(plain(asdict(one))) for one in index.profile(name)]


def _plain(one: JudgeAgreement) -> dict[str, Any]:
    return {'judge': one.judge, 'audited': one.audited, 'not_calibrated': one.not_calibrated,
            **{key: asdict(one.everywhere)[key] for key in ('agree', 'decisive')},
            'institutions': [asdict(place) for place in one.places],
            'against': [{'session': row.evaluation.id, 'institution': row.evaluation.institution,
                         'preference': row.preference, 'audit': row.winner}
                        for row in one.against]}
