"""Work in processor time that no other program wants."""

import os
import sys
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path('/proc/self/autogroup')
LOWEST = 19


def use_spare_time() -> None:
    """
    Let this process, which must lead a session of its own, run only while nobody else does.

    A priority counts among the processes of one session only where Linux groups them by session
    (``sched_autogroup_enabled``): there the priority of the group is lowered too.
    """
    os.nice(LOWEST)
    if sys.platform != 'linux':
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == os.getpid():
        with suppress(OSError):    # a kernel without groups, or they cannot be changed here
            AUTOGROUP.write_text(f'{LOWEST}\n', encoding='ascii')
