"""The variables of SROS2: nodes that they ask to be protected run protected, or not at all."""

import os
import subprocess
import sys

import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.nodes.lib import spin
from arena_robot.nodes.lib.spin import Spin

START = """
import sys
from arena_robot.nodes.lib.spin import run_node
sys.exit(run_node(lambda spin: sys.exit(9)))
"""


def started(folder, enclave):
    """Start a node that would end with 9, in a process: rcl reads its environment once."""
    (folder / 'enclaves' / 'arena' / 'arm_node').mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, 'ROS_SECURITY_ENABLE': 'true', 'ROS_SECURITY_STRATEGY': 'Enforce',
                   'ROS_SECURITY_ENCLAVE_OVERRIDE': enclave, 'ROS_SECURITY_KEYSTORE': str(folder)}
    done = subprocess.run([sys.executable, '-c', START], env=environment, capture_output=True,
                          text=True, timeout=60.0, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize('enclave', ['/arena/arm_node', '/arena/unknown'])
def test_a_node_without_keys_does_not_run_unprotected(tmp_path, enclave):
    code, text = started(tmp_path, enclave)
    assert code == 2
    assert 'ROS_SECURITY_ENABLE is true' in text
    assert 'Traceback' not in text


def test_a_ros_without_security_says_so(tmp_path):
    _, text = started(tmp_path, '/arena/arm_node')
    if 'no protected node' in text:
        pytest.skip('this ROS was built with security')
    assert 'built without security, as the Python wheels are' in text
    assert 'unset ROS_SECURITY_ENABLE' in text


def test_an_error_without_these_variables_stays_what_it_is(monkeypatch):
    def fails(**_):
        raise spin.RCLError('no memory')
    monkeypatch.setattr(spin.rclpy, 'init', fails)
    monkeypatch.delenv('ROS_SECURITY_ENABLE', raising=False)
    with pytest.raises(spin.RCLError, match='no memory'):
        Spin().__enter__()
    monkeypatch.setenv('ROS_SECURITY_ENABLE', 'true')
    monkeypatch.setenv('ROS_SECURITY_KEYSTORE', '/etc/keys')
    with pytest.raises(ConfigError, match='enclave / of ROS_SECURITY_KEYSTORE=/etc/keys: no mem'):
        Spin().__enter__()
