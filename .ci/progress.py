"""Run a command with its output in a log, and show its progress."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

LOGS = Path(__file__).resolve().parent.parent / '.venv' / 'logs'
QUIET_S = 60.0


class Failed(Exception):
    """A step cannot be done; the message says what to do."""


def redraws() -> bool:
    """Return whether a line of the output can be drawn again."""
    return sys.stdout.isatty() and os.environ.get('TERM', '') != 'dumb'


def say(text: str) -> None:
    """Print one line of progress."""
    print(f'setup: {text}', flush=True)


def last_line(log: Path) -> str:
    """Return the last non-empty line of ``log``."""
    with open(log, 'rb') as stream:
        stream.seek(max(0, log.stat().st_size - 2000))
        lines = stream.read().decode(errors='replace').splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), '')


def watch(process: 'subprocess.Popen[bytes]', log: Path) -> int:
    """Wait for ``process``; on a terminal show time and last log line, else a line a minute."""
    started = shown = time.monotonic()
    live = redraws()
    while True:
        try:
            return process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if live:
            print(f'\r\x1b[K  {now - started:4.0f} s  {last_line(log)[:66]}', end='', flush=True)
        elif now - shown > QUIET_S:
            shown = now
            say(f'  {now - started:.0f} s, {last_line(log)[:80]}')


def run(command: Sequence[object], name: str,
        environment: Mapping[str, str] | None = None) -> None:
    """Run ``command`` in the checkout; Failed, with the end of its log, when it fails."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f'{name}.log'
    words = [str(word) for word in command]
    with open(log, 'wb') as out:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, cwd=LOGS.parent.parent,
                                   env=dict(environment or os.environ))
        code = watch(process, log)
    if redraws():
        print('\r\x1b[K', end='', flush=True)
    if code:
        with open(log, encoding='utf-8', errors='replace') as stream:
            tail = ''.join(deque(stream, 25))
        raise Failed(f'{name} ended with code {code}:\n{tail}\nThe whole log: {log}\n'
                     f'The command: {" ".join(words)}')
