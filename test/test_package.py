"""The package says one thing about itself everywhere, and ships what it has."""

import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import arena_robot
from arena_robot.core.action import ActionSpace, ClampReason
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.observation import ObjectStatus, RobotMode
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.session.protocol.states import State

ROOT = Path(__file__).resolve().parent.parent
INTERFACES = sorted(path for kind in ('msg', 'srv', 'action')
                    for path in (ROOT / 'arena_msgs' / kind).iterdir())
# What package.xml calls a module that is not named like its package.
ROS_NAMES = {'typing_extensions': 'python3-typing-extensions'}
ROS_PACKAGES = {
    'action_msgs', 'ament_index_python', 'arena_msgs', 'builtin_interfaces', 'control_msgs',
    'cv_bridge', 'diagnostic_msgs', 'geometry_msgs', 'launch', 'launch_ros', 'lifecycle_msgs',
    'nav_msgs', 'rcl_interfaces', 'rclpy', 'rosgraph_msgs', 'rosidl_runtime_py', 'sensor_msgs',
    'service_msgs', 'std_msgs', 'std_srvs', 'tf2_msgs', 'tf2_ros', 'trajectory_msgs',
    'unique_identifier_msgs', 'visualization_msgs',
}
# Imported only where a lab has it; the code works without.
OPTIONAL = {'control_msgs', 'franka_msgs'}
PIN = re.compile(r'([\w.\-]+)(?:\[\w+\])?==([\w.]+)(?:; python_version (<|>=) "3\.11"'
                 r'(?: and python_version < "3\.13")?)?')


def manifest(folder: str) -> ET.Element:
    return ET.parse(ROOT / folder / 'package.xml').getroot()


def dependencies(folder: str, *kinds: str) -> set[str | None]:
    return {node.text for kind in kinds for node in manifest(folder).iter(kind)}


def pins(name: str) -> list[tuple[str, str, str]]:
    lines = (ROOT / name).read_text(encoding='utf-8').splitlines()
    rows = []
    for line in lines:
        if line and not line.startswith('#'):
            match = PIN.fullmatch(line)
            assert match, f'{name}: {line!r} is not an exact pin'
            rows.append((match[1].lower(), match[2], match[3]))
    return rows


@pytest.mark.parametrize('folder', ['.', 'arena_msgs'])
def test_versions_are_equal_everywhere(folder):
    assert manifest(folder).findtext('version') == arena_robot.__version__
    log = (ROOT / folder / 'CHANGELOG.rst').read_text(encoding='utf-8')
    newest = re.search(r'^(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)\n-+$', log, re.MULTILINE)
    assert newest, 'no release in the changelog'
    assert newest[1] == arena_robot.__version__
    assert f'\nversion: {arena_robot.__version__}\n' in (ROOT / 'CITATION.cff').read_text()


def test_metadata_of_setup_and_manifest_agree():
    done = subprocess.run([sys.executable, 'setup.py', '-q', '--name', '--version',
                           '--description', '--license'], cwd=ROOT, check=True,
                          capture_output=True, text=True, timeout=60)
    root = manifest('.')
    maintainer = root.find('maintainer')
    assert done.stdout.splitlines() == [
        arena_robot.DISTRIBUTION, root.findtext('version'), root.findtext('description'),
        root.findtext('license')]
    project = (ROOT / 'pyproject.toml').read_text(encoding='utf-8')
    assert f"name = '{maintainer.text}', email = '{maintainer.get('email')}'" in project
    # Addresses of the project: the same in all three files, or, as now, in none.
    cited = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
    addresses = [set(re.findall(r'https?://[^\s\'"<]+', text)) for text in (
        project, cited, ' '.join(url.text for url in root.findall('url')))]
    assert addresses[0] == addresses[1] == addresses[2]
    assert not any('example.org' in url for url in addresses[0])


@pytest.mark.parametrize('folder', ['.', 'arena_msgs'])
def test_manifests_name_licence_and_build_type(folder):
    root = manifest(folder)
    licence = root.find('license')
    assert (ROOT / folder / licence.get('file')).read_text() == (ROOT / 'LICENSE').read_text()
    assert root.findtext('export/build_type') in ('ament_python', 'ament_cmake')
    assert root.get('format') == '3'


