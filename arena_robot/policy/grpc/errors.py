"""Errors to gRPC statuses and back, so that client and server raise the same errors."""

import grpc

from arena_robot.core.errors import (
    ArenaError,
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)

CODE_KEY = 'arena-code'
KNOWN: tuple[type[PolicyError], ...] = (
    PolicyEnded, PolicyUnavailable, PolicyTimeout, PolicyRefused, BadReply, PolicyError)
BY_CODE = {kind.code: kind for kind in KNOWN}
STATUS = {
    PolicyEnded.code: grpc.StatusCode.UNAVAILABLE,
    PolicyUnavailable.code: grpc.StatusCode.UNAVAILABLE,
    PolicyTimeout.code: grpc.StatusCode.DEADLINE_EXCEEDED,
    PolicyRefused.code: grpc.StatusCode.INVALID_ARGUMENT,
    BadReply.code: grpc.StatusCode.INTERNAL,
}
BY_STATUS = {
    grpc.StatusCode.UNAVAILABLE: PolicyUnavailable,
    grpc.StatusCode.CANCELLED: PolicyUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: PolicyTimeout,
    grpc.StatusCode.INVALID_ARGUMENT: PolicyRefused,
    grpc.StatusCode.FAILED_PRECONDITION: PolicyRefused,
    grpc.StatusCode.UNAUTHENTICATED: PolicyRefused,
    grpc.StatusCode.PERMISSION_DENIED: PolicyRefused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: PolicyRefused,
    grpc.StatusCode.UNIMPLEMENTED: BadReply,
    grpc.StatusCode.DATA_LOSS: BadReply,
}
HINTS = {
    PolicyUnavailable: 'is the server running there, and does it speak gRPC, with TLS exactly '
                       'when the address says grpcs?',
    PolicyTimeout: 'the deadline passed: the policy is slow, busy, or the network is',
}

# What OpenSSL and gRPC say of a failed handshake, and what it means.
TLS_WORDS = {
    'WRONG_VERSION_NUMBER': 'no TLS is spoken there: connect without TLS, or to another port',
    'certificate has expired': 'its certificate has expired: its maintainer has to renew it',
    'CERTIFICATE_VERIFY_FAILED': 'its certificate is of no authority that is trusted here: name '
                                 'the file of its authority (--tls-ca)',
    'Hostname Verification': 'its certificate is of another name than the one called: use the '
                             'name in the certificate',
    'create security handshaker': 'the file of the authority (--tls-ca) has no certificate in PEM',
    'Socket closed': 'it ended the connection at once: if it speaks TLS, connect with TLS '
                     '(--tls, grpcs://)',
    'Connection refused': 'no program listens at that port',
    'Domain name not found': 'there is no host of that name',
}


def status_of(error: ArenaError) -> grpc.StatusCode:
    """Return the gRPC status that an error is sent as."""
    return STATUS.get(error.code, grpc.StatusCode.INTERNAL)


def code_of(rpc: grpc.RpcError) -> str:
    """Return the code of the suite's error that a failed call was ended with, '' without one."""
    return str(dict(rpc.trailing_metadata() or ()).get(CODE_KEY, ''))


def in_words(details: str) -> str:
    """Return why a connection could not be made, in words where they are known."""
    return next((words for key, words in TLS_WORDS.items() if key in details), details)


def error_of(rpc: grpc.RpcError, what: str, address: str) -> PolicyError:
    """Return the error of a failed call; ``what`` names the call, such as ``'Infer'``."""
    status = rpc.code()
    details = in_words(rpc.details() or '')
    code = code_of(rpc)
    kind = BY_CODE.get(code) or BY_STATUS.get(status, PolicyError)
    hint = '' if code else f' ({HINTS[kind]})' if kind in HINTS else ''
    return kind(f'{what} at {address}: {details or status.name.lower()}{hint}')


def error_named(code: str, message: str, what: str, address: str) -> PolicyError:
    """Return the error a stream reply describes."""
    return BY_CODE.get(code, PolicyError)(f'{what} at {address}: {message}')
