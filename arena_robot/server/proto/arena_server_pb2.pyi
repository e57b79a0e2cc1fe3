from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HelloRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("version", "now_ns")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    version: str
    now_ns: int
    def __init__(self, version: _Optional[str] = ..., now_ns: _Optional[int] = ...) -> None: ...

class AssignRequest(_message.Message):
    __slots__ = ("request", "evaluator", "prompt", "evaluator_token", "equal_latency", "third_person")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    EVALUATOR_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    EVALUATOR_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EQUAL_LATENCY_FIELD_NUMBER: _ClassVar[int]
    THIRD_PERSON_FIELD_NUMBER: _ClassVar[int]
    request: str
    evaluator: str
    prompt: str
    evaluator_token: str
    equal_latency: bool
    third_person: str
    def __init__(self, request: _Optional[str] = ..., evaluator: _Optional[str] = ..., prompt: _Optional[str] = ..., evaluator_token: _Optional[str] = ..., equal_latency: _Optional[bool] = ..., third_person: _Optional[str] = ...) -> None: ...

class AssignReply(_message.Message):
    __slots__ = ("session_id", "commitment", "token_a", "token_b", "promise", "photo_code")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_A_FIELD_NUMBER: _ClassVar[int]
    TOKEN_B_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    PHOTO_CODE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    commitment: str
    token_a: str
    token_b: str
    promise: str
    photo_code: str
    def __init__(self, session_id: _Optional[str] = ..., commitment: _Optional[str] = ..., token_a: _Optional[str] = ..., token_b: _Optional[str] = ..., promise: _Optional[str] = ..., photo_code: _Optional[str] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("session_id", "state")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    state: str
    def __init__(self, session_id: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class EpisodeRequest(_message.Message):
    __slots__ = ("session_id", "slot", "prompt", "steps", "end_reason", "detail", "started_ns", "ended_ns", "files", "reruns")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    RERUNS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    slot: str
    prompt: str
    steps: int
    end_reason: str
    detail: str
    started_ns: int
    ended_ns: int
    files: _containers.RepeatedCompositeFieldContainer[ManifestFile]
    reruns: int
    def __init__(self, session_id: _Optional[str] = ..., slot: _Optional[str] = ..., prompt: _Optional[str] = ..., steps: _Optional[int] = ..., end_reason: _Optional[str] = ..., detail: _Optional[str] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., files: _Optional[_Iterable[_Union[ManifestFile, _Mapping]]] = ..., reruns: _Optional[int] = ...) -> None: ...

class ManifestFile(_message.Message):
    __slots__ = ("path", "size", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class FileRequest(_message.Message):
    __slots__ = ("session_id", "slot", "path", "size", "sha256")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    slot: str
    path: str
    size: int
    sha256: str
    def __init__(self, session_id: _Optional[str] = ..., slot: _Optional[str] = ..., path: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class FileReply(_message.Message):
    __slots__ = ("received", "complete")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    received: int
    complete: bool
    def __init__(self, received: _Optional[int] = ..., complete: _Optional[bool] = ...) -> None: ...

class UploadPart(_message.Message):
    __slots__ = ("file", "offset", "data")
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file: FileRequest
    offset: int
    data: bytes
    def __init__(self, file: _Optional[_Union[FileRequest, _Mapping]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class FeedbackRequest(_message.Message):
    __slots__ = ("session_id", "progress_a", "progress_b", "preference", "explanation", "valid", "invalid_reason", "notes", "notes_a", "notes_b", "lighting", "clutter", "unsafe_a", "unsafe_b", "success_a", "success_b", "stage_a", "stage_b", "failure_tags_a", "failure_tags_b", "time_to_success_s_a", "time_to_success_s_b", "interventions_a", "interventions_b", "intervention_s_a", "intervention_s_b")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_A_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_B_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    INVALID_REASON_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    NOTES_A_FIELD_NUMBER: _ClassVar[int]
    NOTES_B_FIELD_NUMBER: _ClassVar[int]
    LIGHTING_FIELD_NUMBER: _ClassVar[int]
    CLUTTER_FIELD_NUMBER: _ClassVar[int]
    UNSAFE_A_FIELD_NUMBER: _ClassVar[int]
    UNSAFE_B_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_A_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_B_FIELD_NUMBER: _ClassVar[int]
    STAGE_A_FIELD_NUMBER: _ClassVar[int]
    STAGE_B_FIELD_NUMBER: _ClassVar[int]
    FAILURE_TAGS_A_FIELD_NUMBER: _ClassVar[int]
    FAILURE_TAGS_B_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_SUCCESS_S_A_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_SUCCESS_S_B_FIELD_NUMBER: _ClassVar[int]
    INTERVENTIONS_A_FIELD_NUMBER: _ClassVar[int]
    INTERVENTIONS_B_FIELD_NUMBER: _ClassVar[int]
    INTERVENTION_S_A_FIELD_NUMBER: _ClassVar[int]
    INTERVENTION_S_B_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    progress_a: float
    progress_b: float
    preference: str
    explanation: str
    valid: bool
    invalid_reason: str
    notes: str
    notes_a: str
    notes_b: str
    lighting: str
    clutter: str
    unsafe_a: bool
    unsafe_b: bool
    success_a: str
    success_b: str
    stage_a: str
    stage_b: str
    failure_tags_a: str
    failure_tags_b: str
    time_to_success_s_a: float
    time_to_success_s_b: float
    interventions_a: float
    interventions_b: float
    intervention_s_a: float
    intervention_s_b: float
    def __init__(self, session_id: _Optional[str] = ..., progress_a: _Optional[float] = ..., progress_b: _Optional[float] = ..., preference: _Optional[str] = ..., explanation: _Optional[str] = ..., valid: _Optional[bool] = ..., invalid_reason: _Optional[str] = ..., notes: _Optional[str] = ..., notes_a: _Optional[str] = ..., notes_b: _Optional[str] = ..., lighting: _Optional[str] = ..., clutter: _Optional[str] = ..., unsafe_a: _Optional[bool] = ..., unsafe_b: _Optional[bool] = ..., success_a: _Optional[str] = ..., success_b: _Optional[str] = ..., stage_a: _Optional[str] = ..., stage_b: _Optional[str] = ..., failure_tags_a: _Optional[str] = ..., failure_tags_b: _Optional[str] = ..., time_to_success_s_a: _Optional[float] = ..., time_to_success_s_b: _Optional[float] = ..., interventions_a: _Optional[float] = ..., interventions_b: _Optional[float] = ..., intervention_s_a: _Optional[float] = ..., intervention_s_b: _Optional[float] = ...) -> None: ...

class FeedbackReply(_message.Message):
    __slots__ = ("promise",)
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    promise: str
    def __init__(self, promise: _Optional[str] = ...) -> None: ...

class LocalSession(_message.Message):
    __slots__ = ("verdict", "study", "study_sha256", "policy_a", "policy_b", "prompt", "started_ns", "ended_ns", "seconds_a", "seconds_b")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    STUDY_FIELD_NUMBER: _ClassVar[int]
    STUDY_SHA256_FIELD_NUMBER: _ClassVar[int]
    POLICY_A_FIELD_NUMBER: _ClassVar[int]
    POLICY_B_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_A_FIELD_NUMBER: _ClassVar[int]
    SECONDS_B_FIELD_NUMBER: _ClassVar[int]
    verdict: FeedbackRequest
    study: str
    study_sha256: str
    policy_a: str
    policy_b: str
    prompt: str
    started_ns: int
    ended_ns: int
    seconds_a: float
    seconds_b: float
    def __init__(self, verdict: _Optional[_Union[FeedbackRequest, _Mapping]] = ..., study: _Optional[str] = ..., study_sha256: _Optional[str] = ..., policy_a: _Optional[str] = ..., policy_b: _Optional[str] = ..., prompt: _Optional[str] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., seconds_a: _Optional[float] = ..., seconds_b: _Optional[float] = ...) -> None: ...

class LocalReply(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bool
    def __init__(self, known: _Optional[bool] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("session_id", "reason")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RevealReply(_message.Message):
    __slots__ = ("nonce", "policy_a", "policy_b", "receipt", "probation", "chosen")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    POLICY_A_FIELD_NUMBER: _ClassVar[int]
    POLICY_B_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    PROBATION_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    nonce: str
    policy_a: str
    policy_b: str
    receipt: str
    probation: bool
    chosen: bool
    def __init__(self, nonce: _Optional[str] = ..., policy_a: _Optional[str] = ..., policy_b: _Optional[str] = ..., receipt: _Optional[str] = ..., probation: _Optional[bool] = ..., chosen: _Optional[bool] = ...) -> None: ...

class AcceptanceReply(_message.Message):
    __slots__ = ("counts", "why_not")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    counts: bool
    why_not: str
    def __init__(self, counts: _Optional[bool] = ..., why_not: _Optional[str] = ...) -> None: ...

class WhoReply(_message.Message):
    __slots__ = ("name", "institution", "roles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTITUTION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    institution: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., institution: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class CorrectionRequest(_message.Message):
    __slots__ = ("session_id", "text", "withdraw")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    text: str
    withdraw: bool
    def __init__(self, session_id: _Optional[str] = ..., text: _Optional[str] = ..., withdraw: _Optional[bool] = ...) -> None: ...

class NameRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("name", "address", "description", "open_source", "robot", "action_space", "external_cameras", "wrist_camera", "stereo", "owner", "state", "reason", "healthy", "requested", "token", "has_token", "tls_ca", "has_tls_ca", "spec", "unsafe_reports", "appeal", "waits_for_approval", "provenance", "last_ns", "latency_s", "paid", "failures")
    class ProvenanceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OPEN_SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROBOT_FIELD_NUMBER: _ClassVar[int]
    ACTION_SPACE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_CAMERAS_FIELD_NUMBER: _ClassVar[int]
    WRIST_CAMERA_FIELD_NUMBER: _ClassVar[int]
    STEREO_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    HAS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TLS_CA_FIELD_NUMBER: _ClassVar[int]
    HAS_TLS_CA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UNSAFE_REPORTS_FIELD_NUMBER: _ClassVar[int]
    APPEAL_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    LAST_NS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_S_FIELD_NUMBER: _ClassVar[int]
    PAID_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    description: str
    open_source: bool
    robot: str
    action_space: str
    external_cameras: int
    wrist_camera: bool
    stereo: bool
    owner: str
    state: str
    reason: str
    healthy: bool
    requested: int
    token: str
    has_token: bool
    tls_ca: str
    has_tls_ca: bool
    spec: str
    unsafe_reports: _containers.RepeatedCompositeFieldContainer[UnsafeReport]
    appeal: str
    waits_for_approval: bool
    provenance: _containers.ScalarMap[str, str]
    last_ns: int
    latency_s: float
    paid: int
    failures: _containers.RepeatedCompositeFieldContainer[PolicyFailure]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., description: _Optional[str] = ..., open_source: _Optional[bool] = ..., robot: _Optional[str] = ..., action_space: _Optional[str] = ..., external_cameras: _Optional[int] = ..., wrist_camera: _Optional[bool] = ..., stereo: _Optional[bool] = ..., owner: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., healthy: _Optional[bool] = ..., requested: _Optional[int] = ..., token: _Optional[str] = ..., has_token: _Optional[bool] = ..., tls_ca: _Optional[str] = ..., has_tls_ca: _Optional[bool] = ..., spec: _Optional[str] = ..., unsafe_reports: _Optional[_Iterable[_Union[UnsafeReport, _Mapping]]] = ..., appeal: _Optional[str] = ..., waits_for_approval: _Optional[bool] = ..., provenance: _Optional[_Mapping[str, str]] = ..., last_ns: _Optional[int] = ..., latency_s: _Optional[float] = ..., paid: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[PolicyFailure, _Mapping]]] = ...) -> None: ...

class PolicyFailure(_message.Message):
    __slots__ = ("session_id", "slot", "end", "detail", "created_ns", "has_page")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    HAS_PAGE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    slot: str
    end: str
    detail: str
    created_ns: int
    has_page: bool
    def __init__(self, session_id: _Optional[str] = ..., slot: _Optional[str] = ..., end: _Optional[str] = ..., detail: _Optional[str] = ..., created_ns: _Optional[int] = ..., has_page: _Optional[bool] = ...) -> None: ...

class UnsafeReport(_message.Message):
    __slots__ = ("session_id", "slot", "reason", "created_ns", "cleared_by", "cleared_why", "station", "evaluator")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    CLEARED_BY_FIELD_NUMBER: _ClassVar[int]
    CLEARED_WHY_FIELD_NUMBER: _ClassVar[int]
    STATION_FIELD_NUMBER: _ClassVar[int]
    EVALUATOR_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    slot: str
    reason: str
    created_ns: int
    cleared_by: str
    cleared_why: str
    station: str
    evaluator: str
    def __init__(self, session_id: _Optional[str] = ..., slot: _Optional[str] = ..., reason: _Optional[str] = ..., created_ns: _Optional[int] = ..., cleared_by: _Optional[str] = ..., cleared_why: _Optional[str] = ..., station: _Optional[str] = ..., evaluator: _Optional[str] = ...) -> None: ...

class CreditsReply(_message.Message):
    __slots__ = ("balance", "lines", "paid")
    class PaidEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    PAID_FIELD_NUMBER: _ClassVar[int]
    balance: int
    lines: _containers.RepeatedCompositeFieldContainer[CreditLine]
    paid: _containers.ScalarMap[str, int]
    def __init__(self, balance: _Optional[int] = ..., lines: _Optional[_Iterable[_Union[CreditLine, _Mapping]]] = ..., paid: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CreditLine(_message.Message):
    __slots__ = ("created_ns", "amount", "reason")
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    created_ns: int
    amount: int
    reason: str
    def __init__(self, created_ns: _Optional[int] = ..., amount: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class GiveRequest(_message.Message):
    __slots__ = ("to", "amount", "request")
    TO_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    to: str
    amount: int
    request: str
    def __init__(self, to: _Optional[str] = ..., amount: _Optional[int] = ..., request: _Optional[str] = ...) -> None: ...

class ComparisonsRequest(_message.Message):
    __slots__ = ("policy", "amount", "request")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    policy: str
    amount: int
    request: str
    def __init__(self, policy: _Optional[str] = ..., amount: _Optional[int] = ..., request: _Optional[str] = ...) -> None: ...

class AppealRequest(_message.Message):
    __slots__ = ("name", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("name", "approve", "clear_why", "suspend_why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    APPROVE_FIELD_NUMBER: _ClassVar[int]
    CLEAR_WHY_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    approve: bool
    clear_why: str
    suspend_why: str
    def __init__(self, name: _Optional[str] = ..., approve: _Optional[bool] = ..., clear_why: _Optional[str] = ..., suspend_why: _Optional[str] = ...) -> None: ...

class Policies(_message.Message):
    __slots__ = ("policies",)
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("name", "institution", "roles", "person")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTITUTION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    institution: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    person: str
    def __init__(self, name: _Optional[str] = ..., institution: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., person: _Optional[str] = ...) -> None: ...

class Station(_message.Message):
    __slots__ = ("name", "institution", "robot", "external_cameras", "wrist_camera", "stereo", "test_driver", "depth")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTITUTION_FIELD_NUMBER: _ClassVar[int]
    ROBOT_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_CAMERAS_FIELD_NUMBER: _ClassVar[int]
    WRIST_CAMERA_FIELD_NUMBER: _ClassVar[int]
    STEREO_FIELD_NUMBER: _ClassVar[int]
    TEST_DRIVER_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    institution: str
    robot: str
    external_cameras: int
    wrist_camera: bool
    stereo: bool
    test_driver: bool
    depth: bool
    def __init__(self, name: _Optional[str] = ..., institution: _Optional[str] = ..., robot: _Optional[str] = ..., external_cameras: _Optional[int] = ..., wrist_camera: _Optional[bool] = ..., stereo: _Optional[bool] = ..., test_driver: _Optional[bool] = ..., depth: _Optional[bool] = ...) -> None: ...

class HolderRequest(_message.Message):
    __slots__ = ("name", "station", "lifetime_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATION_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    station: bool
    lifetime_s: float
    def __init__(self, name: _Optional[str] = ..., station: _Optional[bool] = ..., lifetime_s: _Optional[float] = ...) -> None: ...

class TokenReply(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class OverviewReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class StandingsRequest(_message.Message):
    __slots__ = ("method", "open_source")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    OPEN_SOURCE_FIELD_NUMBER: _ClassVar[int]
    method: str
    open_source: bool
    def __init__(self, method: _Optional[str] = ..., open_source: _Optional[bool] = ...) -> None: ...

class StandingsReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class WebhookRequest(_message.Message):
    __slots__ = ("url", "test")
    URL_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    url: str
    test: bool
    def __init__(self, url: _Optional[str] = ..., test: _Optional[bool] = ...) -> None: ...

class WebhookReply(_message.Message):
    __slots__ = ("url", "secret", "waiting", "failure")
    URL_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    url: str
    secret: str
    waiting: int
    failure: str
    def __init__(self, url: _Optional[str] = ..., secret: _Optional[str] = ..., waiting: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class JoinFrame(_message.Message):
    __slots__ = ("name", "connection", "data", "end")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    name: str
    connection: int
    data: bytes
    end: bool
    def __init__(self, name: _Optional[str] = ..., connection: _Optional[int] = ..., data: _Optional[bytes] = ..., end: _Optional[bool] = ...) -> None: ...
