"""
First-time walks: the commands that a page prints, run as a reader types them.

A hidden line before a block of a page says what a walk does with it::

    <!-- run: NAME, TEXT -->        run its commands; they print TEXT, if one is given
    <!-- background: NAME, TEXT --> start its commands; each goes on until it has printed TEXT
    <!-- file: NAME, PATH -->       write the block to a file
    <!-- talk: NAME -->             run its first line, and answer what the program asks
    <!-- phone: NAME, PATH -->      write the block to a file, and run it in each of two trials of
                                    `arena blind`, whose page a person has on a phone
    <!-- left out: NAME, REASON --> no walk runs it, for this reason

A walk may use several blocks of one page. It has an empty folder and a home of its own. In a
section that a walk goes through, no block of commands is without such a line.
"""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
MARK = re.compile(r'<!-- (run|background|file|talk|phone|left out): ([a-z ]+?)(?:, ([^\n]*?))? '
                  r'-->\n+```[a-z]*\n(.*?)```', re.DOTALL)
# What a reader answers by pressing Enter while the station is still starting.
AGAIN = 'Fix that, then press Enter to check again: '
COMMAND_S, READY_S, ASK_S, END_S = 150.0, 60.0, 60.0, 25.0


@dataclass(frozen=True)
class WalkBlock:
    """One block of a walk: what is done with it, its text, and a word that goes with it."""

    kind: str
    word: str
    text: str


def walks():
    """Return the blocks by name of the walk, and the page of each."""
    by_name, pages = {}, {}
    for page in PAGES:
        for kind, name, word, text in MARK.findall(page.read_text(encoding='utf-8')):
            if kind == 'left out':
                continue
            by_name.setdefault(name, []).append(WalkBlock(kind, word.strip(), text))
            assert pages.setdefault(name, page) == page, f'{name} is a walk of two pages'
    return {name: (pages[name], blocks) for name, blocks in by_name.items()}


def left_out():
    """Return of each block that no walk runs: its page, its walk, the reason, its text."""
    return [(page, name, word, text) for page in PAGES for kind, name, word, text in MARK.findall(
        page.read_text(encoding='utf-8')) if kind == 'left out']


def here(folder):
    """Return an environment with this Python's packages, and what pip installs in ``folder``."""
    home = folder / '.home'    # no package of its own, as setuptools sees it
    home.mkdir()
    domain = (int(os.environ.get('ROS_DOMAIN_ID', '0')) + 51) % 102
    installed = sysconfig.get_path('purelib', vars={'base': str(home)})
    return {
        **os.environ, 'HOME': str(home), 'PYTHONUNBUFFERED': '1', 'TERM': 'dumb',
        'PATH': f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}',
        'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'MUJOCO_GL': 'egl', 'PIP_PREFIX': str(home), 'PIP_NO_BUILD_ISOLATION': 'false',
        'PIP_NO_DEPS': '1', 'PYTHONPATH': os.pathsep.join([*filter(None, sys.path), installed])}


