"""Tables to which installed packages add, and the loader of ``module:name``."""

import importlib
import logging
from collections.abc import Sequence
from typing import Protocol

import pytest
from installed_package import install

from arena_robot.core.errors import ConfigError, RankingError
from arena_robot.core.extensions import Table, broken_members, load_object


def number(value, name):
    if not isinstance(value, int):
        raise ConfigError(f"'{name}' is no number")
    return value


@pytest.fixture
def table():
    return Table('number', 'a_test.numbers', {'one': 1, 'cpu': 'errno:EPERM'}, number,
                 RankingError)


def test_a_built_in_name_reads_no_entry_points(table, monkeypatch):
    def no_scan(**_):
        raise AssertionError('entry points were read')
    monkeypatch.setattr('importlib.metadata.entry_points', no_scan)
    assert table.find('one') == 1
    assert table.find('cpu') == 1
    assert table.find('errno:EINTR') == 4


def test_a_name_from_a_request_loads_no_module(table):
    assert table.find_named('one') == 1
    with pytest.raises(RankingError, match=r"'errno:EPERM' is not the name of a number. Known: "):
        table.find_named('errno:EPERM')


def test_an_installed_package_adds_a_name(table, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, 'more_numbers', {'more_numbers.py': 'SEVEN = 7\nWORD = "x"\n'},
            '[a_test.numbers]\nseven = more_numbers:SEVEN\none = more_numbers:SEVEN\n')
    assert table.find('seven') == 7
    assert table.find('one') == 1, 'a built-in name is not replaced'
    assert table.names() == ['one', 'cpu', 'seven']
    assert table.rows() == {'one': 1, 'cpu': 1, 'seven': 7}


def test_a_row_that_cannot_be_loaded_is_left_out_of_the_list(table, tmp_path, monkeypatch, caplog):
    install(tmp_path, monkeypatch, 'broken_numbers', {'broken_numbers.py': 'raise OSError("no")'},
            '[a_test.numbers]\nbad = broken_numbers:X\n')
    with caplog.at_level(logging.WARNING):
        assert table.rows() == {'one': 1, 'cpu': 1}
    assert "the number 'bad' is left out: cannot import 'broken_numbers'" in caplog.text
    with pytest.raises(ConfigError, match='cannot import'):
        table.find('bad')


def test_one_name_from_two_packages_is_refused(table, tmp_path, monkeypatch):
    for name, value in (('first_lab', 1), ('second_lab', 2)):
        install(tmp_path / name, monkeypatch, name, {f'{name}.py': f'N = {value}'},
                f'[a_test.numbers]\nours = {name}:N\n')
    with pytest.raises(RankingError, match='added by first_lab and second_lab'):
        table.find('ours')
    assert table.find('second_lab:N') == 2


def test_an_unknown_name_names_the_nearest_also_of_installed_ones(table, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, 'near', {'near.py': 'N = 3'},
            '[a_test.numbers]\nthree = near:N')
    with pytest.raises(RankingError, match=r"no number 'threee'. Did you mean 'three'\? Known: "
                                           r'cpu, one, three.*module:name'):
        table.find('threee')


@pytest.mark.parametrize(('address', 'says'), [
    ('no_such_module:x', "cannot import 'no_such_module'"), (':x', 'is not module:name'),
    ('errno:', 'is not module:name'), ('errno:EPERMM', "Did you mean 'EPERM'"),
])
def test_what_cannot_be_loaded_is_explained(address, says):
    with pytest.raises(ConfigError) as caught:
        load_object(address)
    assert says in str(caught.value)


def test_modules_of_the_working_directory_and_inner_names_are_found(tmp_path, monkeypatch):
    (tmp_path / 'my_own_words.py').write_text('class A:\n    class B:\n        x = 5\n')
    monkeypatch.setattr('sys.path', [*importlib.import_module('sys').path])
    monkeypatch.chdir(tmp_path)
    assert load_object('my_own_words:A.B').x == 5


class Walks(Protocol):
    pace: float

    @property
    def gait(self) -> str: ...

    def step(self, length_m: float, slow: bool = False) -> float: ...

    def legs(self) -> Sequence[str]: ...


class Good:
    gait = 'trot'

    def __init__(self):
        self.pace = 1.0

    def step(self, length_m, slow=False, extra=None):
        return length_m

    @staticmethod
    def legs():
        return ()


class Bad:
    legs = ('left', 'right')

    def step(self, metres, slow=False):
        return metres


def test_a_class_that_keeps_a_protocol_lacks_nothing():
    assert broken_members(Good, Walks) == []
    assert broken_members(Good(), Walks) == []


def test_what_is_missing_is_named_member_by_member():
    assert broken_members(Bad, Walks) == [
        'gait', 'legs() (it is not a method)',
        'step(length_m, slow=False) (it takes (self, metres, slow=False))']
    assert broken_members(Bad(), Walks) == [
        'gait', 'legs() (it is not a method)', 'pace',
        'step(length_m, slow=False) (it takes (metres, slow=False))']
