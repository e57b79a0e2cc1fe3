"""Several servers on one bucket: what one has stored, the others find."""

import os
import subprocess
import sys

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from arena_robot.core.errors import DataError
from arena_robot.server.store.blobs import Blobs

OTHER = """
import pathlib, sys
from arena_robot.server.store.blobs import Blobs
blobs = Blobs(sys.argv[1])
blobs.open()
source = pathlib.Path(sys.argv[2])
source.write_bytes(b'a video')
blobs.put(source, 's1/a/video.mp4')
"""


class Bucket(AbstractFileSystem):
    """A store that remembers what it listed, as s3fs does."""

    protocol, stored = 'bucket', {}

    def makedirs(self, path, exist_ok=False):
        pass

    def ls(self, path, detail=True, **_):
        entries = self.dircache[path] if path in self.dircache else [
            {'name': name, 'size': size, 'type': 'file'} for name, size in self.stored.items()
            if name.rpartition('/')[0] == path]
        self.dircache[path] = entries
        return entries if detail else [entry['name'] for entry in entries]


def there(blobs):
    return blobs.names('s1/a'), blobs.exists('s1/a/video.mp4')


def test_a_file_of_another_server_is_found_after_its_folder_was_listed():
    fsspec.register_implementation('bucket', Bucket, clobber=True)
    blobs = Blobs('bucket://arena')
    blobs.open()
    assert there(blobs) == ([], False)
    with pytest.raises(DataError):
        blobs.size('s1/a/video.mp4')
    Bucket.stored['arena/s1/a/video.mp4'] = 7
    assert there(blobs) == (['video.mp4'], True)
    assert blobs.size('s1/a/video.mp4') == 7


def test_two_processes_share_an_s3_bucket(tmp_path, monkeypatch):
    pytest.importorskip('s3fs', reason='s3fs is missing: pip install -r requirements-server.txt')
    moto = pytest.importorskip('moto.server', reason="moto is missing: pip install 'moto[server]'")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        for name, value in (('ENDPOINT_URL', 'http://{}:{}'.format(*server.get_host_and_port())),
                            ('ACCESS_KEY_ID', 'a'), ('SECRET_ACCESS_KEY', 'b'),
                            ('DEFAULT_REGION', 'us-east-1')):
            monkeypatch.setenv(f'AWS_{name}', value)
        blobs = Blobs('s3://arena/blobs')
        blobs.open()
        curve = tmp_path / 'curve.json'
        curve.write_text('{}')
        blobs.put(curve, 's1/a/curve.json')
        assert there(blobs) == (['curve.json'], False)
        subprocess.run([sys.executable, '-c', OTHER, 's3://arena/blobs', str(tmp_path / 'part')],
                       check=True, timeout=60, env=dict(os.environ))
        assert there(blobs) == (['curve.json', 'video.mp4'], True)
        assert b''.join(blobs.read('s1/a/video.mp4', 2)) == b'video'
    finally:
        server.stop()
