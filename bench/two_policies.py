"""Two policies that answer each query at once with the same chunk; prints their addresses."""

import asyncio

import grpc

from arena_robot.core.tuning import keep_freed_memory
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import SERVICE
from arena_robot.session.arena.contract import observation

PINGS = (('grpc.keepalive_permit_without_calls', 1),
         ('grpc.http2.min_recv_ping_interval_without_data_ms', 5_000))


async def main():
    """Answer with bytes: on the machine of a bench, a policy is in the way of what is measured."""
    echo = Echo()
    chunk = wire.chunk_to_wire(echo.infer(observation()), 0.0, 0.0).SerializeToString()
    replies = {'GetSpec': wire.spec_to_wire(echo.spec).SerializeToString(), 'Infer': chunk,
               'Reset': b''}

    def answering(reply):
        async def answer(request, context):
            return reply
        return grpc.unary_unary_rpc_method_handler(answer)

    calls = {name: answering(reply) for name, reply in replies.items()}
    servers = [grpc.aio.server(options=PINGS), grpc.aio.server(options=PINGS)]
    ports = []
    for server in servers:
        server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler(SERVICE, calls),))
        ports.append(server.add_insecure_port('127.0.0.1:0'))
        await server.start()
    print(*(f'grpc://127.0.0.1:{port}' for port in ports), flush=True)
    await servers[0].wait_for_termination()


if __name__ == '__main__':
    keep_freed_memory()
    asyncio.run(main())
