"""The one loop in which tests wait for a condition."""

import time

SOON_S = 20.0     # longer than anything takes, on a machine that is busy with other tests
LOOK_S = 0.01


def until(look, what='it', timeout_s=SOON_S):
    """Return what ``look`` returns once that is true; ``what``, or what it returns, is missed."""
    end_s = time.monotonic() + timeout_s
    while not (value := look()):
        assert time.monotonic() < end_s, (
            what() if callable(what) else f'{what} did not come')
        time.sleep(LOOK_S)
    return value
