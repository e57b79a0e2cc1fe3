"""The pages about the site: method and citation, and what programs can read."""

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.ranking.methods import METHODS
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.web.site.method_changes import MethodChanges


@dataclass(frozen=True)
class ApiCall:
    """An address that programs read: its parameters, and in a sentence what it answers."""

    path: str
    parameters: tuple[str, ...]
    words: str


def api_calls(description: dict[str, Any]) -> list[ApiCall]:
    """Return the addresses of an OpenAPI description, by name."""
    found = []
    for path, kinds in sorted(description['paths'].items()):
        call = kinds['get']
        names = tuple(one['name'] for one in call.get('parameters', ()) if one['in'] == 'query')
        words = call.get('description', call['summary']).strip()
        found.append(ApiCall(path, names, words.removeprefix('Return ').rstrip('.')))
    return found


def add_api_page(app: FastAPI, pages: Jinja2Templates, methods: MethodChanges) -> None:
    """Add the pages to the site."""
    @app.get('/api', response_class=HTMLResponse, include_in_schema=False)
    def api(request: Request) -> Response:
        return pages.TemplateResponse(request, 'api.html', {'calls': api_calls(app.openapi())})

    @app.get('/about', response_class=HTMLResponse, include_in_schema=False)
    def about(request: Request) -> Response:
        return pages.TemplateResponse(request, 'about.html', {
            'methods': methods.methods, 'description': METHODS.find(RECOMMENDED).description,
            'site': str(request.base_url).rstrip('/')})
