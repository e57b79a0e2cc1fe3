"""
Print a script that completes `arena` in a shell.

    source <(arena completion bash)                               # in ~/.bashrc
    arena completion zsh > "${fpath[1]}/_arena"
    arena completion fish > ~/.config/fish/completions/arena.fish
"""

import argparse

VERB = 'completion'
HELP = 'print completions for bash, zsh or fish'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'))


def run(args: argparse.Namespace) -> int:
    """Print the script; it calls `arena`, which answers in :func:`arena_robot.cli.main.main`."""
    from argcomplete.shell_integration import shellcode
    print(shellcode(['arena'], shell=args.shell))
    return 0
