"""Parameters of every node of a robot part."""

from dataclasses import dataclass

from arena_robot.nodes.parameters import Parameters, param

# What the names of a driver's own parameters begin with.
DRIVER = 'driver.'


@dataclass(frozen=True, kw_only=True)
class PartParams(Parameters):
    """The parameters of every part."""

    autostart: bool = param(
        True, 'configure and activate at start, and again after a failure', live=True)
    diagnostic_period: float = param(
        1.0, 'time between two reports on /diagnostics', 0.1, 60.0, unit='s')
    backend: str = param(
        'sim', 'driver of the part: sim, replay, franka_rs, libfranka, robotiq, droid_nuc, an '
        'installed one, module:Class')
    use_fake_hardware: bool = param(False, 'use the backend sim instead of backend')

    @property
    def chosen_backend(self) -> str:
        """The backend that is used."""
        return 'sim' if self.use_fake_hardware else self.backend


@dataclass(frozen=True, kw_only=True)
class CommandedParams(PartParams):
    """The parameters of parts that move."""

    max_command_age: float = param(
        0.2, 'age above which a command is refused', 0.01, 5.0, unit='s')
    accept_unstamped: bool = param(
        False, 'accept commands without a stamp too, which a played bag may send')
    publish_tf: bool = param(
        True, 'publish tf and tf_static; false where a robot_state_publisher does')