class Walk:
    """Runs blocks in a folder; the programs in the background end with it."""

    def __init__(self, folder, environment=None, phone=None):
        self.folder, self.phone_of = folder, phone
        self.environment = environment or here(folder)
        self.started = []
        self.ran = []
        self.said = ''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def do(self, block):
        """Do what a block says; AssertionError when a command fails."""
        getattr(self, block.kind)(block.text, block.word)

    def file(self, text, path):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding='utf-8')

    def run(self, text, word):
        before = len(self.said)
        for line in commands(text):
            self.ran.append(line)
            if line.startswith('export '):
                self.export(line)
                continue
            done = subprocess.run(['bash', '-c', line], cwd=self.folder, env=self.environment,
                                  capture_output=True, text=True, timeout=COMMAND_S, check=False)
            self.said += f'$ {line}\n{done.stdout}{done.stderr}\n'
            # A check of a recording fails on a busy machine; the command itself is understood.
            assert done.returncode == 0 or 'episode check' in line, self.report()
            assert done.returncode < 2, self.report()
            assert 'Traceback (most' not in self.said, self.report()
        assert word in self.said[before:], f'{word!r} was not printed:\n{self.report()}'

    def export(self, line):
        """Set a variable as the reader's shell does."""
        done = subprocess.run(['bash', '-c', f'{line}; env -0'], cwd=self.folder, text=True,
                              env=self.environment, capture_output=True, check=True)
        self.environment = dict(pair.split('=', 1) for pair in done.stdout.split('\0') if pair)

    def background_log(self):
        return ''.join(f'--- {path.name}\n{path.read_text(errors="replace")[-3000:]}\n'
                       for _, path in self.started)

    def background(self, text, word):
        for line in commands(text):
            self.start(line, word)

    def start(self, line, text):
        self.ran.append(line)
        path = self.folder / f'background_{len(self.started)}.log'
        with path.open('w') as out:
            process = subprocess.Popen(['bash', '-c', f'exec {line}'], cwd=self.folder, stdout=out,
                                       env=self.environment, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        self.started.append((process, path))
        end_s = time.monotonic() + READY_S
        while text not in path.read_text(errors='replace'):
            assert process.poll() is None, self.report()
            assert time.monotonic() < end_s, self.report()
            time.sleep(0.1)

    def phone(self, text, path):
        self.file(text, path)
        link = re.search(r'the page for the phone: (\S+)', self.background_log())[1]
        phone = self.phone_of(link)
        for success in ('true', 'false'):
            phone.phase('ready')
            phone.press('#start')
            self.run(f'python {path}', '')
            phone.press('#end')
            phone.press(f'#success [data-value={success}]')
            phone.until(lambda: phone.browser.execute_script(
                "return document.querySelector('#clips video')?.videoWidth"), 'the video')
            phone.press('#score')
        phone.press('#preference [data-value=A]')
        phone.press('#judge')
        phone.until(lambda: 'Trial 3' in phone.find('#count').text, 'the next block')

    def talk(self, text, _):
        first, *questions = text.strip().splitlines()
        line = first.removeprefix('$ ')
        self.ran.append(line)
        main, side = pty.openpty()
        process = subprocess.Popen(['bash', '-c', f'exec {line}'], cwd=self.folder, stdin=side,
                                   stdout=side, stderr=side, env=self.environment,
                                   start_new_session=True)
        os.close(side)
        self.said += f'$ {line}\n'
        place = len(self.said)
        try:
            for question_answer in questions:
                question, _, answer = question_answer.rpartition(':')
                place = self.hear(main, question + ':', place, process)
                os.write(main, f'{answer.strip()}\n'.encode())
            self.hear(main, '', place, process)
            assert process.wait(10.0) == 0, self.report()
        finally:
            process.kill()
            process.wait()
            os.close(main)

    def hear(self, main, question, place, process):
        """Return the place after the question; without one, read to the program's end."""
        end_s = time.monotonic() + (ASK_S if question else COMMAND_S)
        while not question or question not in self.said[place:]:
            assert time.monotonic() < end_s, f'{question!r} was never asked:\n{self.report()}'
            if not select.select([main], [], [], 0.2)[0]:
                assert process.poll() is None or not question, self.report()
                continue
            try:
                heard = os.read(main, 4096)
            except OSError:
                heard = b''    # the program has closed the terminal
            if not heard:
                assert not question, self.report()
                return place
            self.said += heard.decode('utf-8', 'replace')
            if self.said.endswith(AGAIN):
                os.write(main, b'\n')
        return self.said.index(question, place) + len(question)

    def report(self):
        return f'{self.said[-6000:]}\n{self.background_log()}'


def commands(text):
    """Return the commands of a block: comments left out, continued lines joined."""
    lines = text.replace('\\\n', ' ').splitlines()
    plain = [re.sub(r'\s+#.*', '', line).strip().removeprefix('$ ') for line in lines]
    return [line for line in plain if line and not line.startswith('#')]
