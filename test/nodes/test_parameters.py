"""Parameters of a node: fields of a dataclass, declared with range, unit and meaning."""

from dataclasses import FrozenInstanceError, dataclass

import pytest
from rclpy.node import Node
from rclpy.parameter import Parameter

from arena_robot.core.errors import ConfigError
from arena_robot.nodes.lib.parameters import (
    ANY,
    DOWN,
    UP,
    Current,
    Parameters,
    by_name,
    declare,
    param,
    params_of,
    refuse_unknown,
)
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.session.params import SessionParams


@dataclass(frozen=True, kw_only=True)
class Example(Parameters):
    rate: float = param(10.0, 'rate of frames', 1.0, 60.0, unit='Hz')
    steps: int = param(5, 'steps', 1, 9, live=ANY)
    name: str = param('a', 'which one', choices=('a', 'bee'))
    gains: tuple[float, ...] = param((1.0, 2.0), 'gains')
    roles: tuple[str, ...] = param(('left',), 'roles', choices=('left', 'wrist'))
    fast: bool = param(False, 'be quick')
    most: tuple[float, ...] = param((1.0, 2.0), 'upper limits', live=DOWN)
    least: float = param(0.5, 'lower limit', 0.0, 1.0, live=UP)


@pytest.fixture
def make():
    """Return a function that makes a node with parameters given from outside."""
    nodes = []
    with Spin() as spin:
        def node(**given):
            overrides = [Parameter(name.replace('__', '.'), value=value)
                         for name, value in given.items()]
            nodes.append(Node('example', context=spin.context, parameter_overrides=overrides))
            return nodes[-1]
        yield node
        for made in nodes:
            made.destroy_node()


def test_defaults_are_those_of_the_dataclass_and_cannot_be_changed(make):
    v = declare(make(), Example())
    assert v == Example()
    with pytest.raises(FrozenInstanceError):
        v.rate = 3.0


def test_values_are_read_as_the_type_of_the_field(make):
    node = make(rate=20, gains=[3, 4], roles='wrist', fast=True)
    v = declare(node, Example())
    assert (v.rate, v.gains, v.roles, v.fast) == (20.0, (3.0, 4.0), ('wrist',), True)
    assert isinstance(v.rate, float)
    assert list(node.get_parameter('gains').value) == [3.0, 4.0]


def test_a_prefix_stands_before_the_names(make):
    node = make(limits__rate=30.0)
    assert declare(node, Example(), 'limits.').rate == 30.0
    assert node.has_parameter('limits.gains')
    assert next(p.name for p in params_of(Example(), 'x.')) == 'x.rate'


@pytest.mark.parametrize(('given', 'message'), [
    ({'rate': 99.0}, r'rate = 99\.0'),
    ({'rate': 'quick'}, 'rate'),
    ({'steps': 2.5}, 'steps'),
    ({'steps': True}, 'steps'),
    ({'name': 'be'}, "name: unknown value 'be'. Did you mean 'bee'"),
    ({'roles': ['left', 'wirst']}, "Did you mean 'wrist'"),
    ({'gains': ['a', 'b']}, 'gains must be a list of float, found str'),
    ({'gains': 3.0}, 'gains must be a list, found float'),
    ({'fast': 'yes'}, 'fast must be a bool'),
])
def test_what_a_field_cannot_be_is_an_error_that_names_it(make, given, message):
    with pytest.raises(ConfigError, match=message):
        declare(make(**given), Example())


def test_a_camera_role_that_no_policy_is_given_is_refused_at_the_start(make):
    with pytest.raises(ConfigError, match="roles: unknown value 'top'"):
        declare(make(roles=['left', 'top', 'wrist']), SessionParams())


def test_an_unknown_parameter_names_the_nearest(make):
    node = make(rat=3.0)
    declare(node, Example())
    with pytest.raises(ConfigError, match="unknown parameter 'rat'\\. Did you mean 'rate'"):
        refuse_unknown(node)


def test_only_a_live_parameter_changes_while_the_node_runs(make):
    node, told = make(), []
    now = Current(node, declare(node, Example()), then=lambda: told.append(now.values.steps))
    took = node.set_parameters([Parameter('steps', value=7), Parameter('rate', value=20.0)])
    assert [answer.successful for answer in took] == [True, False]
    assert 'read-only parameter: rate' in took[1].reason
    assert (now.values.steps, now.values.rate, told) == (7, 10.0, [7])
    assert not node.set_parameters([Parameter('steps', value=70)])[0].successful
    assert now.values.steps == 7


@pytest.mark.parametrize(('name', 'tighter', 'wider'), [
    ('x.most', [0.5, 2.0], [0.4, 2.1]), ('x.most', [0.5, 2.0], [0.5]),
    ('x.most', [0.5, 2.0], [float('nan'), 1.0]), ('x.least', 0.6, 0.5)])
def test_a_limit_only_becomes_tighter_while_the_node_runs(make, name, tighter, wider):
    node = make()
    now = Current(node, declare(node, Example(), 'x.'), 'x.')
    assert node.set_parameters([Parameter(name, value=tighter)])[0].successful
    before = now.values
    assert before != Example()
    answer = node.set_parameters([Parameter(name, value=wider)])[0]
    assert not answer.successful
    assert f'{name} may only be' in answer.reason
    assert 'start the node again' in answer.reason
    assert now.values == before


def test_values_that_cannot_be_together_are_refused_with_the_reason(make):
    def check(values):
        if values.steps < 3:
            raise ConfigError('too few steps')
    node = make()
    now = Current(node, declare(node, Example()), check=check)
    assert node.set_parameters([Parameter('steps', value=2)])[0].reason == 'too few steps'
    assert now.values.steps == 5


def test_tools_see_unit_range_and_choices(make):
    node = make()
    declare(node, Example())
    rate = node.describe_parameter('rate')
    assert rate.description == 'rate of frames (Hz)'
    assert rate.read_only
    assert (rate.floating_point_range[0].from_value, rate.floating_point_range[0].to_value) == (
        1.0, 60.0)
    assert node.describe_parameter('name').additional_constraints == 'one of a, bee'
    assert node.describe_parameter('most').additional_constraints == DOWN
    assert not node.describe_parameter('most').read_only
    assert set(by_name(Example())) < set(node._parameters)
