"""
Example policies; they use only images, proprioception and the prompt.

Strongest first, except ``echo``, which is for checks of connections. The weaker ``vision_…`` have
a built-in fault that their names describe. A station never receives a policy's name. Installed
packages add policies in the entry point group ``arena_robot.policies``.
"""

from collections.abc import Callable
from typing import Any

from arena_robot.core.extensions import Table, callable_as

PolicyMaker = Callable[..., Any]
WIRING = 'echo'


EXAMPLES: Table[PolicyMaker] = Table('policy', 'arena_robot.policies', {
    'vision': 'arena_robot.policy.examples.vision:Vision',
    'vision_noisy': 'arena_robot.policy.examples.vision:VisionNoisy',
    'vision_drops': 'arena_robot.policy.examples.vision:VisionDrops',
    'vision_slow': 'arena_robot.policy.examples.vision:VisionSlow',
    'vision_confused': 'arena_robot.policy.examples.vision:VisionConfused',
    'random_walk': 'arena_robot.policy.examples.simple:RandomWalk',
    'frozen': 'arena_robot.policy.examples.simple:Frozen',
    WIRING: 'arena_robot.policy.examples.simple:Echo',
}, callable_as('policy'))
