"""What is shipped: lock file, licences, units, containers. No container is built here."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from arena_robot import DISTRIBUTION
from arena_robot.core.config import load
from arena_robot.server.config import ServerConfig

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / 'config' / 'deploy'
UNITS = sorted(DEPLOY.glob('*.service'))


@pytest.fixture
def supply_chain():
    spec = importlib.util.spec_from_file_location('supply_chain', ROOT / '.ci/supply_chain.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_run_time_package_is_locked_with_a_hash_and_under_a_known_licence(supply_chain):
    assert supply_chain.problems() == []


def test_a_new_pin_a_lost_hash_and_a_licence_that_nobody_allowed_are_found(
        supply_chain, tmp_path, monkeypatch):
    text = supply_chain.LOCK.read_text()
    for name, content in (('LOCK', text.replace('alembic==1.20.1', 'alembic==1.0.0')
                           + 'odd==1.0\nfar==2.0 @ https://example.org/x\n'),
                          ('LICENCES', supply_chain.LICENCES.read_text().replace(
                              'alembic MIT', 'alembic AGPL-3.0-only'))):
        path = tmp_path / name
        path.write_text(content)
        monkeypatch.setattr(supply_chain, name, path)
    problems = '\n'.join(supply_chain.problems())
    for part in ('alembic==1.20.1 of requirements.txt', 'odd==1.0 has no hash',
                 'names an address', "'AGPL-3.0-only' is not one", 'odd is not in'):
        assert part in problems, problems


def test_no_unit_has_more_rights_than_it_needs():
    for unit in UNITS:
        text = unit.read_text()
        for line in ('NoNewPrivileges=yes', 'ProtectSystem=strict', 'ProtectHome=yes',
                     'CapabilityBoundingSet=', 'User=arena', 'RestrictNamespaces=yes'):
            assert f'\n{line}\n' in text, (unit.name, line)


@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='systemd-analyze is missing')
@pytest.mark.parametrize('unit', UNITS, ids=lambda u: u.name)
def test_systemd_understands_the_units(unit):
    done = subprocess.run(['systemd-analyze', 'verify', unit], capture_output=True, text=True,
                          timeout=60, check=False)
    lines = [line for line in done.stderr.splitlines() if unit.name in line]
    assert all('is not executable' in line for line in lines), lines
    done = subprocess.run(['systemd-analyze', 'security', '--offline=true', unit],
                          capture_output=True, text=True, timeout=60, check=False)
    level = re.search(r'exposure level for \S+: ([\d.]+)', done.stdout)
    assert level, done.stdout[-500:] + done.stderr
    assert float(level[1]) < 4.0


def test_containers_are_not_root_write_nothing_of_their_own_and_tell_their_health():
    services = yaml.safe_load((DEPLOY / 'compose.yaml').read_text())['services']
    docker = (DEPLOY / 'Dockerfile').read_text()
    for name, service in services.items():
        assert service['read_only'] is True, name
        assert service['user'] not in ('root', '0'), name
        assert service['cap_drop'] == ['ALL'], name
        assert 'no-new-privileges:true' in service['security_opt'], name
        assert 'healthcheck' in service or 'HEALTHCHECK' in docker, name
        assert all(port.startswith('127.0.0.1:') for port in service.get('ports', ())), name
    assert docker.index('\nUSER 10001') < docker.index('\nENTRYPOINT')
    assert '--require-hashes' in docker
    copied = re.findall(r'^COPY (?!--from)(.+) /', docker, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_the_servers_configuration_in_the_containers_is_one():
    config = load(ServerConfig, DEPLOY / 'server.yaml')
    assert config.database_url().startswith('postgresql+psycopg://')
    assert config.insecure


def test_the_container_of_a_policy_is_built_by_the_documented_steps():
    page = (ROOT / 'docs/from_checkpoint.md').read_text()
    steps = re.search(r'<!-- steps: policy server -->\n```\n(.+?)\n```', page, re.DOTALL)[1]
    docker = (DEPLOY / 'Dockerfile.policy').read_text()
    assert re.findall(r'^RUN (.+)$', docker, re.MULTILINE) == steps.splitlines()
    assert docker.index('\nUSER 10001') < docker.index('\nENTRYPOINT')
    copied = [name for line in re.findall(r'^COPY (.+) /', docker, re.MULTILINE)
              for name in line.split()]
    passed = (DEPLOY / 'Dockerfile.policy.dockerignore').read_text().splitlines()
    assert all((ROOT / name).exists() and f'!{name}' in passed for name in copied)


def test_a_policy_server_needs_only_the_packages_of_its_extra():
    lists = re.findall(r'^(?:dependencies|policy) = \[(.+?)\]$',
                       (ROOT / 'pyproject.toml').read_text(), re.MULTILINE | re.DOTALL)
    assert len(lists) == 2
    names = re.findall(r"'([\w-]+)[\[>]", ' '.join(lists))
    code = ('import sys\nfrom importlib.metadata import packages_distributions\n'
            'import arena_robot.cli.policy.serve, arena_robot.cli.policy.check\n'
            'import arena_robot.policy.connect, arena_robot.policy.metered\n'
            'import arena_robot.policy.conformance.suite, arena_robot.policy.connect\n'
            'from arena_robot.cli.verbs import VERBS, parser\nparser(VERBS)\n'
            'known = packages_distributions()\n'
            'print(*{name for module in {key.partition(".")[0] for key in sys.modules}\n'
            '        for name in known.get(module, ())})')
    loaded = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                            timeout=120, check=True).stdout.split()
    # Tools of this environment.
    extra = {'arena_robot', DISTRIBUTION, 'setuptools', 'pip', 'grpcio-tools',
             'ros-wheels-bootstrapper'}
    assert {name for name in loaded if name not in extra} <= {
        *names, *(name.lower() for name in names)}
