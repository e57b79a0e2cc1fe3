"""
Print a script that completes `arena` in a shell.

    source <(arena completion bash)                               # in ~/.bashrc
    arena completion zsh > "${fpath[1]}/_arena"
    arena completion fish > ~/.config/fish/completions/arena.fish
"""

import argparse
import re

VERB = 'completion'
HELP = 'print completions for bash, zsh or fish'
Tree = dict[tuple[str, ...], tuple[str, list[tuple[str, str]]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from arena_robot.cli.main import parser
    print({'bash': bash, 'zsh': zsh, 'fish': fish}[args.shell](tree(parser())))
    return 0


def tree(parser: argparse.ArgumentParser) -> Tree:
    """Return, by the words typed so far, their help and the (word, help) that may follow."""
    found: Tree = {}

    def visit(words: tuple[str, ...], one: argparse.ArgumentParser, about: str) -> None:
        following: list[tuple[str, str]] = []
        for action in one._actions:  # argparse offers no other way to walk a parser
            following += [(o, _plain(action.help)) for o in action.option_strings if o[:2] == '--']
            if isinstance(action, argparse._SubParsersAction):
                helps = {a.dest: _plain(a.help) for a in action._choices_actions}
                for word, sub in action.choices.items():
                    following.append((word, helps.get(word, '')))
                    visit((*words, word), sub, helps.get(word, ''))
            elif action.choices and not action.option_strings:
                following += [(str(choice), '') for choice in action.choices]
        found[words] = about, following

    visit((), parser, '')
    return found


def bash(words: Tree) -> str:
    """Return the script for bash."""
    cases = '\n'.join(f"        '{' '.join(typed)}') words='{' '.join(w for w, _ in then)}' ;;"
                      for typed, (_, then) in sorted(words.items()) if typed)
    first = ' '.join(word for word, _ in words[()][1])
    return f"""# Completion of arena for bash.
_arena() {{
    local typed='' words='{first}' word longer
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -* ]] && break
        longer="${{typed:+$typed }}$word"
        case "$longer" in
{cases}
        *) break ;;
        esac
        typed=$longer
    done
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [[ ${{#COMPREPLY[@]}} -eq 0 ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _arena arena"""


def zsh(words: Tree) -> str:
    """Return the script for zsh; also loads from a folder in fpath as ``_arena``."""
    cases = '\n'.join(
        f"            '{' '.join(typed)}') offers=({' '.join(_described(then))}) ;;"
        for typed, (_, then) in sorted(words.items()) if typed)
    # `words` and `CURRENT` are zsh's own: the line that is typed, and the place of the cursor.
    return f"""#compdef arena
# Completion of arena for zsh.
_arena() {{
    local typed='' word longer
    local -a offers
    offers=({' '.join(_described(words[()][1]))})
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        [[ $word == -* ]] && break
        longer="${{typed:+$typed }}$word"
        case "$longer" in
{cases}
            *) break ;;
        esac
        typed=$longer
    done
    _describe 'arena' offers || _files
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _arena "$@"; else compdef _arena arena; fi"""


def fish(words: Tree) -> str:
    """Return the script for fish."""
    lines = ['# Completion of arena for fish.',
             'function __arena_typed',
             '    set -l typed (commandline -opc)[2..]',
             '    test "$typed" = "$argv"; or string match -q -- "$argv -*" "$typed"',
             'end']
    for typed, (_, then) in sorted(words.items()):
        condition = f"-n '__arena_typed {' '.join(typed)}'".replace(" '", " '", 1)
        for word, about in then:
            what = f'-l {word[2:]}' if word.startswith('--') else f'-a {word}'
            text = about.replace('\\', '\\\\').replace("'", "\\'")
            lines.append(f"complete -c arena {condition} {what} -d '{text}'")
    return '\n'.join(lines)


def _described(then: list[tuple[str, str]]) -> list[str]:
    found = []
    for word, about in then:
        text = f'{word}:{about}' if about else word
        found.append("'" + text.replace("'", "'\\''") + "'")
    return found


def _plain(text: str | None) -> str:
    return re.sub(r'%\(\w+\)s', '…', text or '').replace('\n', ' ').replace('%%', '%')
