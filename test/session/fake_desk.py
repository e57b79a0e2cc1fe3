"""A desk in the conductor's own process, for tests of what evaluators use."""

import threading

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.session.evaluator.desk import RunView


class InProcessDesk:
    def __init__(self, conductor):
        self.conductor = conductor
        self.token, self.errors = '', []

    def state(self):
        return self.conductor.shown()

    def wait_change(self, seen, timeout_s):
        threading.Event().wait(0.005)
        return self.state()

    def running(self):
        slot = self.state().state.running
        return RunView(slot, self.conductor.motions.steps, 400) if slot else None

    def take(self, name, take_over=False):
        self.token = self.conductor.control.take(name, take_over)

    def open_session(self, evaluator, instruction, repeat=False, third_person=''):
        self.conductor.controlled(self.token).open_session(evaluator, instruction, repeat,
                                                           third_person)

    def press(self, button, text=''):
        return self.conductor.controlled(self.token).press(button, text)

    def start(self, slot, attended=None):
        before = self.state().state

        def run():
            try:
                self.conductor.controlled(self.token).run(Slot(slot))
            except ArenaError as error:
                self.errors.append(error)
        threading.Thread(target=run, daemon=True).start()
        while self.state().state is before and not self.errors:
            threading.Event().wait(0.002)

    def stop(self):
        self.conductor.stop()

    def score(self, slot, verdict):
        self.conductor.controlled(self.token).score(Slot(slot), verdict)

    def judge(self, verdict):
        self.conductor.controlled(self.token).judge(verdict)

    def draft(self, words):
        self.conductor.controlled(self.token).draft(words)

    def submit(self):
        self.conductor.controlled(self.token).submit()
        self.conductor.deliver()

    def site(self):
        return None

    def consent(self):
        return ''

    def extras(self):
        return self.conductor._config.extras

    def today(self):
        return self.conductor.today()
