"""Bad input at a device, such as a wrong address or a pulled cable, is told within two seconds."""

import time
from contextlib import contextmanager

import pytest

TOLD_S = 2.0


@contextmanager
def in_time(seconds=TOLD_S):
    """See that what is in the block takes less time."""
    begin_s = time.monotonic()
    yield
    took_s = time.monotonic() - begin_s
    assert took_s < seconds, f'told after {took_s:.1f} s'


@contextmanager
def told(kind, match):
    """See that an error of this kind comes in time, in these words."""
    with in_time(), pytest.raises(kind, match=match) as caught:
        yield caught
