"""What pages quote exists: messages, ports, files; no page is forgotten, sentences are plain."""

import ast
import re
from pathlib import Path

import pytest

from arena_robot.cli.verbs import VERBS, parser
from arena_robot.drivers.droid_nuc.arm import PORT as NUC_PORT
from arena_robot.drivers.table import DRIVERS
from arena_robot.server.config import ServerConfig
from arena_robot.session.protocol.states import State

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / 'docs').glob('*.md'))
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *DOCS]
WRITTEN = [*PAGES, *sorted((ROOT / 'config').rglob('*.yaml')), *sorted(
    (ROOT / 'arena_robot').rglob('*.py')), *sorted((ROOT / 'launch').glob('*.py'))]


@pytest.fixture(scope='module')
def messages():
    """Every string of the package, and what scripts of `make setup` print, as one text."""
    found = []
    for path in sorted((ROOT / 'arena_robot').rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return '\n'.join(found).lower()


def quoted():
    """Return the messages in the first column of the tables of the page."""
    text = (ROOT / 'docs' / 'troubleshooting.md').read_text(encoding='utf-8')
    rows = [line.split('|')[1] for line in text.splitlines() if line.startswith('| ')]
    return sorted({piece.strip(" '") for row in rows for phrase in re.findall(r'`([^`]+)`', row)
                   for piece in phrase.split('…')
                   if len(piece.strip(" '")) > 7 and not phrase.startswith(('make', 'arena'))})


@pytest.mark.parametrize('phrase', quoted())
def test_a_message_that_the_page_explains_is_one_that_is_printed(phrase, messages):
    assert phrase.lower() in messages


def test_every_page_can_be_found_from_the_readme():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    linked = {Path(target).name for target in re.findall(r'\]\((docs/[^)#]+\.md)', text)}
    seen, todo = set(), [ROOT / 'docs' / name for name in linked]
    while todo:
        page = todo.pop()
        if page.name in seen or not page.exists():
            continue
        seen.add(page.name)
        todo += [page.parent / target for target in re.findall(
            r'\]\(([a-z_]+\.md)', page.read_text(encoding='utf-8'))]
    assert {page.name for page in DOCS} <= seen


def test_ports_are_the_same_everywhere():
    console = parser(VERBS).parse_args(['console']).port
    policy = parser(VERBS).parse_args(['policy', 'serve', 'frozen']).port
    config = ServerConfig()
    metrics = 9464    # the usual one of such exporters; the server has none by default
    known = {metrics, NUC_PORT, console, policy, policy + 1, config.port, config.site_port, 0}
    for path in WRITTEN:
        text = path.read_text(encoding='utf-8')
        said = {int(n) for n in re.findall(
            r'(?:localhost|127\.0\.0\.1|example\.org|gpu-machine|--port|port):? ?(\d{4,5})\b',
            text)}
        assert said <= known | {1234}, path.name


def test_file_names_are_the_same_everywhere():
    """A reader who copies a command from one page finds the file that another page made."""
    names = {'station file': set(), 'token file': set()}
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        names['station file'] |= set(re.findall(r'station --config (\S+)', text))
        names['token file'] |= set(re.findall(r'server [^\n`]*--token-file (\S+?)[`\s]', text))
    own = {name for name in names['station file'] if not name.startswith('config/stations/')}
    assert own == {'my_lab.yaml', 'my_session.yaml'}
    assert all((ROOT / name).is_file() for name in names['station file'] - own)
    assert names['token file'] == {'maintainer.token'}


def test_every_state_of_the_console_and_every_page_of_the_site_has_a_picture():
    docs = {name: (ROOT / 'docs' / name).read_text(encoding='utf-8') for name in (
        'console_pictures.py', 'site_pictures.py', 'evaluators.md', 'site.md')}
    taken = re.findall(r"show\('(\w+)', State\.(\w+)", docs['console_pictures.py'])
    assert {state for _, state in taken} == {one.name for one in State}
    shown = {name for name, _ in taken} | set(
        re.findall(r"photo\('(\w+)'", docs['console_pictures.py']))
    assert not {name for name in shown if f'img/console_{name}.webp' not in docs['evaluators.md']}
    pages = re.findall(r"'(\w+)': '/", docs['site_pictures.py'])
    assert len(pages) >= 13
    pages += re.findall(r"out / 'site_(\w+)\.webp'", docs['site_pictures.py'])
    assert {'session', 'signed_in', 'audit'} <= set(pages)
    assert not {name for name in pages if f'img/site_{name}.webp' not in docs['site.md']}


# Said before, and stumbled over.
RIDDLES = ('is not well', 'did A come', 'how the code is cut', 'goes on where it stood',
           'last words', 'is told with', 'begins anew', 'everything is kept in',
           'holds still', 'wanders', 'asks for the pose it is in')


def shown():
    """Return the texts that people read: pages, the evaluator's page, messages."""
    found = {path: path.read_text(encoding='utf-8') for path in (
        *PAGES, *sorted((ROOT / 'arena_robot').rglob('*.html')),
        *sorted((ROOT / 'arena_robot').rglob('*.js')))}
    for path in sorted((ROOT / 'arena_robot').rglob('*.py')):
        strings = [node.value for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
                   if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found[path] = '\n'.join(strings)
    return found


def test_sentences_are_plain():
    wrong = [f'{path.relative_to(ROOT)}: {riddle}' for path, text in shown().items()
             for riddle in RIDDLES if riddle.lower() in text.lower()]
    assert not wrong


def test_the_first_screen_says_what_is_driven_and_what_is_not():
    screen = '\n'.join((ROOT / 'README.md').read_text(encoding='utf-8').splitlines()[:25])
    assert '| this version drives | this version does not drive |' in screen
    for backend in DRIVERS['arm'].names():
        assert f'`backend: {backend}`' in screen


def numbers():
    """Return the rows of the README's measurements: what was measured, the command, all of it."""
    table = (ROOT / 'README.md').read_text(encoding='utf-8').partition('## Numbers')[2]
    rows = [[cell.strip() for cell in row.strip('|').split(' | ')]
            for row in table.splitlines() if row.startswith('| ')]
    assert rows[0][-1] == 'command'
    return [(row[0], row[-1].strip('`| '), ' '.join(row[:-1])) for row in rows[1:]]


@pytest.mark.parametrize(('what', 'command', 'row'), numbers(), ids=lambda one: one[:40])
def test_every_number_of_the_readme_is_printed_by_the_command_beside_it(what, command, row):
    """The benches are those that `make bench` runs, and options that are quoted exist."""
    make = (ROOT / 'Makefile').read_text(encoding='utf-8')
    first, *options = command.split()
    if first == 'make':
        assert re.search(rf'^{options[0]}:', make, re.MULTILINE), what
        return
    assert 'for file in bench/bench_*.py' in make
    bench = (ROOT / 'bench' / f'{first}.py').read_text(encoding='utf-8')
    quoted = {word for code in re.findall(r'`([^`]+)`', row) for word in re.findall(
        r'--[a-z-]+', code)}
    for option in {*quoted, *(word for word in options if word.startswith('--'))}:
        assert f"add_argument('{option}'" in bench, (what, option)


def test_every_invariant_names_tests_that_exist():
    page = (ROOT / 'docs' / 'invariants.md').read_text(encoding='utf-8')
    assert re.findall(r'^## (.*)$', page, re.MULTILINE) == [
        'Arm', 'Words', 'Blindness', 'Ledger', 'Log', 'Files']
    promises = re.findall(r'^(\d+)\. (.*?)(?=^\d+\. |^## |\Z)', page, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in promises] == list(range(1, len(promises) + 1))
    for number, text in promises:
        named = re.findall(r'`(test/[\w/]+\.py)::(test_\w+)`', text)
        assert named, f'no test holds promise {number}'
        for path, name in named:
            assert re.search(rf'^def {name}\(', (ROOT / path).read_text(encoding='utf-8'),
                             re.MULTILINE), f'{number}: {path} has no {name}'
