"""What pages and messages name exists: commands, options, messages, ports, files, links."""

import argparse
import ast
import functools
import re
import shlex
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
TEXTS = sorted(path for pattern in (
    '*.md', 'docs/*.md', 'config/**/*.yaml', 'launch/*.py', 'Makefile', '.ci/*',
    'arena_robot/**/*.html', 'arena_robot/**/*.js', 'arena_robot/**/*.proto',
    'arena_msgs/**/*.msg', 'arena_msgs/**/*.srv', 'arena_msgs/**/*.action')
    for path in ROOT.glob(pattern) if path.is_file())
CODE = sorted((ROOT / 'arena_robot').rglob('*.py'))
# Where a command begins: in quotes of a page or message, after a colon, or at the start of a line.
MARKED = re.compile(r'[`<]arena ([^`<\n]+(?:\n[ #]*[^`<\n]+)?)[`<]')
LINE = re.compile(r'^[ #]*(?:\$ |\.venv/bin/)*arena ([a-z][a-z-]*\b[^\n]*)$', re.MULTILINE)
SPOKEN = re.compile(r': arena ((?:[a-z][a-z-]*)(?: [^\n]*)?)$')
WORDS = re.compile(r'[a-z][a-z_-]*')
OPTION = re.compile(r'(?<!\S)--[a-z][a-z-]*')
PICTURES = re.compile(r'!\[[^\]]*\]\(([^)]+)\)')
LINKS = re.compile(r'(?<!!)\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)')


