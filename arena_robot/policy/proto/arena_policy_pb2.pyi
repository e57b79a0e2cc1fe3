from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActionSpace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_SPACE_UNSPECIFIED: _ClassVar[ActionSpace]
    ACTION_SPACE_JOINT_POSITION: _ClassVar[ActionSpace]
    ACTION_SPACE_JOINT_VELOCITY: _ClassVar[ActionSpace]
    ACTION_SPACE_CARTESIAN_POSITION: _ClassVar[ActionSpace]
    ACTION_SPACE_CARTESIAN_VELOCITY: _ClassVar[ActionSpace]

class GripperConvention(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRIPPER_CONVENTION_UNSPECIFIED: _ClassVar[GripperConvention]
    GRIPPER_CONVENTION_CLOSED_IS_ONE: _ClassVar[GripperConvention]

class Resize(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESIZE_UNSPECIFIED: _ClassVar[Resize]
    RESIZE_FAST: _ClassVar[Resize]
    RESIZE_EXACT: _ClassVar[Resize]

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_RGB8: _ClassVar[Encoding]
    ENCODING_JPEG: _ClassVar[Encoding]
    ENCODING_DEPTH16_PNG: _ClassVar[Encoding]
ACTION_SPACE_UNSPECIFIED: ActionSpace
ACTION_SPACE_JOINT_POSITION: ActionSpace
ACTION_SPACE_JOINT_VELOCITY: ActionSpace
ACTION_SPACE_CARTESIAN_POSITION: ActionSpace
ACTION_SPACE_CARTESIAN_VELOCITY: ActionSpace
GRIPPER_CONVENTION_UNSPECIFIED: GripperConvention
GRIPPER_CONVENTION_CLOSED_IS_ONE: GripperConvention
RESIZE_UNSPECIFIED: Resize
RESIZE_FAST: Resize
RESIZE_EXACT: Resize
ENCODING_UNSPECIFIED: Encoding
ENCODING_RGB8: Encoding
ENCODING_JPEG: Encoding
ENCODING_DEPTH16_PNG: Encoding

class GetSpecRequest(_message.Message):
    __slots__ = ("protocol_version",)
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class Spec(_message.Message):
    __slots__ = ("protocol_version", "action_space", "gripper", "image_height", "image_width", "wrist_camera", "external_cameras", "stereo", "session_id", "chunk_length", "control_rate_hz", "resize", "jpeg_quality", "pipelined", "samples", "open_loop_horizon", "real_time_chunking", "blend_steps", "warm_up", "joints", "layout", "depth")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTION_SPACE_FIELD_NUMBER: _ClassVar[int]
    GRIPPER_FIELD_NUMBER: _ClassVar[int]
    IMAGE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    WRIST_CAMERA_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_CAMERAS_FIELD_NUMBER: _ClassVar[int]
    STEREO_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CHUNK_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CONTROL_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    JPEG_QUALITY_FIELD_NUMBER: _ClassVar[int]
    PIPELINED_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    OPEN_LOOP_HORIZON_FIELD_NUMBER: _ClassVar[int]
    REAL_TIME_CHUNKING_FIELD_NUMBER: _ClassVar[int]
    BLEND_STEPS_FIELD_NUMBER: _ClassVar[int]
    WARM_UP_FIELD_NUMBER: _ClassVar[int]
    JOINTS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    action_space: ActionSpace
    gripper: GripperConvention
    image_height: int
    image_width: int
    wrist_camera: bool
    external_cameras: int
    stereo: bool
    session_id: bool
    chunk_length: int
    control_rate_hz: float
    resize: Resize
    jpeg_quality: int
    pipelined: bool
    samples: bool
    open_loop_horizon: int
    real_time_chunking: bool
    blend_steps: int
    warm_up: int
    joints: int
    layout: str
    depth: bool
    def __init__(self, protocol_version: _Optional[int] = ..., action_space: _Optional[_Union[ActionSpace, str]] = ..., gripper: _Optional[_Union[GripperConvention, str]] = ..., image_height: _Optional[int] = ..., image_width: _Optional[int] = ..., wrist_camera: _Optional[bool] = ..., external_cameras: _Optional[int] = ..., stereo: _Optional[bool] = ..., session_id: _Optional[bool] = ..., chunk_length: _Optional[int] = ..., control_rate_hz: _Optional[float] = ..., resize: _Optional[_Union[Resize, str]] = ..., jpeg_quality: _Optional[int] = ..., pipelined: _Optional[bool] = ..., samples: _Optional[bool] = ..., open_loop_horizon: _Optional[int] = ..., real_time_chunking: _Optional[bool] = ..., blend_steps: _Optional[int] = ..., warm_up: _Optional[int] = ..., joints: _Optional[int] = ..., layout: _Optional[str] = ..., depth: _Optional[bool] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("view", "encoding", "height", "width", "stamp_ns", "data")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    STAMP_NS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    view: str
    encoding: Encoding
    height: int
    width: int
    stamp_ns: int
    data: bytes
    def __init__(self, view: _Optional[str] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., stamp_ns: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("stamp_ns", "step", "prompt", "arm_stamp_ns", "joint_position", "cartesian_position", "gripper_stamp_ns", "gripper_position", "images", "third_person", "joint_names")
    STAMP_NS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ARM_STAMP_NS_FIELD_NUMBER: _ClassVar[int]
    JOINT_POSITION_FIELD_NUMBER: _ClassVar[int]
    CARTESIAN_POSITION_FIELD_NUMBER: _ClassVar[int]
    GRIPPER_STAMP_NS_FIELD_NUMBER: _ClassVar[int]
    GRIPPER_POSITION_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    THIRD_PERSON_FIELD_NUMBER: _ClassVar[int]
    JOINT_NAMES_FIELD_NUMBER: _ClassVar[int]
    stamp_ns: int
    step: int
    prompt: str
    arm_stamp_ns: int
    joint_position: _containers.RepeatedScalarFieldContainer[float]
    cartesian_position: _containers.RepeatedScalarFieldContainer[float]
    gripper_stamp_ns: int
    gripper_position: float
    images: _containers.RepeatedCompositeFieldContainer[Image]
    third_person: str
    joint_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stamp_ns: _Optional[int] = ..., step: _Optional[int] = ..., prompt: _Optional[str] = ..., arm_stamp_ns: _Optional[int] = ..., joint_position: _Optional[_Iterable[float]] = ..., cartesian_position: _Optional[_Iterable[float]] = ..., gripper_stamp_ns: _Optional[int] = ..., gripper_position: _Optional[float] = ..., images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ..., third_person: _Optional[str] = ..., joint_names: _Optional[_Iterable[str]] = ...) -> None: ...

class InferRequest(_message.Message):
    __slots__ = ("protocol_version", "episode", "observation", "episode_seed", "left_over", "step")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    EPISODE_SEED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OVER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    episode: str
    observation: bytes
    episode_seed: int
    left_over: LeftOver
    step: int
    def __init__(self, protocol_version: _Optional[int] = ..., episode: _Optional[str] = ..., observation: _Optional[bytes] = ..., episode_seed: _Optional[int] = ..., left_over: _Optional[_Union[LeftOver, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class LeftOver(_message.Message):
    __slots__ = ("actions", "rows", "columns", "inference_delay")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_DELAY_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedScalarFieldContainer[float]
    rows: int
    columns: int
    inference_delay: int
    def __init__(self, actions: _Optional[_Iterable[float]] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., inference_delay: _Optional[int] = ...) -> None: ...

class InferReply(_message.Message):
    __slots__ = ("actions", "rows", "columns", "action_space", "timings", "open_loop_horizon", "blend_steps", "pipelined", "real_time_chunking")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ACTION_SPACE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    OPEN_LOOP_HORIZON_FIELD_NUMBER: _ClassVar[int]
    BLEND_STEPS_FIELD_NUMBER: _ClassVar[int]
    PIPELINED_FIELD_NUMBER: _ClassVar[int]
    REAL_TIME_CHUNKING_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedScalarFieldContainer[float]
    rows: int
    columns: int
    action_space: ActionSpace
    timings: Timings
    open_loop_horizon: int
    blend_steps: int
    pipelined: bool
    real_time_chunking: bool
    def __init__(self, actions: _Optional[_Iterable[float]] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., action_space: _Optional[_Union[ActionSpace, str]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., open_loop_horizon: _Optional[int] = ..., blend_steps: _Optional[int] = ..., pipelined: _Optional[bool] = ..., real_time_chunking: _Optional[bool] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("queue_s", "infer_s")
    QUEUE_S_FIELD_NUMBER: _ClassVar[int]
    INFER_S_FIELD_NUMBER: _ClassVar[int]
    queue_s: float
    infer_s: float
    def __init__(self, queue_s: _Optional[float] = ..., infer_s: _Optional[float] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("protocol_version", "episode")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    episode: str
    def __init__(self, protocol_version: _Optional[int] = ..., episode: _Optional[str] = ...) -> None: ...

class ResetReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("id", "timeout_s", "infer", "reset")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    INFER_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    id: int
    timeout_s: float
    infer: InferRequest
    reset: ResetRequest
    def __init__(self, id: _Optional[int] = ..., timeout_s: _Optional[float] = ..., infer: _Optional[_Union[InferRequest, _Mapping]] = ..., reset: _Optional[_Union[ResetRequest, _Mapping]] = ...) -> None: ...

class StreamReply(_message.Message):
    __slots__ = ("id", "infer", "reset", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    INFER_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    infer: InferReply
    reset: ResetReply
    error: Error
    def __init__(self, id: _Optional[int] = ..., infer: _Optional[_Union[InferReply, _Mapping]] = ..., reset: _Optional[_Union[ResetReply, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
