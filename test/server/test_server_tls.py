"""The server over TLS, and with a blob store that is no folder."""

import contextlib
import ssl

import httpx
import pytest

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, ServerUnavailable
from arena_robot.server.app import ArenaServer
from arena_robot.server.client import Calls, ServerAddress
from arena_robot.server.config import ServerConfig, Tls
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.results.exports import materialise
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.web.site.serve import SiteServer

trustme = pytest.importorskip('trustme', reason='trustme is missing: make setup')


@pytest.fixture(scope='module')
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tls')
    ca = trustme.CA()
    issued = ca.issue_cert('localhost')
    issued.private_key_pem.write_to_path(folder / 'key.pem')
    for blob in issued.cert_chain_pems:
        blob.write_to_path(folder / 'cert.pem', append=True)
    ca.cert_pem.write_to_path(folder / 'ca.pem')
    return folder


def hello(target, **how):
    with contextlib.closing(Calls(ServerAddress(target, '', timeout_s=8.0, **how))) as calls:
        return calls('Hello', pb.HelloRequest()).now_ns


def test_the_line_is_encrypted_and_the_other_end_is_known(tmp_path, authority):
    config = ServerConfig(data=tmp_path, port=0, host='localhost', probe_period_s=3600.0,
                          tls=Tls(authority / 'cert.pem', authority / 'key.pem'))
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        target = f'localhost:{server.port}'
        assert hello(target, ca=authority / 'ca.pem') > 0
        (tmp_path / 'empty.pem').write_text('no certificate')
        for wrong, words in (
                ({}, 'connect with TLS'), ({'tls': True}, 'no authority that is trusted here'),
                ({'ca': tmp_path / 'empty.pem'}, 'has no certificate in PEM')):
            with pytest.raises(ServerUnavailable, match=words) as said:
                hello(target, **wrong)
            assert 'SSL' not in str(said.value)
        with pytest.raises(ServerUnavailable, match='of another name than the one called'):
            hello(f'127.0.0.1:{server.port}', ca=authority / 'ca.pem')


def test_a_server_without_tls_says_so(tmp_path, authority):
    config = ServerConfig(data=tmp_path, port=0, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server, \
            pytest.raises(ServerUnavailable, match='no TLS is spoken there'):
        hello(f'127.0.0.1:{server.port}', ca=authority / 'ca.pem')


def test_the_site_is_encrypted_too(tmp_path, authority):
    config = ServerConfig(data=tmp_path, port=0, host='localhost', probe_period_s=3600.0,
                          tls=Tls(authority / 'cert.pem', authority / 'key.pem'))
    context = ssl.create_default_context(cafile=authority / 'ca.pem')
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server, \
            SiteServer(server, 'localhost', 0) as site:
        assert site.address.startswith('https://')
        # Nothing on this page is computed first, so it is there at once.
        assert httpx.get(f'{site.address}/api', verify=context).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f'http{site.address[5:]}/api')


def test_missing_certificates_are_named(tmp_path):
    config = ServerConfig(data=tmp_path, port=0, tls=Tls(tmp_path / 'no.pem', tmp_path / 'no.key'))
    server = ArenaServer(config, SystemClock(), lambda a: '', lambda a: '')
    with pytest.raises(ConfigError, match=r'cannot read .*no\.key'):
        server.open()


def test_a_key_that_is_not_the_certificates_is_named(tmp_path, authority):
    config = ServerConfig(data=tmp_path, port=0, tls=Tls(authority / 'cert.pem',
                                                         authority / 'ca.pem'))
    server = ArenaServer(config, SystemClock(), lambda a: '', lambda a: '')
    with pytest.raises(ConfigError, match=r'are no certificate and its key in PEM'):
        server.open()


def test_blobs_anywhere(tmp_path):
    blobs = Blobs('memory://arena-test')
    blobs.open()
    source = tmp_path / 'x'
    source.write_bytes(b'0123456789')
    blobs.put(source, 's/A/x.bin')
    assert not source.exists()
    assert (blobs.exists('s/A/x.bin'), blobs.size('s/A/x.bin')) == (True, 10)
    assert b''.join(blobs.read('s/A/x.bin', 2, 5)) == b'234'
    assert blobs.local_path('s/A/x.bin') is None
    assert not blobs.exists('s/A/y.bin')


@pytest.mark.parametrize('url', ['nonsense://x', '/proc/nowhere/blobs'])
def test_a_blob_store_that_cannot_be(url):
    with pytest.raises(ConfigError, match='cannot use the blob store'):
        Blobs(url).open()


def test_nothing_to_materialise(tmp_path):
    config = ServerConfig(data=tmp_path, port=0, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        assert list(materialise(Browse(server.database), server.uploads, server.blobs,
                                tmp_path / 'out')) == []
