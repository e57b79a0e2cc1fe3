"""
Record what unmodified clients and servers of openpi and RoboArena send each other, frame by frame.

    .venv/bin/python bench/peers_recording.py --peers peers > test/data/openpi_frames.json

Each exchange is a request and its reply: {"bytes": base64} for a binary frame, {"text": …} for
text. The tests replay both sides without the peers' code.
"""

import argparse
import asyncio
import base64
import json
import re
import threading
import time

import numpy as np
from peers_servers import SmallPolicy, add_peers
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

SIZE = (24, 32)


def kept(frame):
    """Return a frame for JSON; folders of this machine are left out of tracebacks."""
    if isinstance(frame, str):
        return {'text': re.sub(r'File "[^"]*/', 'File "', frame)}
    return {'bytes': base64.b64encode(frame).decode()}


class Between:
    """Passes frames on between a client and a server, and keeps them."""

    def __init__(self, upstream):
        self._upstream = upstream
        self.metadata, self.exchanges = None, []

    async def pass_on(self, client):
        """Serve one connection."""
        async with connect(f'ws://127.0.0.1:{self._upstream}', compression=None) as server:
            first = await server.recv()
            self.metadata = kept(first)
            await client.send(first)
            async for request in client:
                await server.send(request)
                reply = await server.recv()
                self.exchanges.append({'request': kept(request), 'reply': kept(reply)})
                await client.send(reply)


def in_thread(start):
    """Run an asyncio server in a thread; return the port once it listens."""
    ports = []

    async def run():
        async with await start() as server:
            ports.append(server.sockets[0].getsockname()[1])
            await asyncio.get_running_loop().create_future()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    while not ports:
        time.sleep(0.05)
    return ports[0]


def recorded(own_server, talk):
    """Return the frames of a conversation of a peer's client with the peer's server."""
    upstream = in_thread(lambda: awaited(serve(own_server._handler, '127.0.0.1', 0,
                                               compression=None, max_size=None)))
    between = Between(upstream)
    port = in_thread(lambda: awaited(serve(between.pass_on, '127.0.0.1', 0, compression=None)))
    talk(port)
    return {'metadata': between.metadata, 'exchanges': between.exchanges}


async def awaited(server):
    """Return a server that has not been started yet."""
    return server


def request():
    """Return an observation with two small pictures."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, *SIZE, 3), np.uint8)
    return {'observation/exterior_image_1_left': pictures[0],
            'observation/wrist_image_left': pictures[1],
            'observation/joint_position': np.linspace(-0.3, 0.3, 7),
            'observation/cartesian_position': np.linspace(0.1, 0.6, 6),
            'observation/gripper_position': np.array([0.25]), 'prompt': 'lift the cube'}


def talk_openpi(port):
    """Ask twice, the second time in a way that the policy cannot answer."""
    from openpi_client.websocket_client_policy import WebsocketClientPolicy
    client = WebsocketClientPolicy('127.0.0.1', port)
    client.infer(request())
    try:
        client.infer({**request(), 'prompt': 5})
    except RuntimeError:
        return
    raise SystemExit('the wrong request was answered')


def talk_roboarena(port):
    """Ask and reset."""
    from roboarena.policy_client import WebsocketClientPolicy
    client = WebsocketClientPolicy('127.0.0.1', port)
    client.infer({**request(), 'session_id': 'abc'})
    client.reset({'session_id': 'abc'})
    client.infer({})    # as its README does


def main():
    """Print the recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--peers', required=True)
    add_peers(parser.parse_args().peers)
    from openpi.serving.websocket_policy_server import WebsocketPolicyServer as OfOpenpi
    from roboarena.policy_server import PolicyServerConfig
    from roboarena.policy_server import WebsocketPolicyServer as OfRoboarena
    config = PolicyServerConfig(image_resolution=SIZE, needs_session_id=True,
                                action_space='joint_velocity')
    print(json.dumps({
        'openpi': recorded(OfOpenpi(SmallPolicy(False), metadata={}), talk_openpi),
        'roboarena': recorded(OfRoboarena(SmallPolicy(False), config), talk_roboarena)}))


if __name__ == '__main__':
    main()
