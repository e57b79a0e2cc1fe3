"""`arena station --adopt FILE`: look at a running graph and write a station file for it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_text

if TYPE_CHECKING:
    from arena_robot.nodes.adopt.proposal import Proposal


def adopt(path: Path, namespace: str) -> int:
    """Write the station file of a running graph; return 1 while something is missing."""
    from arena_robot.nodes.adopt.graph import look
    from arena_robot.nodes.adopt.proposal import propose
    refuse_or_ask(path)
    print('looking at the graph for some seconds', flush=True)
    proposal = propose(look(namespace))
    write_text(path, proposal.text(str(path)))
    tell(proposal, path, namespace)
    return 1 if proposal.missing else 0


def refuse_or_ask(path: Path) -> None:
    """Return when ``path`` may be written; ConfigError unless a person says so."""
    if not path.exists():
        return
    if sys.stdin.isatty() and input(f'{path} exists. Replace it? [y/N]: ').strip().lower() == 'y':
        return
    raise ConfigError(f'{path} exists and is not replaced; give another name, or remove it')


def tell(proposal: 'Proposal', path: Path, namespace: str) -> None:
    """Print what was found, what to check, what is missing, and the next command."""
    for title, lines in (('found', proposal.found), ('check', proposal.remarks),
                         ('MISSING', proposal.missing)):
        for line in lines:
            print(f'{title:<8} {line}')
    space = f' --namespace {namespace}' if namespace else ''
    print(f'written: {path}')
    if proposal.missing:
        print('Mend what is missing and look again, or edit the file.')
    else:
        print(f'next: arena station --config {path}{space} --session --console')