@pytest.fixture(scope='module')
def messages():
    """Every string of the package, and what scripts of `make setup` print, as one text."""
    strings = []
    for path in sorted((ROOT / 'arena_robot').rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append(node.value)
    return '\n'.join(strings).lower()


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
    behind = {8100, 8101}    # policies on the machine of a router, which has the usual port
    expected = {metrics, NUC_PORT, console, policy, policy + 1, config.port, config.site_port, 0,
                *behind}
    for path in WRITTEN:
        text = path.read_text(encoding='utf-8')
        ports = {int(n) for n in re.findall(
            r'(?:localhost|127\.0\.0\.1|example\.org|gpu-machine|--port|port):? ?(\d{4,5})\b',
            text)}
        assert ports <= expected | {1234}, path.name


def test_file_names_are_the_same_everywhere():
    """A reader who copies a command from one page finds the file that another page made."""
    names = {'station file': set(), 'token file': set()}
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        names['station file'] |= set(re.findall(r'station --config (\S+)', text))
        names['token file'] |= set(re.findall(r'server [^\n`]*--token-file (\S+?)[`\s]', text))
    stations = {name for name in names['station file'] if not name.startswith('config/stations/')}
    assert stations == {'my_lab.yaml', 'my_session.yaml'}
    assert all((ROOT / name).is_file() for name in names['station file'] - stations)
    assert names['token file'] == {'maintainer.token'}


def test_every_state_of_the_console_and_every_page_of_the_site_has_a_picture():
    docs = {name: (ROOT / 'docs' / name).read_text(encoding='utf-8') for name in (
        'console_pictures.py', 'site_pictures.py', 'evaluators.md', 'site.md')}
    taken = re.findall(r"show\('(\w+)', State\.(\w+)", docs['console_pictures.py'])
    assert {state for _, state in taken} == {state.name for state in State}
    shown = {name for name, _ in taken} | set(
        re.findall(r"photo\('(\w+)'", docs['console_pictures.py']))
    assert not {name for name in shown if f'img/console_{name}.webp' not in docs['evaluators.md']}
    pages = re.findall(r"'(\w+)': '/", docs['site_pictures.py'])
    assert len(pages) >= 13
    assert {'session', 'signed_in', 'audit', 'admin'} <= set(pages)
    assert not {name for name in pages if f'img/site_{name}.webp' not in docs['site.md']}


# Said before, and stumbled over.
RIDDLES = ('is not well', 'did A come', 'how the code is cut', 'goes on where it stood',
           'last words', 'is told with', 'begins anew', 'everything is kept in',
           'holds still', 'wanders', 'asks for the pose it is in')


def shown():
    """Return the texts that people read: pages, the evaluator's page, messages."""
    texts = {path: path.read_text(encoding='utf-8') for path in (
        *PAGES, *sorted((ROOT / 'arena_robot').rglob('*.html')),
        *sorted((ROOT / 'arena_robot').rglob('*.js')))}
    for path in sorted((ROOT / 'arena_robot').rglob('*.py')):
        strings = [node.value for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
                   if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        texts[path] = '\n'.join(strings)
    return texts


def test_sentences_are_plain():
    wrong = [f'{path.relative_to(ROOT)}: {riddle}' for path, text in shown().items()
             for riddle in RIDDLES if riddle.lower() in text.lower()]
    assert not wrong


def test_the_first_screen_has_picture_and_commands_and_then_says_what_is_driven():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    screen = '\n'.join(text.splitlines()[:25])
    for part in ('![', 'make demo', 'make test', 'uvx', '`pip install`'):
        assert part in screen
    _, _, rest = text.partition('\n## ')
    robots = rest.partition('\n## ')[0]
    assert '| this version drives | this version does not drive |' in robots
    for backend in DRIVERS['arm'].names():
        assert f'`backend: {backend}`' in robots


def numbers():
    """Return the rows of the README's measurements: what was measured, the command, all of it."""
    table = (ROOT / 'README.md').read_text(encoding='utf-8').partition('## Numbers')[2]
    rows = [[cell.strip() for cell in row.strip('|').split(' | ')]
            for row in table.splitlines() if row.startswith('| ')]
    assert rows[0][-1] == 'command'
    return [(row[0], row[-1].strip('`| '), ' '.join(row[:-1])) for row in rows[1:]]


@pytest.mark.parametrize(('number', 'command', 'row'), numbers(), ids=lambda words: words[:40])
def test_every_number_of_the_readme_is_printed_by_the_command_beside_it(number, command, row):
    """The benches are those that `make bench` runs, and options that are quoted exist."""
    make = (ROOT / 'Makefile').read_text(encoding='utf-8')
    first, *options = command.split()
    if first == 'make':
        assert re.search(rf'^{options[0]}:', make, re.MULTILINE), number
        return
    assert 'for file in bench/bench_*.py' in make
    bench = (ROOT / 'bench' / f'{first}.py').read_text(encoding='utf-8')
    quoted = {word for code in re.findall(r'`([^`]+)`', row) for word in re.findall(
        r'--[a-z-]+', code)}
    for option in {*quoted, *(word for word in options if word.startswith('--'))}:
        assert f"add_argument('{option}'" in bench, (number, option)


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


def texts_of(path):
    """Return the strings of a module with placeholders, or the text of another file."""
    if path.suffix != '.py':
        return [path.read_text(encoding='utf-8')]
    texts = []
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.JoinedStr):
            texts.append(''.join(part.value if isinstance(part, ast.Constant) else 'X'
                                 for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


@functools.cache
def hints():
    """Return the file of each command that a text names."""
    lines = {}
    for path in [*TEXTS, *CODE]:
        for text in texts_of(path):
            for pattern in (MARKED, SPOKEN, LINE):
                if pattern is LINE and path.suffix == '.py' and '    arena ' not in text:
                    continue
                for words in pattern.findall(text):
                    line = re.sub(r'\s+#.*|\s+', ' ', words).strip()
                    lines[line] = path.relative_to(ROOT).as_posix()
    return lines


@functools.cache
def everything():
    """Return a parser of all verbs."""
    return parser(VERBS)


@pytest.fixture
def whole():
    return everything()


def leaf(words):
    """Return the parser of the longest verb at the start of ``words``, and the words after it."""
    root = everything()
    while True:
        groups = [a for a in root._actions if isinstance(a, argparse._SubParsersAction)]
        if not groups:
            return root, words
        if not words or words[0] not in groups[0].choices:
            return root, None if words and WORDS.fullmatch(words[0]) else words
        root, words = groups[0].choices[words[0]], words[1:]


def wrong(line):
    """Return what is wrong with a command, or nothing."""
    root, rest = leaf(line.replace(',', ' ').split())
    if rest is None:
        return f'arena {line}: there is no such verb'
    options = {option for action in root._actions for option in action.option_strings}
    used = OPTION.findall(re.split(r' [|;&>] | && ', ' '.join(rest))[0])
    return f'arena {line}: no option {set(used) - options}' if set(used) - options else ''


def test_every_verb_and_its_options_exist():
    assert not [f'{path}: {wrong(line)}' for line, path in sorted(hints().items()) if wrong(line)]


@pytest.mark.parametrize('line', ['dance', 'rank --no-such-option', 'skill fly'])
def test_a_verb_or_option_that_does_not_exist_is_found(line):
    assert wrong(line)


def test_many_hints_are_found():
    assert len(hints()) > 120


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


@pytest.mark.parametrize('line', list(arena_lines()))
def test_arena_understands(line, whole, capsys):
    words = shlex.split(re.split(r'\s+[>|&]|;|\s#', line)[0], comments=True)[1:]
    words = [re.sub(r'^[NK]$', '3', word) for word in words]
    try:
        whole.parse_args(words)
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


FILES = re.compile(r'(?<![\w/.~…])((?:config|bench|test|docs|launch|arena_robot)/[\w./-]*\.\w+)')
TO_BE_MADE = {'bench/NAME.py',      # any bench; and the migration of a first change's walk
              'arena_robot/server/store/migrations/versions/0099_gripper_trouble.py'}


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.name)
def test_files_that_a_page_names_are_there(page):
    named = set(FILES.findall(page.read_text(encoding='utf-8')))
    assert {name for name in named - TO_BE_MADE if not (ROOT / name).exists()} == set()


def test_launch_arguments_are_those_of_the_launch_file():
    declared = set(re.findall(r"DeclareLaunchArgument\('([a-z_]+)'",
                              (ROOT / 'launch' / 'station.launch.py').read_text(encoding='utf-8')))
    named = set()
    for page in PAGES:
        for line in blocks(page):
            if 'ros2 launch' in line:
                named |= set(re.findall(r'([a-z_]+):=', line))
        for included in re.findall(r'launch_arguments=\{(.*?)\}', page.read_text(encoding='utf-8'),
                                   re.DOTALL):
            named |= set(re.findall(r"'([a-z_]+)':", included))
    table = (ROOT / 'README.md').read_text(encoding='utf-8').split('| argument |')[1]
    named |= set(re.findall(r'`([a-z_]+)`', '\n'.join(
        row.split('|')[1] for row in table.split('\n\n')[0].splitlines()[2:])))
    assert named <= declared
    assert declared <= named | {'use_mock_hardware'}
