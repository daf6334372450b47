"""One of two to six tools, chosen by what everybody knows: the request has no word of the tool's name or description.

The topics are in `wide_topics`; the wrong tools are of other topics. No name is the examiner's (`held_words`).
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_near, wide_topics
from training.data_chat import Chat, Turn
from training.held_words import free, plain
from training.rough import rough
from training.wide_choose import DONE, NONE
from training.wide_facts import capital, slip
from training.wide_fields import many
from training.wide_kinds import kinds
from training.wide_long import system
from training.wide_talk import lines, spelled

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+)(\.[as])?\}")
NUMBERS = ("n",)
# Members of WordNet's kinds that nobody says, or that are said of persons.
NEVER = frozenset(
    "dickeybird cur mutt pooch doggie generic spar ore calculus electric metallic knit yoke fitment blackamoor hessian bling bijou "
    "camise sang waterproof suiting bagging belting strapless eyas abandoned hard titfer".split()
)


@dataclass(frozen=True)
class Topic:
    names: tuple[str, ...]
    members: tuple[str, ...]
    rarer: tuple[str, ...]  # of WordNet
    value: str  # the place of a topic that has no members, as p

    def draw(self, rng: Random) -> str:
        """A member: mostly one that everybody knows."""
        if self.rarer and rng.random() < 0.3:
            return rng.choice(self.rarer)
        return rng.choice(self.members)


@dataclass(frozen=True)
class Act:
    topic: Topic
    names: tuple[str, ...]
    about: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    span: tuple[int, int]  # of the number
    texts: tuple[str, ...]

    @property
    def holes(self) -> list[str]:
        return list(dict.fromkeys(found[1] for text in self.texts for found in HOLE.finditer(text)))


def _rarer(named: str) -> tuple[str, ...]:
    found: list[str] = []
    for name in filter(None, named.split(",")):
        members = [one for one in kinds().get(name.rstrip("+"), ()) if not set(one.split()) & NEVER]
        found += [many(one) for one in members] if name.endswith("+") else members
    return tuple(dict.fromkeys(found))


@cache
def topics() -> list[list[Act]]:
    """The tools of each topic; what has no name that is free is left out."""
    found = []
    for block in wide_topics.TOPICS.strip().lstrip("*").split("\n*"):
        head, *rows = block.split("\n")
        kept, members, more = head.split("|")
        value = HOLE.fullmatch(members)
        topic = Topic(tuple(free(kept.split())), tuple(members.split(",")), _rarer(more), value[1] if value else "x")
        acts = []
        for row in rows:
            tools, about, places, texts = row.split("|")
            known, span = {topic.value: topic.names}, (2, 95)
            for part in filter(None, places.split(";")):
                hole, _, given = part.partition(":")
                if hole[1:2].isdigit():
                    low, _, high = hole[1:].partition("-")
                    hole, span = hole[0], (int(low), int(high))
                known[hole] = tuple(free(given.split()))
            names = tuple(free(tools.split()))
            if names:
                acts.append(Act(topic, names, tuple(about.split(";")), known, span, tuple(texts.split(";"))))
        found.append(acts)
    return [acts for acts in found if acts]


PLAIN = {"x": ("kind_given", "which_one", "subject_named"), "n": ("figure_given", "number_told"), "p": ("person_named", "for_person"), "room": ("room_told",), "town": ("town_named",)}  # fmt: skip


class Tool:
    """An act with names of its own for itself and its arguments."""

    def __init__(self, act: Act, rng: Random) -> None:
        self.act = act
        style = rng.choice(("snake", "snake", "snake", "camel", "pascal"))
        self.name = wide_near.written_free(rng.choice(act.names), style)
        self.about = rng.choice(act.about)
        style = rng.choice(("snake", "snake", "snake", "camel", "kebab"))
        self.names: dict[str, str] = {}
        for hole in act.holes:
            known = [
                *act.places.get(hole, ()),
                *(free(wide_near.USUAL.get(hole, "").split()) if rng.random() < 0.3 else ()),
            ]
            known = [each for each in known if each not in self.names.values()] or [*PLAIN.get(hole, (f"{hole}_told",))]
            self.names[hole] = wide_near.written_free(rng.choice(known), style)
        self.enum: tuple[str, ...] = ()
        if "x" in act.holes and not any("{x.s}" in text for text in act.texts) and rng.random() < 0.08:
            self.enum = tuple(dict.fromkeys(act.topic.draw(rng) for _ in range(rng.randint(3, 6))))

    def signature(self, described: bool, rng: Random) -> Json:
        properties: dict[str, Json] = {}
        for hole in rng.sample(list(self.names), len(self.names)):
            kind: Json = {"type": "integer" if hole in NUMBERS else "string"}
            if hole == "x" and self.enum:
                kind["enum"] = list(self.enum)
            words = plain(self.names[hole]).replace("_", " ")
            properties[self.names[hole]] = kind | (
                {"description": rng.choice((capital(words), words))} if described else {}
            )
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        about = {"description": self.about + rng.choice((".", ""))}
        return {"type": "function", "function": {"name": self.name} | about | {"parameters": parameters}}

    def call(self, rng: Random) -> tuple[str, Json]:
        """A request, and what it wants by the names of the places."""
        text = _bent(rng.choice(self.act.texts), rng)
        found: Json = {}
        for hole in self.act.holes:
            if hole == "x":
                found[hole] = rng.choice(self.enum) if self.enum else self.act.topic.draw(rng)
                found[hole] = many(found[hole]) if "{x.s}" in text else found[hole]
            elif hole == "n":
                found[hole] = rng.randint(*self.act.span)
            else:
                found[hole] = _soon(rng) if hole == "date" else wide_near.value(hole, rng)
        words = isinstance(found.get("n"), int) and found["n"] < 13 and rng.random() < 0.2

        def told(hole: re.Match[str]) -> str:
            value = found[hole[1]]
            shown = spelled(value) if hole[1] == "n" and words else str(value)
            return facts.an(shown) if hole[2] == ".a" and shown[0].islower() else shown

        return _mood(HOLE.sub(told, text), text, rng), {self.names[hole]: found[hole] for hole in self.names}


def _soon(rng: Random) -> str:
    day = rng.choice((rng.choice(facts.DAYS), f"next {rng.choice(facts.DAYS)}", wide.date(rng)))
    return _soon(rng) if re.search(r"\b1\d{3}\b", day) else day


def _bent(text: str, rng: Random) -> str:
    """As people type it: a word more or less, a slip in a word; what stands in braces stays."""
    draw = rng.random()
    if draw < 0.06:
        changed = rough(text, rng)
        return changed if sorted(HOLE.findall(changed)) == sorted(HOLE.findall(text)) else text
    if draw < 0.2:
        words = text.split(" ")
        places = [at for at, word in enumerate(words) if len(word) > 3 and word.isalpha()]
        if places:
            at = rng.choice(places)
            words[at] = slip(words[at], rng)
        return " ".join(words)
    return text


BEFORE = lines(
    """hi,|hello,|hey,|good morning,|please,|ok,|so,|listen,|well,|um,|sorry,|excuse me,|I know it is late, but|quick one:|hey you,|dear assistant,|right,|one thing:|if you can,|would you believe it,|honestly,|look,|my turn:|and now|also,|before I forget:"""
)
BEFORE_SENTENCE = lines(
    """Good evening.|Hello there!|Sorry to bother you.|What a day.|Long time no see.|I am in a hurry.|Here I am again.|Ugh.|Finally home.|Listen up.|Oh dear.|It is me again.|Lovely weather, isn't it?|I need your help.|Not my day.|Now this.|Guess what.|Third time I ask.|My wife says I should ask you.|Ha.|You will laugh."""
)
BEHIND = lines(
    """please|thanks|thank you|if you can|right away|when you have a minute|as usual|would be great|no hurry|and be quick about it|will you|you know|like last time"""
)
BEHIND_SENTENCE = lines(
    """Thanks!|Thank you.|Thanks a lot.|Please.|Can you do that?|Would that work?|You know what to do.|And no excuses.|I count on you.|Hurry up.|That is all.|Is that possible?|It would make my day.|Cheers.|See to it."""
)
ASKS = ("how", "what", "who", "where", "will", "could", "can", "may", "do", "does", "did", "is", "are", "which")


