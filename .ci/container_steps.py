#!/usr/bin/env python3
"""
Follow the steps of a Dockerfile on a machine that has no container engine.

    .ci/container_steps.py config/deploy/Dockerfile.policy

Its folders are in a new empty one and its Python is a new virtual environment of this one. COPY
takes what the .dockerignore beside the file passes, RUN sees no variables but PATH, those of ENV
and pip's. Then ENTRYPOINT with CMD runs as USER, and HEALTHCHECK must pass while it does. What is
not followed: the base image (this Python stands for it), and USER where this is not root or that
user cannot read this Python. Ends with 1 at the first step that fails.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

KNOWN = ('ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'EXPOSE', 'FROM', 'HEALTHCHECK', 'RUN',
         'USER', 'WORKDIR')
HEALTHY_S = 60.0


def steps_of(text: str) -> list[tuple[str, str]]:
    """Return (instruction, rest) of each step; SystemExit on one that is not known here."""
    lines = re.sub(r'\\\n', ' ', re.sub(r'^#.*\n', '', text, flags=re.MULTILINE)).splitlines()
    steps = [(word, rest.strip()) for word, _, rest in (
        line.strip().partition(' ') for line in lines if line.strip())]
    for word, _ in steps:
        if word not in KNOWN:
            raise SystemExit(f'{word} is none of the instructions that are followed here: '
                             f"{', '.join(KNOWN)}")
    if sum(word == 'FROM' for word, _ in steps) != 1:
        raise SystemExit('only files with one stage, that is one FROM, are followed')
    return steps


def passes(path: Path, patterns: Sequence[str]) -> bool:
    """Tell whether a .dockerignore passes a relative path: the last line that matches decides."""
    found = True
    for pattern in patterns:
        bare = pattern.lstrip('!').removeprefix('**/')
        anywhere = '**/' in pattern
        places = [path, *path.parents][:-1]
        if any(fnmatch.fnmatchcase(place.name if anywhere else str(place), bare)
               for place in places if anywhere or len(place.parts) == len(Path(bare).parts)):
            found = pattern.startswith('!')
    return found


class Followed:
    """A folder that stands for the root of a container, and what its steps have set so far."""

    def __init__(self, context: Path, root: Path, ignored: Sequence[str]) -> None:
        self.context, self.root, self.ignored, self.folder = context, root, ignored, root
        self.user: tuple[int, int] | None = None
        self.entry: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []
        own = root / 'venv'
        subprocess.run([sys.executable, '-m', 'venv', own], check=True)
        self.variables = {name: value for name, value in os.environ.items()
                          if name.startswith('PIP_')} | {
            'PATH': f'{own}/bin:/usr/local/bin:/usr/bin:/bin'}

    def follow(self, word: str, rest: str) -> None:
        """Do one step."""
        if word == 'COPY':
            *names, place = rest.split()
            self._copy(names, place)
        elif word == 'RUN':
            subprocess.run(['/bin/sh', '-c', rest], cwd=self.folder, env=self.variables,
                           check=True)
        elif word == 'WORKDIR':
            self.folder = self._inside(rest)
            self.folder.mkdir(parents=True, exist_ok=True)
        elif word == 'ENV':
            for name, _, value in (pair.partition('=') for pair in rest.split()):
                self.variables[name] = value.replace('$PATH', self.variables['PATH'])
        elif word == 'USER':
            user, _, group = rest.partition(':')
            self.user = int(user), int(group or user)
        elif word == 'HEALTHCHECK':
            self.health = json.loads(rest.partition('CMD')[2])
        elif word == 'ENTRYPOINT':
            self.entry = json.loads(rest)
        elif word == 'CMD':
            self.command = json.loads(rest)

    def healthy(self) -> None:
        """Run the container's command until its health check passes; SystemExit if it does not."""
        settings: dict[str, Any] = {'cwd': self.folder, 'env': self.variables} | self._as_user()
        if self._passes(settings):
            raise SystemExit('the health check passes before anything runs: is the port taken?')
        running = subprocess.Popen([*self.entry, *self.command], **settings)
        try:
            end_s = time.monotonic() + HEALTHY_S
            while time.monotonic() < end_s and running.poll() is None:
                if self._passes(settings):
                    return
                time.sleep(0.2)
            raise SystemExit(f'not healthy within {HEALTHY_S:.0f} s' if running.poll() is None
                             else f'the command ended with {running.returncode}')
        finally:
            running.kill()
            running.wait()

    def _as_user(self) -> dict[str, Any]:
        """Return how to start a process as USER; nothing, and say so, where that cannot be."""
        if self.user is None:
            return {}
        why = '' if os.geteuid() == 0 else 'only root can'
        as_user: dict[str, Any] = {'user': self.user[0], 'group': self.user[1], 'extra_groups': []}
        try:
            if not why:
                subprocess.run(['python', '--version'], env=self.variables, check=True,
                               capture_output=True, **as_user)
        except PermissionError:
            why = 'this Python is in a folder that only root can read'
        if not why:
            return as_user
        print(f'USER {self.user[0]} is not followed: {why}', flush=True)
        return {}

    def _passes(self, settings: dict[str, Any]) -> bool:
        return subprocess.run(self.health, stderr=subprocess.DEVNULL, check=False,
                              **settings).returncode == 0

    def _inside(self, place: str) -> Path:
        return self.root / PurePosixPath(place).relative_to('/')

    def _copy(self, names: Sequence[str], place: str) -> None:
        for name in names:
            source = self.context / name
            files = [source] if source.is_file() else [
                path for path in source.rglob('*') if path.is_file()]
            taken = [path for path in files
                     if passes(path.relative_to(self.context), self.ignored)]
            if not taken:
                raise SystemExit(f'COPY {name}: nothing there that the .dockerignore passes')
            for path in taken:
                into = self._inside(place) / (
                    path.name if source.is_file() else path.relative_to(source))
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, into)


def main() -> None:
    """Follow a file's steps in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('dockerfile', type=Path)
    parser.add_argument('--context', type=Path, default=Path(), help='default: the working folder')
    args = parser.parse_args()
    beside = Path(f'{args.dockerfile}.dockerignore')
    ignored = beside.read_text().split() if beside.exists() else []
    root = Path(tempfile.mkdtemp(prefix='container-'))
    root.chmod(0o755)
    try:
        followed = Followed(args.context.resolve(), root, ignored)
        for number, (word, rest) in enumerate(steps_of(args.dockerfile.read_text()), 1):
            print(f'step {number}: {word} {rest}', flush=True)
            followed.follow(word, rest)
        if followed.health:
            followed.healthy()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f'the step failed with {error.returncode}') from error
    finally:
        shutil.rmtree(root)
    print('all steps were followed' + (', and the command is healthy' if followed.health else ''))


if __name__ == '__main__':
    main()
