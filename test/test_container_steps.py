"""Steps of a Dockerfile that are followed without a container engine."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FOLLOW = Path(__file__).parents[1] / '.ci' / 'container_steps.py'
SERVE = """
import os, socket, sys
assert os.getcwd().endswith('/work') and os.environ['WORD'] == 'said', os.environ
assert os.geteuid() in (10001, int(sys.argv[1]))
line = socket.create_server(('127.0.0.1', int(sys.argv[2])))
while True:
    line.accept()[0].close()
"""
FILE = """
# A comment.
ARG BASE=none
FROM ${BASE}
COPY serve.py /src/
COPY kept /src/kept
WORKDIR /src
RUN test -f serve.py && test -f kept/good.txt \\
 && test ! -e kept/bad.txt && test "$(command -v python)" = "$(cd ..; pwd)/venv/bin/python"
WORKDIR /work
ENV WORD=said
USER 10001:10001
HEALTHCHECK --interval=1s CMD ["python", "-c", \\
    "import socket; socket.create_connection(('127.0.0.1', PORT), 4)"]
ENTRYPOINT ["python", "../src/serve.py"]
CMD ["UID", "PORT"]
"""


@pytest.fixture
def follow(tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = str(free.getsockname()[1])
    text = FILE.replace('PORT', port).replace('UID', str(os.geteuid()))
    (tmp_path / 'kept').mkdir()
    (tmp_path / 'serve.py').write_text(SERVE)
    for name in ('good.txt', 'bad.txt'):
        (tmp_path / 'kept' / name).write_text(name)
    (tmp_path / 'D.dockerignore').write_text('*\n!serve.py\n!kept\nkept/bad.txt\n')

    def run(old='', new=''):
        assert old in text
        (tmp_path / 'D').write_text(text.replace(old, new) if old else text)
        done = subprocess.run([sys.executable, FOLLOW, 'D'], cwd=tmp_path, capture_output=True,
                              text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr
    return run


def test_all_steps_are_followed_and_the_command_is_healthy(follow):
    code, printed = follow()
    assert code == 0, printed
    assert 'all steps were followed, and the command is healthy' in printed


@pytest.mark.parametrize(('old', 'new', 'says'), [
    ('! -e kept/bad.txt', '-e kept/bad.txt', 'the step failed with 1'),
    ('COPY kept', 'COPY other', 'COPY other: nothing there that the .dockerignore passes'),
    ('ENV WORD', 'ENV OTHER', 'the command ended with 1'),
    ('USER 1', 'ONBUILD 1', 'ONBUILD is none of the instructions'),
    ('ARG BASE=none', 'FROM one AS build', 'only files with one stage'),
])
def test_a_step_that_fails_is_said(follow, old, new, says):
    code, printed = follow(old, new)
    assert code == 1, printed
    assert says in printed
