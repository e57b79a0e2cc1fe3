"""A /dev/shm of its own for a process: no other process on the machine sees what it holds."""

import shutil
import subprocess

import pytest

OWN_SHM = ('unshare', '--map-root-user', '--mount', 'sh', '-c',
           'mount -t tmpfs none /dev/shm && exec "$0" "$@"')


def may_mount():
    """Return whether a process here may have its own."""
    return bool(shutil.which('unshare')) and not subprocess.run(
        [*OWN_SHM, 'true'], capture_output=True, check=False).returncode


needs_own_shm = pytest.mark.skipif(
    not may_mount(), reason='needs unshare and the right to mount: a /dev/shm of its own')
