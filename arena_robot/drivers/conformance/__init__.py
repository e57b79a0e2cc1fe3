"""
What every arm, gripper and camera driver must do, as checks that run on any of them.

``arena driver check`` runs them; ``pytest_suite`` has them as classes for a driver's own tests.
"""
