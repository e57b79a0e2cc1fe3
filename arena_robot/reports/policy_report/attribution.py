"""Which words of an evaluator are about which slot, and which of them support a topic."""

import re
from collections.abc import Iterable
from functools import lru_cache

from arena_robot.reports.policy_report.material import ReportSession, flat
from arena_robot.reports.policy_report.statements import Citation
from arena_robot.reports.policy_report.topics import speaks_of

LONGEST = 160
_SENTENCE = re.compile(r'[^.!?;\n]+[.!?;\n]*')
_MENTION = re.compile(
    r'(?i:\b(?:policy|model|robot)\s+(?P<named>[ab])\b)|(?P<bare>\b[AB]\b)(?!\s(?:few|bit|lot|'
    r'little|good|better|very|small|large|third|second)\b)|(?i:(?:^\s*|[,;]\s*)(?P<every>both|neither)\b|\b(?P<both>both|neither)\s'
    r'(?=(?:of )?(?:the )?(?:polic|model|robot|them|trial)))')
_OBJECT = re.compile(r'(?i)\b(than|of|as|to|with|from|like|unlike|over|by|against)\s+$')
_PAIR = re.compile(r'(?i)\b(neither|both)\s+$')
_JOINED = re.compile(r'(?i)\s*(,|and|n?or|&|/)\s*')
_ON = re.compile(r'(?i)\s*(it|this policy|the policy|then)\b')
_TAIL = re.compile(r'(?i)[\s,]*\b(and|but|while|whereas|so|or|then)?[\s,]*$')


_ORDER = re.compile(
    r'(?i)\b(ignore|disregard|forget|override)\s+(all|any|the|every|everything|previous|prior|above|'
    r'your|these|this|what)\b|\b(system|developer)\s+(prompt|message|note)|\b(assistant|chatgpt|'
    r'language model|llm|json|schema)\b|\b(you|please)\s+(must|should|are|will|have to|now|write|'
    r'say|report|rank)\b|\b(praise|recommend|rate|rank|cite|declare|report|write|say|claim)\s+'
    r'(this|that|policy|the|it|only|a|b|as)\b|\bas an?\s+ai\b|===|<\W?\w+>|\binstructions?\s*:|'
    r'\bnew (instructions?|rules?|task)\b|https?:')


@lru_cache(maxsize=50_000)
def speaks_to_a_reader(text: str) -> bool:
    """
    Tell whether a text gives orders to whoever makes a report of it.

    Such a text is never quoted: it does not speak of a rollout.
    """
    return _ORDER.search(text) is not None


def about(session: ReportSession, slot: str) -> list[str]:
    """Return the pieces of the evaluator's words that are about a slot, as they stand there."""
    found = [note] if (note := session.note(slot)) else []
    for text in session.words:
        found += [piece for slots, piece in _pieces(text) if slot in slots]
    return [piece for one in found if (piece := one.strip()) and not speaks_to_a_reader(piece)]


def support(session: ReportSession, slot: str, topic: str) -> str:
    """Return the first words about a slot that support a topic, shortened; '' without any."""
    for piece in about(session, slot):
        at = speaks_of(topic, piece, session.instruction)
        if at is not None and not quote_problem(session, slot, quote := shortened(piece, at),
                                                topic):
            return quote
    return ''


def cited(sessions: Iterable[tuple[ReportSession, str]], topic: str) -> list[Citation]:
    """Return a citation of each (session, slot) where words about that slot support a topic."""
    return [Citation(session.session_id, quote) for session, slot in sessions
            if (quote := support(session, slot, topic))]


def quote_problem(session: ReportSession, slot: str, quote: str, topic: str) -> str:
    """Return why a quote does not support a topic ('' for none) of a slot, '' when it does."""
    pieces = [one for one in about(session, slot) if flat(quote) in flat(one)]
    if not pieces:
        return 'the words quoted are not about this policy'
    if topic and not any(speaks_of(topic, one, session.instruction) is not None
                         and speaks_of(topic, quote, session.instruction) is not None
                         for one in pieces):
        return f'by the rules the words do not say "{topic}"'
    return ''


def shortened(piece: str, at: int = 0) -> str:
    """Return up to 160 characters of a piece around ``at``, cut between words."""
    if len(piece) > LONGEST:
        start = max(0, min(at - LONGEST // 3, len(piece) - LONGEST))
        start = start and piece.find(' ', start) + 1
        end = piece.rfind(' ', start, start + LONGEST)
        piece = piece[start:end if end > start else start + LONGEST]
    return _TAIL.sub('', piece).strip()


@lru_cache(maxsize=20_000)
def _pieces(text: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    last = ''
    for sentence in _SENTENCE.findall(text):
        mentions = _mentions(sentence)
        if not mentions:
            if last and _ON.match(sentence):
                found.append((last, sentence))
            continue
        ends = [start for start, _, _ in mentions[1:]] + [len(sentence)]
        found += [(slots, sentence[start:end])
                  for (start, _, slots), end in zip(mentions, ends, strict=True)]
        last = mentions[-1][2]
    return tuple(found)


def _mentions(sentence: str) -> list[tuple[int, int, str]]:
    """Return (start, end, slots) of the mentions that begin something about slots."""
    found: list[tuple[int, int, str]] = []
    for hit in _MENTION.finditer(sentence):
        if _OBJECT.search(sentence[:hit.start()]):
            continue
        both = hit['both'] or hit['every']
        slots = 'AB' if both else (hit['named'] or hit['bare']).upper()
        if found and _JOINED.fullmatch(sentence[found[-1][1]:hit.start()]):
            start, _, before = found[-1]
            found[-1] = start, hit.end(), ''.join(sorted({*before, *slots}))
        elif not (found and both and len(found[-1][2]) == 2):
            start = hit.start('every') if hit['every'] else hit.start()
            if pair := _PAIR.search(sentence[:start]):
                start = pair.start()
            found.append((start, hit.end(), slots))
    return found
