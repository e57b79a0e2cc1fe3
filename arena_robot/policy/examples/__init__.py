"""
Honest example policies that see only images, proprioception and the prompt.

Strongest first, but for ``echo``, which is for wiring checks: the weaker ``vision_…`` have a fault
built in, and say which in their names. A station never learns a policy's name.
"""

EXAMPLES = {
    'vision': 'arena_robot.policy.examples.vision:Vision',
    'vision_noisy': 'arena_robot.policy.examples.vision:VisionNoisy',
    'vision_drops': 'arena_robot.policy.examples.vision:VisionDrops',
    'vision_slow': 'arena_robot.policy.examples.vision:VisionSlow',
    'vision_confused': 'arena_robot.policy.examples.vision:VisionConfused',
    'random_walk': 'arena_robot.policy.examples.random_walk:RandomWalk',
    'frozen': 'arena_robot.policy.examples.frozen:Frozen',
    'echo': 'arena_robot.policy.examples.echo:Echo',
}