def _mood(text: str, form: str, rng: Random) -> str:
    """What people put around it. Behind a message nothing is put: it would be part of it."""
    open_end = form.rstrip("?!. ").endswith(("{msg}", "{cmd}", "{flaw}", "{ill}"))
    draw = rng.random()
    first, _, rest = text.partition(" ")
    asks = first.lower() in ASKS
    if draw < 0.14:
        text = f"{rng.choice(BEFORE)} {text}"
    elif draw < 0.24 and not open_end:
        text = f"{text}, {rng.choice(BEHIND)}"
    ends = ("?", "?", "?", "") if asks else (".", ".", "", "", "!")
    text = text + (rng.choice(ends) if text[-1] not in "?!." else "")
    text = capital(text) if rng.random() < 0.75 else text
    if 0.24 <= draw < 0.36:
        text = f"{rng.choice(BEFORE_SENTENCE)} {capital(text)}"
    elif 0.36 <= draw < 0.46 and text[-1] in "?!." and not open_end:
        text = f"{text} {rng.choice(BEHIND_SENTENCE)}"
    return text


def draw(rng: Random) -> Chat:
    """Two to six tools of as many topics; the first is wanted."""
    picked = rng.sample(topics(), rng.choice((2, 2, 3, 3, 4, 4, 5, 6)))
    tools: dict[str, Tool] = {}
    for acts in picked:
        one = Tool(rng.choice(acts), rng)
        tools.setdefault(one.name, one)
    described = rng.random() < 0.4
    shown = [one.signature(described, rng) for one in tools.values()]
    order = {tool["function"]["name"]: list(tool["function"]["parameters"]["properties"]) for tool in shown}
    turns: list[Turn] = []
    wanted = list(tools.values())
    if rng.random() < 0.03:  # what is asked for is not there
        strange = Tool(rng.choice(rng.choice([acts for acts in topics() if acts not in picked])), rng)
        turns += [Turn("user", strange.call(rng)[0]), Turn("assistant", NONE)]
    for at in range(rng.choice((1, 1, 2, 2, 3, 3))):
        one = wanted[0] if at == 0 else rng.choice(wanted)
        text, arguments = one.call(rng)
        turns += [
            Turn("user", text),
            Turn("assistant", calls=[(one.name, {name: arguments[name] for name in order[one.name]})]),
        ]
        if rng.random() < 0.3:
            result = rng.choice(({"status": "ok"}, {"ok": True}, {"done": True}, {"result": "ok"}))
            turns += [Turn("tool", json.dumps(result)), Turn("assistant", rng.choice(DONE))]
    opening = system(rng) if rng.random() < 0.2 else ""
    return Chat(turns, "wide_world", (), opening, rng.sample(shown, len(shown)), expect=None)
