"""
Start-up code of the environment's Python: finds ROS 2, arena_msgs, tf2_msgs, this checkout.

`make setup` copies this file into ``.venv`` and adds a ``.pth`` line that imports it before the
start-up file of the ROS wheels, which restarts Python once with a new ``LD_LIBRARY_PATH``. Another
ROS distribution that the shell has sourced is removed from the paths, because two copies of rclpy
conflict. Overlays without their own rclpy stay.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

ROOT = os.path.dirname(sys.prefix)
MESSAGES = [os.path.join(ROOT, 'install', name) for name in ('arena_msgs', 'tf2_msgs')]
PACKAGES = os.path.join('lib', f'python{sys.version_info[0]}.{sys.version_info[1]}',
                        'site-packages')
RESTARTED = '_ROS_WHEELS_BOOTSTRAP_COMPLETE'


class Checkout:
    """Finds only ``arena_robot``, in the checkout, so that edits take effect at once."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where ``arena_robot`` is; None for every other name."""
        return PathFinder.find_spec(name, [ROOT]) if name == 'arena_robot' else None


def parts(name: str) -> list[str]:
    """Return the entries of a path variable."""
    return [part for part in os.environ.get(name, '').split(os.pathsep) if part]


def leave_out(foreign: list[str]) -> None:
    """Remove every path inside the ``foreign`` prefixes from the environment."""
    for name in ('AMENT_PREFIX_PATH', 'PYTHONPATH', 'LD_LIBRARY_PATH', 'CMAKE_PREFIX_PATH'):
        kept = [part for part in parts(name)
                if not any(part == p or part.startswith(p + os.sep) for p in foreign)]
        os.environ[name] = os.pathsep.join(kept)
    os.environ.pop('RMW_IMPLEMENTATION', None)
    os.environ.pop(RESTARTED, None)


def activate() -> None:
    """Set what sourcing would set, and request a restart when the libraries are not found."""
    foreign = [prefix for prefix in parts('AMENT_PREFIX_PATH')
               if prefix != sys.prefix
               and os.path.exists(os.path.join(prefix, 'share', 'rclpy', 'package.xml'))]
    if foreign:
        leave_out(foreign)
    own = [os.path.join(ROOT, 'install', 'arena_robot'), *MESSAGES, sys.prefix]
    others = [part for part in parts('AMENT_PREFIX_PATH') if part not in own]
    os.environ['AMENT_PREFIX_PATH'] = os.pathsep.join([*others, *own])
    os.environ['ROS_DISTRO'] = 'jazzy'
    wanted = [os.path.join(prefix, 'lib') for prefix in (*MESSAGES, sys.prefix)]
    found = parts('LD_LIBRARY_PATH')
    if any(folder not in found for folder in wanted):
        os.environ['LD_LIBRARY_PATH'] = os.pathsep.join(
            [*wanted, *(folder for folder in found if folder not in wanted)])
        os.environ.pop(RESTARTED, None)
    sys.path += [os.path.join(prefix, PACKAGES) for prefix in MESSAGES]
    sys.meta_path.append(Checkout)


activate()
