"""Compare robot policies on real robots: a ROS 2 suite for DROID stations."""

__version__ = '0.1.0'
DISTRIBUTION = 'droid-arena'    # its name for pip
