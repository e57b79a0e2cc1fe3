"""A server like openpi's own: its bytes, a key, TLS, a path; it knows no reset and no session."""

import asyncio
import contextlib
import http
import ssl
import threading
import traceback

import msgpack
import numpy as np
from websockets.asyncio.server import serve


def packed(value):
    """Return an array as the map that openpi sends."""
    return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
            b'shape': value.shape}


def unpacked(value):
    """Return the array in a map of openpi."""
    if b'__ndarray__' in value:
        return np.ndarray(buffer=value[b'data'], dtype=np.dtype(value[b'dtype']),
                          shape=value[b'shape'])
    return value


def sampled(random):
    """Return a policy that draws velocities which depend on everything that it sees."""
    def infer(request):
        light = request['observation/exterior_image_1_left'].mean() \
            + request['observation/wrist_image_left'].mean()
        word = sum(map(ord, request['prompt'])) % 97
        mean = np.append(0.3 * request['observation/joint_position'] + 1e-4 * (light + word), 0.5)
        noise = random.normal(0.0, 0.05, (10, 8)) if random else np.zeros((10, 8))
        return np.clip(mean + noise, -1.0, 1.0) * np.append(np.ones(7), 0.5)
    return infer


@contextlib.contextmanager
def served(infer, metadata, key='', tls=None, path='/'):
    """Serve ``infer`` as openpi's WebsocketPolicyServer does, with asyncio; yield the port."""
    def admit(connection, request):
        if request.path != path:
            return connection.respond(http.HTTPStatus.NOT_FOUND, 'no policy here\n')
        if key and request.headers.get('Authorization') != f'Api-Key {key}':
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, 'a key is needed\n')
        return None

    async def converse(connection):
        await connection.send(msgpack.packb(metadata))
        async for frame in connection:
            try:
                request = msgpack.unpackb(frame, object_hook=unpacked)
                actions = await asyncio.to_thread(infer, request)
                await connection.send(msgpack.packb({'actions': packed(actions)}))
            except Exception:
                await connection.send(traceback.format_exc())
                await connection.close(1011)
                return

    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    started = asyncio.run_coroutine_threadsafe(_listen(converse, admit, context), loop)
    try:
        server = started.result(10.0)
        yield server.sockets[0].getsockname()[1]
        server.close()
        asyncio.run_coroutine_threadsafe(server.wait_closed(), loop).result(10.0)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


async def _listen(converse, admit, context):
    return await serve(converse, '127.0.0.1', 0, compression=None, max_size=None,
                       close_timeout=1, process_request=admit, ssl=context)
