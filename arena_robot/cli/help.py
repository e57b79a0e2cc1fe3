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
    leaf = parser(typed(args.verb)).leaf(args.verb)
    words = leaf.prog.split()[1:]
    if words != args.verb:
        if leaf.groups():
            leaf.parse_args(args.verb[len(words):])    # names the nearest verb
        leaf.error(f"'{' '.join(args.verb)}' is no verb; `{leaf.prog}` is")
    leaf.print_help()
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
