"""Arguments of the verbs that ask a chat model, and the client made of them."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.models.chat import ChatClient


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--model', action='store_true',
                        help='ask the chat model that ARENA_MODEL_URL and ARENA_MODEL name, with '
                             'the key in ARENA_MODEL_KEY')
    parser.add_argument('--dry-run', action='store_true',
                        help='with --model: print what would be sent and what it costs at most')
    parser.add_argument('--prices', default='', metavar='IN,OUT',
                        help='per million tokens, for cost and budget')
    parser.add_argument('--budget', type=float, metavar='B',
                        help='stop before more than this is spent; needs --prices')
    parser.add_argument('--transcript', type=Path, metavar='FILE',
                        help='append every question and answer to this file')


def chat_client(args: argparse.Namespace, transcript: Path | None = None) -> 'ChatClient':
    """Return the client; ConfigError without an endpoint or for wrong prices."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.models.chat import ANSWER_TOKENS, CACHE, ChatClient, ChatSettings
    try:
        price_in, price_out = map(float, args.prices.split(',')) if args.prices else (0.0, 0.0)
    except ValueError as error:
        raise ConfigError(f"--prices '{args.prices}' is not two numbers with a comma between, "
                          'such as 2.5,10') from error
    path = args.transcript or transcript
    return ChatClient(ChatSettings(
        price_in=price_in, price_out=price_out, budget=args.budget, cache=CACHE,
        transcript=str(path) if path else '', dry_run=args.dry_run, max_tokens=ANSWER_TOKENS))
