"""What the blocking and the asyncio client of a policy server share: address, options, spec."""

from arena_robot.core.errors import PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PROTOCOL_VERSION, PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.seeds import seed_of

SERVICE = pb.DESCRIPTOR.services_by_name['PolicyService'].full_name


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


def infer_request(observation: bytes, episode: str, step: int = 0, episode_seed: int = 0,
                  left_over: pb.LeftOver | None = None) -> pb.InferRequest:
    """Return the request for the next chunk; the observation is already serialized."""
    return pb.InferRequest(protocol_version=PROTOCOL_VERSION, episode=episode, step=step,
                           observation=observation, episode_seed=episode_seed,
                           left_over=left_over)


def query_request(observation: Observation, episode: str, spec: PolicySpec) -> pb.InferRequest:
    """Return the request for the next chunk of a policy with this spec."""
    left = observation.left_over
    return infer_request(
        wire.observation_to_bytes(observation, spec.jpeg_quality), episode, observation.step,
        observation.episode_seed or seed_of(episode),
        None if left is None else wire.left_over_to_wire(left))


def reset_request(episode: str) -> pb.ResetRequest:
    """Return the request to clear an episode."""
    return pb.ResetRequest(protocol_version=PROTOCOL_VERSION, episode=episode)
