"""Processes of a station under a namespace, for tests: each can be killed and started again."""

import sys

from arena_robot.nodes.remote.desk import RemoteDesk


class ProcessRig:
    """
    A base class: ``commands`` by name are started with ``environment``.

    Used as a context it ends them all, and shows with a failure what they wrote.
    """

    END_S = 20.0

    def __init__(self, processes, namespace, commands, environment):
        self.processes, self.namespace = processes, namespace
        self.commands, self.environment = commands, environment
        self.running = {name: self.start(name) for name in commands}

    def start(self, name):
        return self.processes(*self.commands[name], **self.environment)

    def kill(self, name='session_node'):
        self.running[name].kill()

    def again(self, name='session_node'):
        self.running[name] = self.start(name)

    def revive(self):
        """Start what ended by itself again, as a station does."""
        for name, process in self.running.items():
            if process.popen.poll() is not None:
                self.again(name)

    def desk(self, patience_s=60.0):
        return RemoteDesk(namespace=self.namespace, patience_s=patience_s)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        said = self.said()
        if kind is not None:
            sys.stdout.write(said[-20_000:])  # pytest shows it with the failure

    def said(self):
        """End every process, the last first, and return what they wrote to their terminals."""
        for process in reversed(self.running.values()):
            if process.popen.poll() is None:
                process.end(timeout_s=self.END_S)
        return ''.join(f'-- {name}\n{process.log}' for name, process in self.running.items())
