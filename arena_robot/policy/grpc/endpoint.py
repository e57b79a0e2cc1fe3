"""What the blocking and the asyncio client of a policy server share: address, options, spec."""

from arena_robot.core.errors import PolicyUnavailable
from arena_robot.policy.base import PROTOCOL_VERSION, PolicySpec, StepQuery
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb

NOT_DUE, DUE = 1, 2    # of EveryStep


class PolicyEndpoint:
    """A policy behind ``host:port``, and the requests that it understands."""

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        self._target = target
        self._secure = secure
        self._options = options or CallOptions()
        self._spec: PolicySpec | None = None
        self.address = f"grpc{'s' if secure else ''}://{target}"

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy, as it said when the connection was opened."""
        if self._spec is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        return self._spec


def spec_request() -> pb.GetSpecRequest:
    """Return the request for the spec."""
    return pb.GetSpecRequest(protocol_version=PROTOCOL_VERSION)


def infer_request(observation: bytes, episode: str, episode_seed: int = 0) -> pb.InferRequest:
    """Return the request for the next chunk; the observation is already serialized."""
    return pb.InferRequest(protocol_version=PROTOCOL_VERSION, episode=episode,
                           observation=observation, episode_seed=episode_seed)


def reset_request(episode: str) -> pb.ResetRequest:
    """Return the request to clear an episode."""
    return pb.ResetRequest(protocol_version=PROTOCOL_VERSION, episode=episode)


def step_request(observation: bytes, episode: str, query: StepQuery,
                 wait_s: float) -> pb.InferRequest:
    """Return the request of one control step; its size does not depend on ``query``."""
    request = infer_request(observation, episode)
    request.every_step.chunk = query.chunk
    request.every_step.due = NOT_DUE if query.answer is None else DUE
    request.every_step.wait_s = wait_s
    return request
