"""Memory that was freed is there for the next image; gRPC knows the settings that it gets."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from arena_robot.core.tuning import keep_freed_memory
if sys.argv[1] == 'kept':
    keep_freed_memory()

def images():
    for _ in range(50):
        pictures = [np.ones(2_700_000, np.uint8) for _ in range(4)]
        del pictures

images()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
images()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

CHANNEL = """
import os
from arena_robot.core.tuning import poll_sockets_in_one_thread
poll_sockets_in_one_thread()
os.environ['GRPC_EXPERIMENTS'] += '{}'
import grpc
grpc.insecure_channel('127.0.0.1:1').close()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='the GNU C library is missing')
def test_images_do_not_fetch_their_memory_from_the_system_each_time():
    tuned, plain = (int(subprocess.run(
        [sys.executable, '-c', FAULTS, how], capture_output=True, text=True, timeout=60,
        check=True).stdout) for how in ('kept', 'plain'))
    assert plain > 10_000, 'the C library keeps it by itself'
    assert tuned < plain / 50


def test_grpc_knows_the_experiments_that_are_switched_off():
    outputs = [subprocess.run([sys.executable, '-c', CHANNEL.format(more)], capture_output=True,
                              text=True, timeout=60, check=True).stderr
               for more in ('', ',-nothing')]
    assert 'Unknown experiment' not in outputs[0]
    assert 'Unknown experiment: nothing' in outputs[1]    # as gRPC says it


def test_many_objects_set_off_full_collections_only_where_they_are_not_made_seldom():
    code = """
import gc, sys
from arena_robot.core.tuning import collect_seldom
if sys.argv[1] == 'seldom':
    collect_seldom()
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info['generation'] == 2 else None)
kept = [[] for _ in range(400_000)]
print(len(full))
"""
    seldom, plain = (int(subprocess.run([sys.executable, '-c', code, how], capture_output=True,
                                        text=True, timeout=60, check=True).stdout)
                     for how in ('seldom', 'plain'))
    assert seldom == 0 < plain
