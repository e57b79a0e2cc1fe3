"""Ports of servers that are killed and started again at the same port."""

import random
import socket
from contextlib import suppress


def free_port():
    """Return a free port below those of outgoing calls, so that none takes it during a restart."""
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        with suppress(OSError), socket.create_server(('127.0.0.1', port)):
            return port
