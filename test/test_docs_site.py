"""The site of the documentation: a whole generated reference, no warning when it is built."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from arena_robot import ranking
from arena_robot.cli.verbs import VERBS, parser

ROOT = Path(__file__).resolve().parent.parent
HTML_S = 300.0    # a build takes half a minute, on a busy machine some


def module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / 'docs' / f'{name}.py')
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


REFERENCE = module('reference_pages')


@pytest.fixture(scope='module')
def pages():
    return REFERENCE.pages()


@pytest.mark.parametrize('page', REFERENCE.TABLES)
def test_the_tables_of_a_page_are_those_of_the_code(page):
    text = (ROOT / 'docs' / page).read_text(encoding='utf-8')
    made = REFERENCE.updated(text, REFERENCE.TABLES[page])
    assert made == text, 'run: python docs/reference_pages.py tables'


def part(page, heading):
    """Return what stands below a heading of a page."""
    return page.split(f'\n{heading}\n', 1)[1].split('\n##', 1)[0]


def test_every_verb_has_its_part_with_every_option(pages):
    top = parser(VERBS)
    for verb in VERBS:
        text = part(pages['cli'], f'### arena {verb.words}')
        for action in top.leaf(verb.words.split())._actions:
            if action.dest != 'help':
                assert all(name in text for name in action.option_strings or [action.dest])
    assert pages['cli'].count('\n### ') == len(VERBS)


def test_every_interface_and_every_parameter_is_there(pages):
    fence = REFERENCE.FENCE
    kinds = ('msg', 'srv', 'action')
    files = [path for kind in kinds for path in (ROOT / 'arena_msgs' / kind).glob(f'*.{kind}')]
    assert len(files) >= 30
    for path in files:
        text = path.read_text(encoding='utf-8').strip()
        assert f'### {path.stem}\n\n{fence}\n{text}\n```\n' in pages['ros']
    for tables in REFERENCE.PAGES.values():
        for name, params in tables.items():
            text = part(pages['ros'], f'### Parameters of {name}')
            assert [p.name for p in params if f'| `{p.name}` |' not in text] == []


def test_the_names_of_the_python_page_exist(pages):
    names = re.findall(r'^::: ([\w.]+)$', pages['python'], re.MULTILINE)
    assert 'arena_robot.ranking' in names
    for name in names:
        home, _, last = name.rpartition('.')
        if importlib.util.find_spec(home) and hasattr(importlib.import_module(home), last):
            continue
        assert importlib.util.find_spec(name), name
    assert set(ranking.__all__) >= {'load', 'fit', 'Ranking'}


def test_the_http_page_has_the_addresses_of_a_site(pages):
    paths = re.findall(r'^## `(/\S+)`$', pages['http'], re.MULTILINE)
    assert {'/api/standings', '/api/evaluations', '/api/log', '/data/sessions.csv'} <= set(paths)
    assert '| `method` | query | `' in part(pages['http'], '## `/api/standings`')


SCREEN = 66    # lines of a page that is read without turning


def test_the_page_of_each_tool_is_under_a_screen_and_has_a_picture_of_its_own():
    shown = {}
    for tool in ('from_lerobot', 'rerun', 'foxglove', 'gymnasium', 'hub'):
        text = (ROOT / 'docs' / f'{tool}.md').read_text(encoding='utf-8')
        assert text.count('\n') <= SCREEN, tool
        [shown[tool]] = re.findall(r'^!\[.+\]\((img/\S+)\)$', text, re.MULTILINE)
        assert (ROOT / 'docs' / shown[tool]).stat().st_size < 400_000
    others = ''.join(path.read_text(encoding='utf-8') for path in (ROOT / 'docs').glob('*.md')
                     if path.stem not in shown)
    assert len(set(shown.values())) == len(shown)
    assert [picture for picture in shown.values() if f']({picture})' in others] == []
    scripts = ''.join(path.read_text(encoding='utf-8') for path in (ROOT / 'docs').glob('*.py'))
    # The viewer of Rerun takes its own picture.
    assert [tool for tool, picture in shown.items() if tool != 'rerun'
            and f'docs/{picture}' not in scripts] == []


def menu():
    """Return the pages of each part of the menu."""
    class Loader(yaml.SafeLoader):
        """Reads the file without what only mkdocs knows."""

    Loader.add_multi_constructor('', lambda loader, suffix, node: None)
    config = yaml.load((ROOT / 'mkdocs.yml').read_text(encoding='utf-8'), Loader)
    return {name: [page if isinstance(page, str) else next(iter(page.values())) for page in pages]
            for tab in config['nav'] for name, pages in tab.items()}


def test_the_menu_has_every_page_once():
    listed = [page for pages in menu().values() for page in pages]
    assert len(listed) == len(set(listed))
    written = {path.name for path in (ROOT / 'docs').glob('*.md')}
    assert {page for page in listed if '/' not in page} == written


@pytest.mark.skipif(importlib.util.find_spec('mkdocs') is None,
                    reason='mkdocs is missing: `make docs` installs it')
def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run([sys.executable, '-m', 'mkdocs', 'build', '--strict', '-d', tmp_path],
                          cwd=ROOT, capture_output=True, text=True, timeout=HTML_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    html = (tmp_path / 'ranking' / 'index.html').read_text(encoding='utf-8')
    assert '<math' in html
    assert 'class="arithmatex"' not in html
    assert not re.search(r'https?://[^"]+\.(?:js|css|woff2?)"', html), 'nothing from elsewhere'
    programs_find_every_page((tmp_path / 'llms.txt').read_text(encoding='utf-8'), tmp_path)


def programs_find_every_page(text, site):
    """The list for programs has the parts of the menu, and a line that leads to each page."""
    assert text.startswith('# arena_robot\n\n> Double-blind comparison')
    parts = dict(part.split('\n\n', 1) for part in text.split('\n## ')[1:])
    assert list(parts) == list(menu())
    for name, pages in menu().items():
        rows = re.findall(r'^- \[(.+)\]\((.*)\): (.{20,})$', parts[name], re.MULTILINE)
        assert len(rows) == len(pages), parts[name]
        assert all((site / address / 'index.html').is_file() for _, address, _ in rows)
    assert '[Compare policies blind, on any robot](blind/): You have a robot and two' in text
