"""Camera frames, and certificates for TLS on this machine."""

import pytest
import trustme
from policy_samples import photograph

from arena_robot.core.observation import VIEWS


@pytest.fixture(scope='session')
def frames():
    """Return all six views at 1280x720."""
    return {name: photograph(seed=index) for index, name in enumerate(VIEWS)}


@pytest.fixture(scope='session')
def tls(tmp_path_factory):
    """Return certificate, key and authority files for 127.0.0.1."""
    folder = tmp_path_factory.mktemp('tls')
    authority = trustme.CA()
    issued = authority.issue_cert('127.0.0.1', 'localhost')
    authority.cert_pem.write_to_path(str(folder / 'ca.pem'))
    issued.private_key_pem.write_to_path(str(folder / 'key.pem'))
    issued.cert_chain_pems[0].write_to_path(str(folder / 'cert.pem'))
    return folder / 'cert.pem', folder / 'key.pem', folder / 'ca.pem'
