"""
A policy behind an address as a policy of LeRobot: ``--policy.type=arena --policy.address=...``.

LeRobot's scripts then ask any server that this package asks, or the address that ``arena blind``
gives out, so that a study is run by LeRobot's own programs. Numbers pass as they are: the state's
last one is the gripper, the others are the joints.
"""

import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor import PolicyProcessorPipeline
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import (
    ROLES,
    ArmState,
    GripperState,
    Image,
    Observation,
    view,
)
from arena_robot.policy.connect import connect
from arena_robot.policy.resizing import Resizing

STATE, PICTURE = 'observation.state', 'observation.images.'
WAIT_S = 60.0    # for a server that still loads its model


@PreTrainedConfig.register_subclass('arena')
@dataclass
class ArenaConfig(PreTrainedConfig):
    """
    ``address`` as for ``arena policy check``; ``cameras`` are the robot's names of ours.

    Ours are left, right and wrist; without ``cameras`` the robot's are called so too.
    """

    address: str = ''
    cameras: dict[str, str] = field(default_factory=dict)
    device: str | None = 'cpu'
    push_to_hub: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if wrong := [role for role in self.cameras if role not in ROLES]:
            raise ConfigError(f'--policy.cameras has {", ".join(wrong)}; allowed are '
                              f'{", ".join(ROLES)}')

    @property
    def observation_delta_indices(self) -> None:
        """One observation a query."""

    @property
    def action_delta_indices(self) -> None:
        """Nothing is trained."""

    @property
    def reward_delta_indices(self) -> None:
        """Nothing is trained."""

    def get_optimizer_preset(self) -> Any:
        """Raise: a policy behind an address is not trained here."""
        raise ConfigError('a policy behind an address is not trained by LeRobot')

    def get_scheduler_preset(self) -> None:
        """Nothing is trained."""

    def validate_features(self) -> None:
        """Do nothing: the server says what it needs."""


class ArenaPolicy(PreTrainedPolicy):
    """Asks the server for a chunk whenever the last one is executed."""

    config_class = ArenaConfig
    name = 'arena'

    def __init__(self, config: ArenaConfig, **_: Any) -> None:
        super().__init__(config)
        self.config = config
        if not config.address:
            raise ConfigError('--policy.address is missing, such as grpc://gpu1:8000')
        self._policy = Resizing(connect(config.address, wait_s=WAIT_S))
        self._due: deque[torch.Tensor] = deque()
        self._episode, self._step = uuid.uuid4().hex, 0

    def reset(self) -> None:
        """Forget the chunk, and tell the server that the episode ended."""
        if self._step:
            self._policy.reset(self._episode)
        self._due.clear()
        self._episode, self._step = uuid.uuid4().hex, 0

    def select_action(self, batch: dict[str, Any], **_: Any) -> torch.Tensor:
        """Return the next action (1, size)."""
        if not self._due:
            chunk = self.predict_action_chunk(batch)[0]
            self._due.extend(chunk[:self._policy.spec.open_loop_horizon or len(chunk)])
        self._step += 1
        return self._due.popleft()[None]

    def predict_action_chunk(self, batch: dict[str, Any], **_: Any) -> torch.Tensor:
        """Return the actions (1, N, size) that the server answers."""
        chunk = self._policy.infer(observed(batch, self.config.cameras, self._step),
                                   self._episode)
        return torch.from_numpy(np.array(chunk.actions, np.float32))[None]

    def get_optim_params(self) -> dict[str, Any]:
        """Return none: nothing is trained."""
        return {}

    def forward(self, batch: dict[str, Any]) -> Any:
        """Raise: a policy behind an address is not trained here."""
        raise ConfigError('a policy behind an address is not trained by LeRobot')


def observed(batch: Mapping[str, Any], cameras: Mapping[str, str], step: int) -> Observation:
    """Return LeRobot's batch of one, with pictures (1, 3, H, W) of 0 to 1, as an observation."""
    stamp_ns = time.time_ns()
    *q, closed = batch[STATE][0].cpu().double().tolist()
    joints, unknown = np.array(q), np.full(len(q), np.nan)
    images = {}
    for role in ROLES:
        if (picture := batch.get(PICTURE + cameras.get(role, role))) is not None:
            pixels = (picture[0].permute(1, 2, 0) * 255.0).round().to(torch.uint8)
            images[view(role, 'left')] = Image(pixels.cpu().numpy(), stamp_ns)
    return Observation(
        stamp_ns, ArmState(stamp_ns, joints, unknown, unknown, unknown, np.full(6, np.nan),
                           unknown),
        GripperState(stamp_ns, closed, 0.0, closed), batch.get('task') or '', step, images)


def make_arena_pre_post_processors(
        config: ArenaConfig, dataset_stats: object = None) -> tuple[Any, Any]:
    """Return steps that change nothing: the server has its own normalisation."""
    return (PolicyProcessorPipeline[dict[str, Any], dict[str, Any]](steps=[]),
            PolicyProcessorPipeline[torch.Tensor, torch.Tensor](
                steps=[], to_transition=policy_action_to_transition,
                to_output=transition_to_policy_action))
