"""
A DROID station in MuJoCo behind the same protocols as the hardware.

::

    from arena_robot.drivers.sim.station import SimStation

    with SimStation.make(task='cube_in_bowl', seed=3, robot='panda', size=(320, 180),
                         eyes=('left',)) as station:      # cameras=('left', 'wrist') for fewer
        state = station.save()                            # the start
        arm, gripper, clock = station.arm, station.gripper, station.clock
        for _ in range(400):
            q, pads = arm.state().q, gripper.state().position
            picture = station.cameras['left'].frame().left.pixels          # (180, 320, 3) RGB
            arm.command(ArmCommand(q, clock.now_ns()))
            station.step(1 / 15)                          # or clock.sleep_until_ns(...)
        station.progress(), station.succeeded(), station.instruction
        station.restore(state, moved_mm=5, turned_deg=3, seed=1)           # as a person would
        station.reset('stack_blocks', seed=8)                              # another task

A world without its own thread is stepped by its callers: ``station.step(dt)``,
``clock.sleep_until_ns`` and ``wait_state`` / ``wait_frame`` all advance it, deterministically and
as fast as the machine allows. ``station.world.start(real_time_factor=1.0)`` runs it in a thread
instead, with images rendered in another; with ``epoch_ns=time.time_ns()`` its stamps start at wall
time.

``station.truth`` reads object poses and contacts. ``station.world.faults.dead`` makes parts fail
(``'left'``, ``'right'``, ``'wrist'``, ``'arm'``, ``'gripper'``); ``station.arm.inject(mode)``
trips a reflex or user stop. Importing this package chooses EGL for drawing unless ``MUJOCO_GL``
says otherwise; without EGL on the machine everything but the cameras works.
"""

from arena_robot.core.tuning import draw_without_window

draw_without_window()
