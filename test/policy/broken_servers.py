"""Servers that break the protocol below the level of a policy, over real sockets."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import msgpack
import numpy as np
from websockets.sync.server import serve

from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc


def array(value):
    """Return a numpy array as the map that openpi sends."""
    return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
            b'shape': value.shape}


class Raw(pb_grpc.PolicyServiceServicer):
    """Sends whatever actions and spec it was made with."""

    def __init__(self, actions, spec):
        self.actions, self.spec = actions, spec

    def GetSpec(self, request, context):  # noqa: N802
        return self.spec

    def Infer(self, request, context):  # noqa: N802
        rows, columns = self.actions.shape if self.actions.ndim == 2 else (len(self.actions), 1)
        return pb.InferReply(actions=self.actions.ravel().tolist(), rows=rows, columns=columns,
                             action_space=pb.ACTION_SPACE_JOINT_POSITION)


@contextlib.contextmanager
def raw_grpc(actions, **changes):
    """Serve ``actions`` unchecked; ``changes`` are fields of the spec message."""
    spec = wire.spec_to_wire(PolicySpec())
    for name, value in changes.items():
        setattr(spec, name, value)
    server = grpc.server(ThreadPoolExecutor(4))
    pb_grpc.add_PolicyServiceServicer_to_server(Raw(actions, spec), server)
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    yield f'grpc://127.0.0.1:{port}'
    server.stop(0).wait(5)


METADATA = {'image_resolution': (224, 224), 'needs_wrist_camera': True, 'n_external_cameras': 1,
            'needs_stereo_camera': False, 'needs_session_id': False,
            'action_space': 'joint_position'}


@contextlib.contextmanager
def raw_openpi(reply, first=None, **changes):
    """
    Serve by hand: ``reply(frame)`` returns the next frame, None hangs up.

    ``first`` replaces the metadata frame, ``changes`` are keys of it. After a traceback it hangs
    up, as the reference server does.
    """
    def converse(connection):
        metadata = {key: value for key, value in {**METADATA, **changes}.items()
                    if value != 'absent'}
        connection.send(msgpack.packb(metadata) if first is None else first)
        for frame in connection:
            answer = reply(frame)
            if answer is None:
                connection.close(1011)
                return
            connection.send(answer)
            if isinstance(answer, str) and answer.startswith('Traceback'):
                connection.close(1011)
                return

    server = serve(converse, '127.0.0.1', 0, compression=None, max_size=None, close_timeout=1)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'openpi://127.0.0.1:{server.socket.getsockname()[1]}'
    server.shutdown()
    thread.join(5)


@contextlib.contextmanager
def raw_actions(protocol, actions):
    """Serve ``actions`` unchecked over either protocol."""
    if protocol == 'grpc':
        with raw_grpc(np.asarray(actions)) as address:
            yield address
    else:
        packed = msgpack.packb({'actions': array(np.asarray(actions))})
        with raw_openpi(lambda frame: packed) as address:
            yield address


@contextlib.contextmanager
def deaf():
    """Listen, accept, and say nothing."""
    with socket.create_server(('127.0.0.1', 0)) as listening:
        yield f'127.0.0.1:{listening.getsockname()[1]}'


def free_port():
    """Return a port on which nobody listens."""
    with socket.create_server(('127.0.0.1', 0)) as listening:
        return listening.getsockname()[1]
