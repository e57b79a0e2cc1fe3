"""Parameters of a simulated station with sessions that runs faster or slower than real time."""

from dataclasses import dataclass

from arena_robot.core.errors import ConfigError

SLOWEST, FASTEST = 0.1, 20.0
STALE_S = 0.5    # of real time; lateness is harmless in a simulation
# Every message on /clock wakes every node; a step may be late by a quarter of its period. 84 Hz is
# one message in 12 ms.
ARM_RATE, CLOCK_RATE = 50.0, 84.0


@dataclass(frozen=True)
class SessionPace:
    """
    Simulated seconds per real second, and what the nodes must know of it.

    Age limits are multiplied by ``speed``, because stamps are simulated time.
    """

    speed: float

    def __post_init__(self) -> None:
        """Refuse what no session can follow."""
        if not SLOWEST <= self.speed <= FASTEST:
            raise ConfigError(f'--speed is {SLOWEST:g} to {FASTEST:g} with sessions, got '
                              f'{self.speed:g}')

    def station(self) -> dict[str, dict[str, object]]:
        """Return the parameters of the simulation and of its arm, by node."""
        slack = max(self.speed, 1.0)
        return {'sim_station': {'real_time_factor': self.speed, 'publish_clock': True,
                                'clock_rate': CLOCK_RATE},
                'arm_node': {'joint_state_rate': ARM_RATE, 'arm_state_rate': ARM_RATE,
                             'max_command_age': min(0.2 * slack, 5.0),
                             'max_state_age': min(STALE_S * slack, 1.0),
                             'command_timeout': min(0.5 * slack, 5.0)}}

    def session(self) -> dict[str, object]:
        """Return the parameters of the session node."""
        slack = max(self.speed, 1.0)
        return {'max_image_age': min(0.2 * slack, 2.0)}
