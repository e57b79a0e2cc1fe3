"""Every block of docs/extending.md is executed, in an installed package or a changed copy."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from installed_package import install

from arena_robot.cli.main import main
from arena_robot.cli.verbs import parser, typed
from arena_robot.core.errors import ConfigError
from arena_robot.drivers.table import GRIPPER_MODELS
from arena_robot.safety.limits import limits_for
from arena_robot.safety.urdf import urdf

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r'^( *)```(\w+)\n(.*?)^\1```', re.MULTILINE | re.DOTALL)


def blocks():
    """Return (language, first line without its mark, text) of the page's blocks."""
    text = (ROOT / 'docs' / 'extending.md').read_text(encoding='utf-8')
    for indent, language, body in BLOCK.findall(text):
        body = '\n'.join(line.removeprefix(indent) for line in body.split('\n'))
        first, _, rest = body.partition('\n')
        title = re.fullmatch('# (.*)|<!-- (.*) -->', first)
        yield (language, title[1] or title[2], rest) if title else (language, first, body)


FILES = {name: text for _, name, text in blocks() if name.startswith(('my_lab/', 'pyproject'))}
COMMANDS = [line.removeprefix('$ ') for language, name, text in blocks() if language == 'console'
            for line in text.splitlines() if line.startswith('$ ')]
CHANGES = [(name, text) for _, name, text in blocks()
           if name.startswith(('add to ', 'arena_robot/'))]


@pytest.fixture
def my_lab(tmp_path, monkeypatch):
    """Install the page's package; what it added to the tables is forgotten afterwards."""
    points = '\n'.join(line.replace('[project.entry-points.', '[') .replace('"', '')
                       for line in FILES['pyproject.toml'].split('[project.entry-points.', 1)[1]
                       .splitlines())
    files = {'my_lab/__init__.py': '', **FILES}
    folder = install(tmp_path / 'site', monkeypatch, 'my_lab', files, '[' + points + '\n')
    monkeypatch.chdir(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split('.')[0] == 'my_lab']:
        del sys.modules[name]
    for where in ('arena_robot.drivers.table:GRIPPER_MODELS',
                  'arena_robot.safety.embodiments:EMBODIMENTS',
                  'arena_robot.drivers.sim.tasks:TASKS', 'arena_robot.policy.examples:EXAMPLES',
                  'arena_robot.ranking.methods:METHODS', 'arena_robot.ranking.voting.rules:RULES'):
        module, name = where.split(':')
        getattr(importlib.import_module(module), name)._added.clear()


def command(start):
    """Return the words of the page's command that begins so."""
    commands = [line for line in COMMANDS if line.startswith(start)]
    assert len(commands) == 1, commands
    return commands[0].split()[1:]


def test_the_page_has_its_recipes():
    assert set(FILES) == {'pyproject.toml', 'my_lab/lift.xml', 'my_lab/lift.yaml', *(
        f'my_lab/{name}.py' for name in (
            'arm', 'camera', 'gripper', 'policy', 'task', 'voting', 'ranking'))}
    assert len(CHANGES) == 4
    assert len(COMMANDS) == 12


def test_the_arm_is_described_and_has_limits(my_lab, capsys):
    words = command('arena embodiment propose')
    assert main([*words[:2], str(my_lab / words[2]), *words[3:]]) == 0
    begun = yaml.safe_load(capsys.readouterr().out)['arms']['arm']
    written = yaml.safe_load(FILES['my_lab/lift.yaml'])['arms']['arm']
    for key in ('joints', 'base', 'tool'):
        assert begun[key] == written[key]
    assert main(command('arena embodiment check')) == 0, capsys.readouterr().err
    told = capsys.readouterr().out
    assert 'arm arm: 4 joints from foot to hand; at reset its flange is at 0.435' in told
    assert 'inverse kinematics finds 50 of 50 poses' in told
    assert "layout joint_velocity: 5 numbers at 15 Hz, driven as DROID's" in told
    assert limits_for('lift').chain.slides == (True, False, False, False)
    assert '<joint name="lift" type="prismatic">' in urdf('lift')


def test_the_arm_does_tasks_in_simulation_and_is_seen(my_lab, capsys):
    assert main(command('arena sim expert --robot')) == 0
    assert ' 4/4 ' in capsys.readouterr().out
    sheet = [*command('arena sim contact-sheet'), '--width', '64', '--plain']
    assert main(sheet) == 0
    assert Path(sheet[2]).stat().st_size > 10_000
    words = command('arena session')    # a walk runs it
    assert parser(typed(words)).parse_args(words).robot_type == 'lift'


def test_the_camera_passes_its_check(my_lab, capsys):
    assert main(command('arena driver check camera')) == 0, capsys.readouterr().out
    assert '13 passed, 0 failed, 1 skipped' in capsys.readouterr().out


