"""A stand-in for Stereolabs' package ``pyzed``; :mod:`arena_robot.drivers.emulators.zed`."""