def imported() -> set[str]:
    names = set()
    for folder in ('arena_robot', 'launch'):
        for path in (ROOT / folder).rglob('*.py'):
            for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split('.')[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names.add(node.module.split('.')[0])
    return names


def test_every_ros_import_is_a_dependency():
    ours = (imported() & (ROS_PACKAGES | set(ROS_NAMES))) - OPTIONAL
    wanted = {ROS_NAMES.get(name, name) for name in ours}
    assert wanted - dependencies('.', 'depend', 'exec_depend') == set()


def test_every_other_import_is_pinned():
    pinned = {name for name, _, _ in pins('requirements.txt')}
    distributions = {
        'cv2': 'opencv-python-headless', 'yaml': 'pyyaml', 'pil': 'pillow', 'google': 'protobuf',
        'grpc': 'grpcio', 'grpc_health': 'grpcio-health-checking',
        'grpc_reflection': 'grpcio-reflection', 'starlette': 'fastapi', 'pydantic': 'fastapi',
        'openssl': 'mujoco', 'opengl': 'mujoco', 'ruamel': 'rosbags', 'glfw': 'mujoco',
        'typing_extensions': 'fastapi', 'anyio': 'fastapi', 'serial': 'pyserial', 'zmq': 'pyzmq',
        'prometheus_client': 'prometheus_client', 'markupsafe': 'jinja2', 'joserfc': 'authlib'}
    vendors = {'pyzed', 'pylibfranka', 'franka', 'franka_msgs', 'zerorpc', 'evalica', 'choix',
               'pyspiel', 'pytest', 'keyring', 'rerun', 'gymnasium',
               'huggingface_hub'}
    own_names = {'arena_robot', *ROS_PACKAGES, *vendors}
    missing = {name for name in imported() - set(sys.stdlib_module_names) - own_names
               if distributions.get(name.lower(), name.lower().replace('_', '-')) not in pinned}
    assert missing == set()


def test_pins_are_exact_and_said_once():
    seen = {}
    for name in ('requirements.txt', 'requirements-ros.txt', 'requirements-dev.txt',
                 'requirements-bench.txt', 'requirements-franka.txt'):
        for package, version, python in pins(name):
            pinned = seen.setdefault((package, python), version)
            assert pinned == version, f'{package} is pinned twice, {pinned} and {version}'
    # A peer to measure against may be missing on some Python; what we need may not.
    peers = {package for package, _, _ in pins('requirements-bench.txt')}
    old = {package for package, python in seen if python == '<'} - peers
    new = {package for package, python in seen if python == '>='} - peers
    assert old == new
    for path in ('setup.py', 'setup.cfg', 'Makefile', '.github/workflows/ci.yml', '.ci/setup'):
        text = (ROOT / path).read_text(encoding='utf-8')
        repeated = [package for package, _ in seen
                    if re.search(rf'\b{package}\s*[=<>~]=\s*\d', text)]
        assert repeated == [], f'{path} pins {repeated}, which requirements*.txt should do'


def test_the_drivers_name_the_libraries_that_setup_installs():
    assert [f'{name}=={version}' for name, version, _ in pins('requirements-franka.txt')] == [
        driver.INSTALL for driver in (FrankaRsArm, LibfrankaArm)]


def test_grpc_parts_have_one_version():
    names = {'grpcio', 'grpcio-tools', 'grpcio-health-checking', 'grpcio-reflection'}
    rows = pins('requirements.txt') + pins('requirements-dev.txt')
    assert len({version for name, version, _ in rows if name in names}) == 1


def test_every_launch_and_config_file_is_installed():
    code = ('import setuptools\n'
            'setuptools.setup = lambda **words: [print(f) for _, fs in words["data_files"]'
            ' for f in fs]\n'
            'exec(open("setup.py").read())')
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=True, timeout=60,
                          capture_output=True, text=True)
    files = {str(path.relative_to(ROOT)) for folder in ('launch', 'config')
             for path in (ROOT / folder).rglob('*')
             if path.is_file() and '__pycache__' not in path.parts}
    assert files - set(done.stdout.split()) == set()


@pytest.mark.parametrize('path', INTERFACES, ids=lambda path: path.stem + path.suffix)
def test_every_field_of_every_interface_has_a_comment(path):
    lines = path.read_text(encoding='utf-8').splitlines()
    assert lines[0].startswith('# '), 'the file does not begin with what it is for'
    commented = False
    for number, line in enumerate(lines, 1):
        assert len(line) <= 99, f'line {number} is longer than 99 columns'
        if line.startswith('#'):
            commented = commented or line != '#'
        elif line in ('', '---'):
            commented = False
        else:
            assert commented, f'line {number} has no comment above it: {line}'


def constants(name: str, prefix: str = '') -> dict[str, str]:
    text = (ROOT / 'arena_msgs' / 'msg' / f'{name}.msg').read_text(encoding='utf-8')
    values = re.findall(rf'^\w+ {prefix}([A-Z_]+)="?(\w+)"?', text, re.MULTILINE)
    return dict(values)


@pytest.mark.parametrize(('name', 'prefix', 'words'), [
    ('ArmState', 'MODE_', RobotMode), ('GripperState', 'OBJECT_', ObjectStatus),
    ('Clamp', '', ClampReason), ('PolicyAction', '', ActionSpace),
    ('EpisodeInfo', 'END_', EndReason), ('StepRecord', 'SLOT_', Slot),
])
def test_messages_use_the_words_and_numbers_of_the_code(name, prefix, words):
    assert constants(name, prefix) == {word.name: str(word.value) for word in words}


def test_the_message_knows_the_states_of_a_session_in_order():
    assert constants('SessionState') == {
        state.name: str(number) for number, state in enumerate(State)}


def test_every_interface_is_built():
    named = set(re.findall(r'"((?:msg|srv|action)/\w+\.\w+)"',
                           (ROOT / 'arena_msgs' / 'CMakeLists.txt').read_text()))
    assert named == {f'{path.parent.name}/{path.name}' for path in INTERFACES}


def test_stamped_messages_begin_with_their_header():
    for path in INTERFACES:
        fields = [line for line in path.read_text(encoding='utf-8').splitlines()
                  if line and not line.startswith('#')]
        if any('std_msgs/Header' in line for line in fields):
            assert fields[0] == 'std_msgs/Header header', f'{path.name}: header is not first'


def refusal(python: Path, version: str) -> 'subprocess.CompletedProcess[str]':
    python.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Python {version}"\nexit 1\n')
    python.chmod(0o755)
    return subprocess.run(['sh', '.ci/setup'], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False,
                          env={'PATH': '/usr/bin:/bin', 'PYTHON': str(python)})


@pytest.mark.parametrize('version', ['3.9.20', '3.14.0'])
def test_setup_refuses_another_python_and_says_what_to_do(tmp_path, version):
    done = refusal(tmp_path / 'some python', version)
    assert done.returncode == 1
    assert f'Python {version}' in done.stderr
    assert 'Python 3.10, 3.11, 3.12 or 3.13 is needed' in done.stderr
    assert 'make setup PYTHON=' in done.stderr
    assert done.stdout == ''
