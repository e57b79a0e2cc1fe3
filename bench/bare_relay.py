"""A relay that only passes bytes on to a policy, as cheap as gRPC can be; prints its port."""

import asyncio
import sys

import grpc

from arena_robot.core.tuning import keep_freed_memory
from arena_robot.policy.grpc.channel import SERVICE


async def main():
    channel = grpc.aio.insecure_channel(sys.argv[1])
    call = channel.unary_unary(f'/{SERVICE}/Infer')

    async def infer(data, context):
        return await call(data, timeout=10.0)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        SERVICE, {'Infer': grpc.unary_unary_rpc_method_handler(infer)}),))
    print(server.add_insecure_port('127.0.0.1:0'), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == '__main__':
    keep_freed_memory()
    asyncio.run(main())
