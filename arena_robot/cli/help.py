"""The verbs `help` and `completion`."""

import argparse

from arena_robot.cli.verbs import parser, typed


def help_arguments(own: argparse.ArgumentParser) -> None:
    """Declare the verb that is asked for."""
    own.add_argument('verb', nargs='*', help='such as: policy serve')


def run_help(args: argparse.Namespace) -> int:
    """
    Print the help of a verb, or the list of all verbs.

        arena help
        arena help policy serve
    """
    found = parser(typed(args.verb)).leaf(args.verb)
    known = found.prog.split()[1:]
    if known != args.verb:
        if found.groups():
            found.parse_args(args.verb[len(known):])    # names the nearest verb
        found.error(f"'{' '.join(args.verb)}' is no verb; `{found.prog}` is")
    found.print_help()
    return 0


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'))


def run_completion(args: argparse.Namespace) -> int:
    """
    Print a script that completes `arena` in a shell.

        source <(arena completion bash)                               # in ~/.bashrc
        arena completion zsh > "${fpath[1]}/_arena"
        arena completion fish > ~/.config/fish/completions/arena.fish
    """
    from argcomplete.shell_integration import shellcode
    print(shellcode(['arena'], shell=args.shell))
    return 0
