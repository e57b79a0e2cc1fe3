"""Every command that the README and the docs print is one that the programs understand."""

import re
import shlex
from pathlib import Path

import pytest

from arena_robot.cli.verbs import VERBS
from arena_robot.cli.verbs import parser as parser_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md'))]
PICTURES = re.compile(r'!\[[^\]]*\]\(([^)]+)\)')
LINKS = re.compile(r'(?<!!)\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)')


def blocks(page):
    """Yield the lines of indented and fenced code, continued lines joined."""
    text = page.read_text(encoding='utf-8').replace('\\\n', ' ')
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith('```'):
            fenced = not fenced
        elif fenced or line.startswith('    '):
            yield line.strip()


def arena_lines():
    for page in PAGES:
        for line in blocks(page):
            words = re.sub(r'^\s*(\$ )?([A-Z_]+=\S+ |export \S+ && |MUJOCO_GL=egl )*', '', line)
            words = re.sub(r'^\.venv/bin/', '', re.sub(r'^[A-Z_]+=\$\([^)]*\)\s+', '', words))
            if re.match(r'arena [a-z]', words) and '…' not in words and '[' not in words:
                yield pytest.param(words, id=f'{page.name}: {words[:70]}')


def make_lines():
    return sorted({m for page in PAGES for line in blocks(page)
                   for m in re.findall(r'^make ([a-z]+)', line)})


@pytest.fixture(scope='module')
def parser():
    return parser_of(VERBS)


@pytest.mark.parametrize('line', list(arena_lines()))
def test_arena_understands(line, parser, capsys):
    words = shlex.split(re.split(r'\s+[>|&]|;|\s#', line)[0], comments=True)[1:]
    words = [re.sub(r'^[NK]$', '3', word) for word in words]
    try:
        parser.parse_args(words)
    except SystemExit as stop:
        if stop.code:
            pytest.fail(capsys.readouterr().err)


@pytest.mark.parametrize('target', make_lines())
def test_make_has(target):
    makefile = (ROOT / 'Makefile').read_text(encoding='utf-8')
    assert re.search(rf'^{target}:', makefile, re.MULTILINE)


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.name)
def test_links_and_pictures_are_there(page):
    text = page.read_text(encoding='utf-8')
    for target in PICTURES.findall(text) + LINKS.findall(text):
        if '://' not in target and not target.startswith('mailto:'):
            assert (page.parent / target).exists(), f'{page.name} points to {target}'


def test_launch_arguments_are_those_of_the_launch_file():
    declared = set(re.findall(r"DeclareLaunchArgument\('([a-z_]+)'",
                              (ROOT / 'launch' / 'station.launch.py').read_text(encoding='utf-8')))
    told = set()
    for page in PAGES:
        for line in blocks(page):
            if 'ros2 launch' in line:
                told |= set(re.findall(r'([a-z_]+):=', line))
    table = (ROOT / 'README.md').read_text(encoding='utf-8').split('| argument |')[1]
    told |= set(re.findall(r'`([a-z_]+)`', '\n'.join(
        row.split('|')[1] for row in table.split('\n\n')[0].splitlines()[2:])))
    assert told <= declared
    assert declared <= told | {'use_mock_hardware'}
