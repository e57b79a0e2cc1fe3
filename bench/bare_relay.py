"""
Relays that only pass bytes on to a policy, as cheap as each protocol can be; prints the port.

`bare_relay.py HOST:PORT` relays gRPC calls, `bare_relay.py ws://HOST:PORT` frames of a websocket.
"""

import asyncio
import sys

import grpc
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from arena_robot.core.tuning import keep_freed_memory
from arena_robot.policy.grpc.channel import SERVICE


async def calls(target):
    channel = grpc.aio.insecure_channel(target)
    call = channel.unary_unary(f'/{SERVICE}/Infer')

    async def infer(data, context):
        return await call(data, timeout=10.0)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        SERVICE, {'Infer': grpc.unary_unary_rpc_method_handler(infer)}),))
    print(server.add_insecure_port('127.0.0.1:0'), flush=True)
    await server.start()
    await server.wait_for_termination()


async def frames(address):
    async def converse(robot):
        async with connect(address, compression=None, max_size=None) as policy:
            await robot.send(await policy.recv())
            async for frame in robot:
                await policy.send(frame)
                await robot.send(await policy.recv())

    async with serve(converse, '127.0.0.1', 0, compression=None, max_size=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == '__main__':
    keep_freed_memory()
    asyncio.run((frames if '://' in sys.argv[1] else calls)(sys.argv[1]))
