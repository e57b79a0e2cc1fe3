"""Ports of servers that are killed and started again at the same port."""

import random
import socket
from contextlib import suppress

GIVEN: set[int] = set()


def free_port():
    """
    Return a free port below those of outgoing calls, so that none takes it during a restart.

    No port is returned twice: gRPC lets two servers listen at one.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        with suppress(OSError), socket.create_server(('127.0.0.1', port)):
            if port not in GIVEN:
                GIVEN.add(port)
                return port
