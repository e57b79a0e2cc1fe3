"""Two policies that echo what they see, in one process; prints their addresses."""

from arena_robot.policy.examples.echo import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer

if __name__ == '__main__':
    with GrpcPolicyServer(Echo()) as one, GrpcPolicyServer(Echo()) as two:
        print(one.address, two.address, flush=True)
        one.wait()