def test_the_gripper_passes_its_check_and_is_described(my_lab, capsys):
    assert main(command('arena driver check gripper')) == 0, capsys.readouterr().out
    assert '0 failed' in capsys.readouterr().out
    assert '"wide_hand_joint"' in urdf('panda', gripper=GRIPPER_MODELS.find('wide_hand'))
    with pytest.raises(ConfigError, match=r"no gripper_type 'wide_hands'\. Did you mean"):
        GRIPPER_MODELS.find('wide_hands')


def test_the_policy_is_listed_and_passes_its_check(my_lab, capsys):
    assert main(['policy', 'list']) == 0
    assert 'Turns the last joint to and fro.' in capsys.readouterr().out
    assert main(command('arena policy check')) == 0, capsys.readouterr().out


def test_the_expert_does_the_task(my_lab, capsys):
    assert main(command('arena sim expert --tasks')) == 0
    assert '2/2' in capsys.readouterr().out
    assert main(['sim', 'tasks']) == 0
    assert 'touch_cube' in capsys.readouterr().out
    assert main(['sim', 'expert', '--tasks', 'my_lab.task:TouchCube', '--seeds', '1']) == 0


def test_the_voting_rule_counts(my_lab, capsys):
    Path('profile.json').write_text(json.dumps({
        'alternatives': ['a', 'b', 'c'], 'votes': [
            {'weight': 3, 'ranking': ['a', 'b', 'c']},
            {'weight': 2, 'ranking': ['b', 'c', 'a']}]}))
    assert main(command('arena vote')) == 0
    assert capsys.readouterr().out.startswith('veto: winners b')
    assert main(['vote', 'profile.json', '--method', 'all', '--json']) == 0
    assert 'veto' in json.loads(capsys.readouterr().out)['methods']


def test_the_ranking_method_ranks(my_lab, capsys):
    shutil.copy(ROOT / 'test' / 'data' / 'roboarena_sample' / 'sessions.csv', 'sessions.csv')
    assert main(command('arena rank')) == 0
    assert 'win_share: converged' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(['rank', '--list-methods'])
    assert 'share of comparisons won (share won)' in capsys.readouterr().out


def changed(folder, changes):
    """Copy what a field touches and apply the page's changes; return the copy."""
    for name in ('arena_robot', 'arena_msgs', '.ci'):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copy(ROOT / 'pyproject.toml', folder)    # .ci/proto.py reads it
    for name, text in changes:
        if not name.startswith('add to '):
            newest = sorted((folder / name).parent.glob('0*.py'))[-1].name[:4]
            (folder / name).write_text(re.sub("'0098'", f"'{newest}'", text), encoding='utf-8')
            continue
        path, anchor = re.fullmatch(r'add to (\S+) before "(.*)"', name).groups()
        anchor = anchor.replace('\\n', '\n')
        before = (folder / path).read_text(encoding='utf-8')
        assert before.count(anchor) == 1, (path, anchor)
        (folder / path).write_text(before.replace(anchor, text + anchor), encoding='utf-8')
    subprocess.run([sys.executable, '.ci/proto.py'], cwd=folder, check=True, timeout=120,
                   capture_output=True)
    return folder


def python(folder, code):
    return subprocess.run([sys.executable, '-c', textwrap.dedent(code)], cwd=folder, text=True,
                          capture_output=True, timeout=120, check=False)


WALK = """
    import pathlib, sqlalchemy as sa
    import arena_robot
    assert pathlib.Path(arena_robot.__file__).parents[1] == pathlib.Path.cwd()
    from arena_robot.core.verdict import Asked, Verdict, asked_at, from_plain, present, to_plain
    from arena_robot.server import wire
    from arena_robot.server.proto import arena_server_pb2 as pb
    from arena_robot.server.store.database import Database
    said = Verdict(gripper_trouble='slipped')
    assert 'gripper_trouble' in [one.name for one in asked_at(Asked.JUDGE)]
    assert from_plain(to_plain(said)) == said
    sent = pb.FeedbackRequest(session_id='a session', **present(said))
    assert sent.gripper_trouble == 'slipped'
    assert from_plain(wire.set_fields(sent)) == said
    database = Database('sqlite:///results.db')
    database.open()
    with database.read() as connection:
        found = sa.inspect(connection).get_columns('sessions')
    database.close()
    assert 'gripper_trouble' in [column['name'] for column in found]
    print('walked')
"""


def test_a_field_of_the_verdict_walks_from_page_to_database(tmp_path):
    shutil.copyfile(ROOT / 'test' / 'data' / '0.1.0' / 'arena.db', tmp_path / 'results.db')
    process = python(changed(tmp_path, CHANGES), WALK)
    assert process.stdout == 'walked\n', process.stderr
    message = (tmp_path / 'arena_msgs' / 'msg' / 'Feedback.msg').read_text()
    assert '\nstring gripper_trouble\n' in message


def test_a_field_that_a_message_lacks_is_an_error_at_import(tmp_path):
    only = [change for change in CHANGES if 'core/verdict.py' in change[0]]
    process = python(changed(tmp_path, only), 'import arena_robot.server.wire')
    assert 'arena_server.proto lacks gripper_trouble' in process.stderr
