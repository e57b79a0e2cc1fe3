"""A column whose texts are sealed in the database and plain in the program."""

import weakref
from typing import Any

from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.types import Text, TypeDecorator

from arena_robot.server.sealing import Seal, is_sealed

_SEALS: weakref.WeakKeyDictionary[Dialect, Seal] = weakref.WeakKeyDictionary()


class SealedText(TypeDecorator[str]):
    """Text that is sealed on its way to the database; without a key it is stored as it is."""

    impl = Text
    cache_ok = True

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the text as the database keeps it."""
        seal = _SEALS.get(dialect)
        return seal.seal(value, self.about) if seal is not None and value else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the text; as it is kept when this program has no key."""
        seal = _SEALS.get(dialect)
        return seal.open(value, self.about) if seal and value and is_sealed(value) else value


class SealedLines(SealedText):
    """Lines that are appended in parts, ``column + part``; each part is sealed by itself."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the part as the database keeps it: one line."""
        kept = super().process_bind_param(value, dialect)
        return f'{kept}\n' if kept and is_sealed(kept) else kept

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return all lines; those stored without a key are as they are."""
        if not value or 'sealed' not in value:
            return value
        opened = super().process_result_value
        return ''.join(opened(line, dialect) if is_sealed(line) else f'{line}\n'
                       for line in value.splitlines())


def use_seal(engine: Engine, seal: Seal) -> None:
    """Let an engine seal and open the columns of this type."""
    _SEALS[engine.dialect] = seal
