"""A file that needs too much ends the process that reads it, and nothing else."""

import io
import time

import numpy as np
import pytest

from arena_robot.core.bounded import BoundedWorker
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import from_jpeg, to_jpeg
from arena_robot.records.episode_file import read_arrays


@pytest.fixture(scope='module')
def worker():
    return BoundedWorker(call_s=5.0)


def test_what_is_returned_and_raised_comes_back(worker):
    content = io.BytesIO()
    np.savez(content, q=np.arange(3))
    assert list(worker.call(read_arrays, content.getvalue(), 'steps.npz')['q']) == [0, 1, 2]
    with pytest.raises(DataError, match='npz cannot be read'):
        worker.call(read_arrays, b'no zip', 'steps.npz')


def test_too_much_memory_and_time_are_refused_and_the_next_call_works(worker):
    for work, argument in ((np.zeros, 10**12), (time.sleep, 60.0)):
        with pytest.raises(DataError, match='more than 4096 MiB or 5 s'):
            worker.call(work, argument)
        assert worker.call(len, 'abc') == 3


def test_a_picture_that_says_more_than_it_may_is_not_decoded():
    with pytest.raises(DataError, match='has 60 by 50 pixels, at most 2999'):
        from_jpeg(to_jpeg(np.zeros((50, 60, 3), np.uint8)), 2999)
