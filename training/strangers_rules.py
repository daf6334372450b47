"""Written rules for free text, that a reader without a model can apply.

An answer is *sound* when
- it ended by itself (not at the limit of tokens) and is not empty;
- no more than one word in forty is broken: a word in lower case that no dictionary has, nor the prompt, nor as a form
  of a known word with -s, -ed, -ing, -ly, -er, -est, -'s or un-;
- it does not go in circles: no four words in a row occur three times, and no sentence twice;
- it has no marks of a template or of code in it (<|, </, \\ufffd).
Every rule of talk begins with this one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from training.strangers_ask import Answer

CONTRACTED = re.compile(r"'(?:s|m|re|ve|ll|d|t)$")
ENDINGS = ("s", "es", "ed", "d", "ing", "ly", "er", "est", "ies", "ied")
MARKS = ("<|", "</", "\ufffd", "<tool_call>", "<think>")
REFUSALS = re.compile(
    r"\b(?:do(?:es)? not|don't|doesn't|can ?not|can't|could not|couldn't|am not able to|not able to|unable to|never)"
    r"\s+(?:\w+\s+){0,2}?(?:know|tell|say|find|answer|predict|mention)\b"
    r"|\bi (?:do not|don't|can ?not|can't|could not|am not able to|am unable to)"
    r"\s+(?:\w+ )?(?:have|see|look|remember|help)\b"
    r"|\bno (?:idea|clue|way|information|knowledge|access|data|means)\b|\bnot (?:sure|known|stated|mentioned|given)\b"
    r"|\b(?:is|are|was) (?:un(?:known|clear|certain))\b|\bunknown\b|\bnobody (?:knows|can)\b"
    r"|\bnot (?:in|part of) the text\b"
    r"|\b(?:not|nothing) (?:said|written|told)\b|\bbeyond (?:me|my)\b|\bisn't (?:stated|mentioned|given|known)\b"
)


def is_refusal(text: str) -> bool:
    """Whether the answer says, in any words, that it does not know or cannot tell."""
    return REFUSALS.search(text.lower().replace("’", "'")) is not None


def split_sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])[\"')]*\s+|\n+", text.strip()) if re.search(r"\w", part)]


def broken_words(text: str, words: frozenset[str], prompt: str = "") -> list[str]:
    if len(words) < 1000:
        return []  # no dictionary at hand
    asked = set(re.findall(r"[a-z']+", prompt.lower()))
    found = re.findall(r"(?<![\w@#/.-])[a-zA-Z][a-zA-Z']*(?![\w@#/])", text.replace("’", "'"))
    return [word for word in found if not is_word(word, words | asked)]


def is_word(word: str, words: frozenset[str]) -> bool:
    """A word with a capital may be a name: then it needs a vowel and no more than two equal letters in a row."""
    word = word.strip("'")
    low = CONTRACTED.sub("", word.lower()) or word.lower()
    if {low, word.lower(), word.lower().removesuffix("n't")} & words:
        return True
    if not (word.isupper() or word[1:].islower() or len(word) == 1):
        return False  # capitals in the middle of a word
    if word[0].isupper():
        return (
            bool(re.search(r"[aeiouy]", low)) and not re.search(r"(.)\1\1", low) or (word.isupper() and len(word) < 6)
        )
    stems = [low.removesuffix(ending) for ending in ENDINGS if low.endswith(ending)]
    stems += [stem + tail for stem in stems for tail in ("e", "y")] + [
        stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]
    ]
    return any(stem in words for stem in stems if len(stem) > 2) or low.removeprefix("un") in words


def circles(text: str) -> str:
    tokens = re.findall(r"[a-z0-9']+", text.lower())
    most = Counter(zip(*(tokens[i:] for i in range(4)), strict=False)).most_common(1)
    if most and most[0][1] >= 3:
        return f"repeats {' '.join(most[0][0])!r}"
    said = Counter(sentence.lower() for sentence in split_sentences(text) if len(sentence.split()) > 2)
    twice = [sentence for sentence, times in said.items() if times > 1]
    return f"says twice {twice[0]!r}" if twice else ""


def unsound(answer: Answer, words: frozenset[str], prompt: str = "") -> str:
    """Why the text is not sound, or ""."""
    text = answer.text.strip()
    if answer.calls:
        return "calls a tool"
    if not re.search(r"\w", text):
        return "empty"
    if answer.finish == "length":
        return "does not end"
    if any(mark in text for mark in MARKS):
        return "has marks of a template"
    broken = broken_words(text, words, prompt)
    if len(broken) * 40 > max(len(text.split()), 40):
        return f"broken words: {', '.join(broken[:3])}"
    return circles(text)


def has_any(text: str, phrases: Iterable[str]) -> bool:
    low = " " + re.sub(r"[^a-z0-9']+", " ", text.lower().replace("’", "'")) + " "
    return any(f" {phrase} " in low for phrase in phrases)
