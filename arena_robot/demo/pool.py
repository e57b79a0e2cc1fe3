"""The policies of the demonstration, from the strongest by design to the weakest."""

from dataclasses import dataclass, field

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError


@dataclass(frozen=True)
class PoolMember:
    """
    One policy: its name in the arena, example, protocol, and description.

    ``options`` are the example's arguments, as ``arena policy serve --kwargs`` takes them.
    """

    name: str
    example: str
    about: str
    options: tuple[str, ...] = field(default=())
    protocol: str = 'grpc'


POOLS: dict[str, tuple[PoolMember, ...]] = {
    'examples': (
        PoolMember('vision', 'vision', 'looks, grasps, checks, tries again'),
        PoolMember('vision-noisy', 'vision_noisy', 'position errors of centimetres'),
        PoolMember('vision-drops', 'vision_drops', 'often opens the gripper too early',
                   protocol='openpi'),
        PoolMember('vision-slow', 'vision_slow', 'moves at a quarter of the speed'),
        PoolMember('random-walk', 'random_walk', 'moves at random'),
        PoolMember('frozen', 'frozen', 'does not move'),
    ),
    'still': (
        PoolMember('frozen', 'frozen', 'does not move'),
        PoolMember('echo', 'echo', 'returns the joint positions that it received',
                   protocol='openpi'),
    ),
    'walkers': (
        PoolMember('stroll', 'random_walk', 'moves at random, slowly', ('speed=0.1',)),
        PoolMember('walk', 'random_walk', 'moves at random', ('speed=0.3',)),
        PoolMember('run', 'random_walk', 'moves at random, quickly', ('speed=0.6',)),
        PoolMember('frozen', 'frozen', 'does not move'),
        PoolMember('doze', 'frozen', 'does not move'),
        PoolMember('echo', 'echo', 'returns the joint positions that it received',
                   protocol='openpi'),
    ),
}


def pool(name: str) -> tuple[PoolMember, ...]:
    """Return the policies of a pool; ConfigError when there is none of that name."""
    if name not in POOLS:
        raise ConfigError(f"no pool '{name}'.{nearest(name, POOLS)}")
    return POOLS[name]
