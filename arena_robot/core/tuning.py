"""How interpreter, C library and gRPC are tuned for images, messages and control loops."""

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator

SWITCH_S = 0.0005
MIDDLE_BEFORE_FULL = 1000    # collections of the middle generation; Python's default is 10
GRPC_EXPERIMENTS = '-event_engine_client,-event_engine_listener,-event_engine_callback_cq'
MALLOPT = ((-3, 64 << 20), (-1, 256 << 20))  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (bytes)


def switch_threads_soon() -> None:
    """
    Let a thread of this process wait at most 0.5 ms for another's turn.

    Python's default is 5 ms: where control loops, image streams and STOP share an interpreter, a
    few waiting threads add up to the period of a frame.
    """
    sys.setswitchinterval(SWITCH_S)


def keep_freed_memory() -> None:
    """
    Keep up to 256 MB of freed memory for the next images and messages.

    Memory that is taken from the system again costs a page fault every 4 kB, a fifth and more of
    the time that a policy server spends on a query with two pictures.
    """
    with contextlib.suppress(AttributeError, OSError):  # only the GNU C library has mallopt
        for option, size in MALLOPT:
            ctypes.CDLL(None).mallopt(option, size)


def draw_without_window() -> None:
    """Have MuJoCo draw with EGL where it is and nobody chose; before MuJoCo is imported."""
    try:
        ctypes.CDLL('libEGL.so.1')
    except OSError:
        os.environ.setdefault('MUJOCO_GL', 'disabled')
    os.environ.setdefault('MUJOCO_GL', 'egl')


def poll_sockets_in_one_thread() -> None:
    """
    Let gRPC read and write all sockets in the thread that waits for them; before it is imported.

    By default it passes each message through threads of its own. On a machine whose cores are
    busy, as those of a server with hundreds of stations are, each of them waits for its turn.
    """
    os.environ.setdefault('GRPC_EXPERIMENTS', GRPC_EXPERIMENTS)


def multiply_in_one_thread() -> None:
    """
    Let each product of matrices use the thread that asks for it; before numpy is imported.

    A server's standings have many products of small matrices. Threads of OpenBLAS that wait for
    each other, while other threads answer pages, double the time of a fit.
    """
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')


def keep_what_exists() -> None:
    """
    Leave all objects that exist now out of later garbage collections.

    They live until the end of the program. A collection that visits all of them holds up control
    loops and STOP by a tenth of a second.
    """
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """
    Have a hundredth of the full garbage collections.

    A full collection visits all objects, and no thread runs meanwhile. Where results of 100 000
    sessions are renewed, each renewal set off several of 0.1 to 0.3 s; they found next to nothing.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, MIDDLE_BEFORE_FULL)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """
    Collect no garbage while modules are loaded, and leave them out of later collections.

    Loading makes a few hundred thousand objects and drops few of them; collections that look for
    those take a sixth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
