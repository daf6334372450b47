"""Retrieval in frames of a stranger's own: a fact hidden at any depth of 1k to 16k tokens, asked for in other words.

The rule: the answer has the value, as words of their own, whatever the case; and it has no value of another fact of the
same relation that was hidden beside it. What else it says does not matter.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_facts import RELATIONS
from training.strangers_filler import KINDS, Filler, hidden
from training.strangers_relations import MONTHS, Relation
from training.strangers_voices import voiced

# {t} is the text, {q} the question. A frame of one message, or of several: "role: content" parted by "||".
FRAMES = (
    "{t}\n\n{q}",
    "{q}\n\n{t}",
    "Have a look at what follows and then tell me something about it.\n\n{t}\n\nHere is what I want to know: {q}",
    "<notes>\n{t}\n</notes>\n\n{q}",
    "I paste my whole notebook below. {q}\n\n{t}\n\nAgain: {q}",
    "```\n{t}\n```\n{q}",
    "TEXT\n{t}\nEND OF TEXT\nQ. {q}\nA.",
    "Somewhere in this mess there is one thing I need.\n{t}\n--\n{q}",
    "system: You are handed a long file and look things up in it.\n\n{t}||user: {q}",
    "user: Please keep this in mind:\n{t}||assistant: All right, I have read it.||user: {q}",
    "user: {t}||assistant: Thanks. What would you like to know?||user: {q}",
    "doc = '''{t}'''\n# {q}\n",
    "Forwarded message:\n> {t}\n\nHi, could you go through the above? {q} Cheers",
    "{q} It is in here: {t}",
    "page 1 of 1\n{t}\n\nreader's question: {q}",
)


def questions(count: int, seed: int, filler: Filler, tokens: int, figure: str) -> list[Question]:
    return [
        one(random.Random(f"find {tokens} {seed} {index}"), filler, tokens, figure, index) for index in range(count)
    ]


def one(rng: random.Random, filler: Filler, tokens: int, figure: str, index: int) -> Question:
    relation = RELATIONS[index % len(RELATIONS)]
    about, value, needle = fact(rng, relation)
    beside = [fact(rng, relation, avoid=(about, value)) for _ in range(rng.choice((0, 0, 1, 2)))]
    kind = rng.choice(KINDS)
    pieces = filler.pieces(kind, rng, tokens - 120)
    depth = rng.random()
    text = hidden(pieces, [needle, *(other[2] for other in beside)], [depth, *(rng.random() for _ in beside)], kind)
    ask, voice = voiced(rng.choice(relation.asks).format(e=about), rng, (about,))
    messages = framed(rng.choice(FRAMES), text, ask)
    facts = {"relation": relation.name, "needle": needle, "asked": ask, "depth": round(depth, 2), "filler": kind}
    verdict = has_value(value, [other[1] for other in beside])
    return chat(figure, messages, verdict, max_tokens=40, expected=value, facts={**facts, "voice": voice})


def fact(rng: random.Random, relation: Relation, avoid: Iterable[str] = ()) -> tuple[str, str, str]:
    """About whom, the value, and the sentence that says it."""
    taken = {word for phrase in avoid for word in phrase.split()}
    while True:
        about, value = relation.about(rng), relation.value(rng)
        names = {word for word in (*about.split(), *value.split()) if word[0].isupper() or word[0].isdigit()}
        if value != about and not names & taken and not (set(about.split()) & set(value.split()) - {"the"}):
            if avoid and (about in avoid or value in avoid):
                continue
            sentence = rng.choice(relation.states).format(e=about, v=value)
            return about, value, sentence[0].upper() + sentence[1:]


def framed(frame: str, text: str, ask: str) -> list[dict[str, str]]:
    parts = frame.split("||") if "||" in frame else [f"user: {frame}"]
    messages = []
    for part in parts:
        role, _, content = part.partition(": ")
        messages.append({"role": role, "content": content.replace("{q}", ask).replace("{t}", text)})
    return messages


def has_value(value: str, others: Sequence[str] = ()) -> Verdict:
    def verdict(answer: Answer) -> str:
        if not any(says(answer.text, form) for form in spellings(value)):
            return f"{value!r} is not in the answer"
        wrong = [other for other in others if says(answer.text, other)]
        return f"{wrong[0]!r} is that of another" if wrong else ""

    return verdict


def says(text: str, phrase: str) -> bool:
    """Whether the phrase is in the text as words of their own."""
    return re.search(rf"(?<![\w]){re.escape(flat(phrase))}(?![\w])", flat(text)) is not None


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text.lower().replace("’", "'").replace("*", ""))


def spellings(value: str) -> list[str]:
    """Forms of a value that mean the same: 4 May, May 4, 4th of May; the lighthouse, lighthouse; an instrument."""
    forms = [value, value.removeprefix("the ")]
    day, _, month = value.partition(" ")
    if month in MONTHS:
        ordinal = day + {1: "st", 2: "nd", 3: "rd"}.get(int(day) % 10 if int(day) // 10 != 1 else 0, "th")
        forms += [f"{month} {day}", f"{month} {ordinal}", f"{ordinal} {month}", f"{ordinal} of {month}"]
    if value.isdigit() and len(value) > 3:
        forms += [" ".join(value), f"{int(value):,}", value[:3] + " " + value[3:]]
    return forms
