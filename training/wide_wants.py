"""One of three to eight tools, wanted without being named: by what a word is, by what one does with it, in three words or in many.

Among the others are near ones, of the same domain or with arguments of the same kinds. The tools are in `wide_wants_words` and
`wide_wants_more`; no name is the examiner's (`held_words`).
"""

# ruff: noqa: E501, SIM905  (rows are easier to read than lists)

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide_kinds, wide_near, wide_spans, wide_wants_more, wide_wants_words, wide_world
from training.data_chat import Chat, Turn
from training.held_words import free, plain, taken
from training.wide_choose import DONE, NONE
from training.wide_facts import capital
from training.wide_fields import bare, many
from training.wide_long import system
from training.wide_talk import lines, spelled

Json = dict[str, Any]
HOLE = re.compile(r"(\b[Aa] )?\{([a-z]+2?)\}")
POOLS = {pool: tuple(members.split(",")) for pool, members in (wide_wants_words.POOLS | wide_wants_more.POOLS).items()}
NAMES = {
    "thing": "item lost_item belonging", "device": "device appliance machine", "pill": "drug medicine substance", "subject": "subject topic field_of_study", "spot": "kind_of_place place_type looked_for",
    "sky": "celestial_object object_in_sky", "coin": "currency coin_name", "measure": "unit unit_name", "limb": "body_part sore_part", "chore": "task what_to_do chore", "style": "genre musical_style",
    "film": "genre film_genre kind_of_film", "weather": "weather feared_weather", "hazard": "hazard danger what_is_wrong", "job": "occupation profession job_title", "room": "room which_room", "stain": "stain stained_with",
    "pastime": "hobby pastime", "holiday": "holiday feast_day", "event": "occasion kind_of_event", "p": "person name who", "p2": "second_person other_person", "town": "town place city", "town2": "destination second_town",
    "date": "date day", "time": "time clock_time", "title": "title work_title", "msg": "text message", "firm": "firm company", "n": "number amount", "m": "second_number heads",
}  # fmt: skip
OTHERS = {
    "n": "figure_given number_told how_much quantity_told", "m": "second_figure by_how_many", "p": "person_named for_person named_person", "p2": "another_person person_beside", "msg": "wording said_text words_told",
    "town": "town_named in_town", "town2": "other_town toward", "date": "day_named which_day", "time": "clock_told at_what_time", "title": "work_named title_told",
}  # fmt: skip
USUAL = frozenset("p p2 town town2 date time n m".split())  # what tools of any topic take
SMALL = frozenset("a an the of in on at to for with from by it is are was be has do i you me my we us and or what which who where how not that this some one up out off".split())  # fmt: skip


@cache
def stems(text: str) -> frozenset[str]:
    """The words that could give a tool away."""
    found = re.findall(r"[a-z]+", re.sub(r"\{[^{}]*\}|'s", " ", text.lower().replace("_", " ")))
    return frozenset(re.sub(r"(ing|er|ed|es|s|e)$", "", word) if len(word) > 4 else word for word in found if word not in SMALL)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Want:
    """A tool, and ways to want it; of `terse` ones it is told only by what they hold."""

    domain: str
    names: tuple[str, ...]
    about: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    spans: dict[str, tuple[int, int]]
    texts: tuple[str, ...]
    terse: tuple[str, ...]


def _want(row: str, domain: str) -> Want | None:
    tools, about, places, texts = row.split("|")
    every = [text.removeprefix("~") for text in texts.split(";")]
    given: dict[str, str] = {}
    spans: dict[str, tuple[int, int]] = {}
    for part in filter(None, places.split(";")):
        hole, _, told = part.partition(":")
        found = re.fullmatch(r"([nm])(\d+)-(\d+)", hole)
        if found:
            hole = found[1]
            spans[hole] = int(found[2]), int(found[3])
        given[hole] = told
    holes = dict.fromkeys(hole[2] for text in every for hole in HOLE.finditer(text))
    kept = {hole: tuple(free((given.get(hole) or names_of(hole)).split())) for hole in holes}
    names = tuple(free(tools.split()))
    terse = tuple(text for text, raw in zip(every, texts.split(";"), strict=True) if raw.startswith("~"))
    return Want(domain, names, tuple(about.split(";")), kept, spans, tuple(every), terse) if names else None


@cache
def kinds() -> dict[str, wide_spans.Kind]:
    return {one.word.split(" ")[-1]: one for one in wide_spans.kinds()}


def names_of(hole: str) -> str:
    return (
        NAMES[hole] if hole in NAMES else " ".join(kinds()[hole].names) if hole in kinds() else f"{hole} {hole}_named"
    )


@cache
def wants() -> list[Want]:
    found = []
    for block in (wide_wants_words.WANTS.strip() + "\n" + wide_wants_more.WANTS.strip()).lstrip("*").split("\n*"):
        domain, *rows = block.split("\n")
        found += [one for row in rows if (one := _want(row, domain))]
    return found


def value(hole: str, span: tuple[int, int], rng: Random) -> tuple[str, Any]:
    """As it is told, and as it is stored."""
    base = hole.rstrip("2")
    if base in ("n", "m"):
        number = rng.randint(*span)
        return spelled(number) if number < 13 and rng.random() < 0.15 else str(number), number
    if base in POOLS:
        told = rng.choice(POOLS[base])
        return told, bare(told)
    if base in kinds():
        known = kinds()[base]
        told = rng.choice(known.rarer if known.rarer and rng.random() < 0.12 else known.members)
        return told, told
    told = wide_world._soon(rng) if base == "date" else wide_near.value(base, rng)
    return told, told


def _small(said: str, first: str, rng: Random) -> str:
    """A value that stands first is mostly left as it is."""
    if first[:1].islower() and said.startswith(capital(first)) and rng.random() < 0.7:
        return said[0].lower() + said[1:]
    return said


class Tool:
    """A want with names of its own for itself and its arguments."""

    def __init__(self, want: Want, rng: Random) -> None:
        self.want = want
        self.name = wide_near.written_free(rng.choice(want.names), rng.choice(("snake", "snake", "snake", "camel", "pascal")))  # fmt: skip
        self.about = rng.choice(want.about)
        style = rng.choice(("snake", "snake", "snake", "camel", "kebab"))
        self.names: dict[str, str] = {}
        for hole, known in want.places.items():
            fresh = [each for each in known if wide_near.written_free(each, style) not in self.names.values()]
            self.names[hole] = wide_near.written_free(
                rng.choice(fresh or free(OTHERS.get(hole, f"{hole}_told {hole}_given").split())), style
            )

    def signature(self, described: bool, rng: Random) -> Json:
        properties: dict[str, Json] = {}
        for hole in rng.sample(list(self.names), len(self.names)):
            words = plain(self.names[hole]).replace("_", " ")
            about = {"description": rng.choice((capital(words), words))} if described else {}
            properties[self.names[hole]] = {"type": "integer" if hole in "nm" else "string"} | about
        needed = [self.names[hole] for hole in self.names if all(f"{{{hole}}}" in text for text in self.want.texts)]
        parameters = {"type": "object", "properties": properties, "required": [each for each in properties if each in needed]}  # fmt: skip
        about = {"description": self.about + rng.choice((".", ""))}
        return {"type": "function", "function": {"name": self.name} | about | {"parameters": parameters}}

    def texts(self) -> list[str]:
        """The requests that have no word of the tool's name and description."""
        given = stems(f"{re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', self.name)} {self.about}")
        return [text for text in self.want.texts if not stems(text) & given]

    def call(self, text: str, rng: Random) -> tuple[str, Json]:
        """A request, and what it wants by the names of the places."""
        bent = wide_world._bent(text, rng)
        holes = dict.fromkeys(hole[2] for hole in HOLE.finditer(text))
        text = bent if all(f"{{{hole}}}" in bent for hole in holes) else text
        found: dict[str, tuple[str, Any]] = {}
        for hole in holes:
            while hole not in found or sum(found[hole][1] == one for _, one in found.values()) > 1:
                found[hole] = value(hole, self.want.spans.get(hole, (2, 40)), rng)

        def told(hole: re.Match[str]) -> str:
            shown = found[hole[2]][0]
            article = hole[1] or ""
            return f"{article[:-1]}n {shown}" if article and shown[0] in "aeiouAEIO" else f"{article}{shown}"

        said = wide_world._mood(HOLE.sub(told, text), text, rng)
        if text.startswith("{"):
            said = _small(said, next(iter(found.values()))[0], rng)
        if rng.random() < 0.12:
            said = f"{rng.choice(CHATTY)} {capital(said)}"
        return said, {self.names[hole]: found[hole][1] for hole in self.names if hole in found}


CHATTY = lines(wide_wants_words.CHATTY)


@cache
def _near(want: Want) -> tuple[list[Want], list[Want]]:
    """Tools of its domain, and tools that take the same."""
    others = [one for one in wants() if one is not want]
    own = set(want.places) - USUAL
    alike = [one for one in others if own & set(one.places) or set(one.places) == set(want.places)]
    return [one for one in others if one.domain == want.domain], alike


def _rivals(want: Want, text: str, count: int, rng: Random) -> list[Want]:
    """Other tools: near ones first; a terse request could be meant for none of them."""
    holes = {hole[2] for hole in HOLE.finditer(text)}
    terse = text in want.terse
    near, alike = _near(want)
    picked: list[Want] = [want]
    for pool, most in ((near, 2), (alike, 2), (wants(), count)):
        for one in rng.sample(pool, min(len(pool), most + 3)):
            if most and len(picked) <= count and one not in picked and not (terse and holes <= set(one.places)):
                picked.append(one)
                most -= 1
    return picked[1:]


def _turns(one: Tool, text: str, order: list[str], rng: Random) -> list[Turn]:
    said, arguments = one.call(text, rng)
    turns = [Turn("user", said), Turn("assistant", calls=[(one.name, {key: arguments[key] for key in order if key in arguments})])]  # fmt: skip
    if rng.random() < 0.25:
        result = rng.choice(({"status": "ok"}, {"ok": True}, {"done": True}, {"result": "ok"}))
        turns += [Turn("tool", json.dumps(result)), Turn("assistant", rng.choice(DONE))]
    return turns


def tool_call(rng: Random) -> Chat:
    while True:
        first = Tool(rng.choice(wants()), rng)
        texts = first.texts()
        if texts:
            break
    text = rng.choice(texts)
    tools = {first.name: first}
    for want in _rivals(first.want, text, rng.choice((2, 2, 3, 3, 4, 5, 6, 7)), rng):
        one = Tool(want, rng)
        tools.setdefault(one.name, one)
    described = rng.random() < 0.35
    shown = {name: one.signature(described, rng) for name, one in tools.items()}
    order = {name: list(one["function"]["parameters"]["properties"]) for name, one in shown.items()}
    turns: list[Turn] = []
    if rng.random() < 0.03:  # what is asked for is not there
        taken_domains = {one.want.domain for one in tools.values()}
        strange = [one for one in wants() if one.domain not in taken_domains]
        if strange:
            other = Tool(rng.choice(strange), rng)
            plainly = [each for each in other.want.texts if each not in other.want.terse]
            turns += [Turn("user", other.call(rng.choice(plainly), rng)[0]), Turn("assistant", NONE)]
    turns += _turns(first, text, order[first.name], rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        one = rng.choice(list(tools.values()))
        plainly = [each for each in one.texts() if each not in one.want.terse]
        if plainly:
            turns += _turns(one, rng.choice(plainly), order[one.name], rng)
    opening = system(rng) if rng.random() < 0.2 else ""
    return Chat(turns, "wide_wants", (), opening, rng.sample(list(shown.values()), len(shown)), expect=None)


# -- what a word is

OF_KIND = lines(
    "{w}_guide|{w}_facts|about_{w}|{w}_lexicon|{w}_expert|ask_{w}_club|{w}_encyclopedia|{w}_desk|look_into_{w}|{w}_museum|{w}_experts|{w}_notes"
)
ABOUT_KIND = lines(
    "All about {s}|Knows every {w}|For questions on {s}|Information about {s}|Ask here about any {w}|The {w} desk|{s}|Helps with {s}"
)
ASKED = [text for text in lines(wide_wants_words.PLAIN_KINDS.strip()) if text]
KEYS = lines("name|which|which_one|entry|query|keyword|subject|word|term")


@cache
def known() -> list[wide_spans.Kind]:
    """WordNet's kinds, with the members that do not say what they are."""
    found = []
    for name in wide_wants_words.KNOWN.split(","):
        members = [one for one in wide_kinds.kinds().get(name, ()) if name.split(" ")[-1] not in one]
        members = [one for one in members if not set(one.split()) & wide_world.NEVER]
        names = tuple(free([name.replace(" ", "_"), f"kind_of_{name.replace(' ', '_')}"]))
        if len(members) > 3 and names:
            found.append(wide_spans.Kind(names, name, True, "o", tuple(members), ()))
    return found


def _kinds(rng: Random) -> list[wide_spans.Kind]:
    """Some kinds, none of which is of another or has most of its members."""
    pool = known() if rng.random() < 0.4 and len(known()) > 8 else list(kinds().values())
    picked: list[wide_spans.Kind] = []
    for one in rng.sample(pool, min(len(pool), rng.choice((3, 3, 4, 5, 6, 8)))):
        mine = {*one.members, *one.word.split(" ")}
        if not any(len(mine & {*each.members, *each.word.split(" ")}) > 1 for each in picked) or pool is not known():
            picked.append(one)
    return picked


def kind_call(rng: Random) -> Chat:
    """One desk for every kind, and a word that is of one of them."""
    picked = _kinds(rng)
    form, about = rng.choice(OF_KIND), rng.choice(ABOUT_KIND)
    mixed = rng.random() < 0.4
    key = rng.choice(free(KEYS))
    shown, names = [], []
    for kind in picked:
        word = kind.word.split(" ")[-1] if kind.word.startswith("piece") else kind.word.replace(" ", "_")
        name = (rng.choice(OF_KIND) if mixed else form).replace("{w}", word)
        name = name if not taken(name) else f"{word}_and_more"
        text = (rng.choice(ABOUT_KIND) if mixed else about).replace("{w}", kind.word).replace("{s}", many(kind.word))
        argument = rng.choice(kind.names) if mixed and rng.random() < 0.5 else key
        parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
        shown.append({"type": "function", "function": {"name": name, "description": capital(text), "parameters": parameters}})  # fmt: skip
        names.append((name, argument))
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        at = rng.randrange(len(picked))
        others = {each for kind in picked if kind is not picked[at] for each in (*kind.members, *kind.rarer)}
        member = rng.choice([each for each in picked[at].members if each not in others])
        shows = facts.an(member) if picked[at].counted and rng.random() < 0.4 else member
        said = _small(wide_world._mood(rng.choice(ASKED).replace("{x}", shows), "", rng), member, rng)
        turns += [Turn("user", said), Turn("assistant", calls=[(names[at][0], {names[at][1]: member})])]
        if rng.random() < 0.2:
            turns += [Turn("tool", '{"status": "ok"}'), Turn("assistant", rng.choice(DONE))]
    return Chat(turns, "wide_wants", (), system(rng) if rng.random() < 0.15 else "", rng.sample(shown, len(shown)), expect=None)  # fmt: skip


# -- what is done with it

DEEDS = [[part.split(at) for part, at in zip(row.split("|"), " ;;", strict=True)] for row in wide_wants_more.DEEDS.strip().splitlines()]  # fmt: skip


def deed_call(rng: Random) -> Chat:
    """A few deeds with a few kinds: what is said tells the deed, the word tells the kind."""
    pool = [one for one in kinds().values() if one.counted and one.sort in "oap"]
    picked, deeds = rng.sample(pool, rng.choice((1, 2, 2, 3))), rng.sample(DEEDS, rng.choice((2, 2, 3)))
    pairs = [(deed, kind) for deed in deeds for kind in picked]
    style = rng.choice(("snake", "snake", "camel", "pascal"))
    tools: dict[str, tuple[list[list[str]], wide_spans.Kind, str]] = {}
    shown = []
    for deed, kind in rng.sample(pairs, min(len(pairs), rng.choice((3, 4, 5, 6, 8)))):
        word = kind.word.split(" ")[-1]
        name = wide_near.written_free(f"{rng.choice(deed[0])}_{word}", style)
        if taken(name):
            continue
        key = rng.choice((*kind.names, *free(KEYS)))
        about = rng.choice(deed[1]).replace("{s}", many(kind.word))
        parameters = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
        shown.append({"type": "function", "function": {"name": name, "description": capital(about), "parameters": parameters}})  # fmt: skip
        tools[name] = deed, kind, key
    if len(tools) < 2:
        return deed_call(rng)
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(list(tools))
        deed, kind, key = tools[name]
        others = {each for one in picked if one is not kind for each in (*one.members, *one.rarer)}
        member = rng.choice([each for each in kind.members if each not in others])
        text = wide_world._bent(rng.choice(deed[2]), rng).replace("a {x}", "{a}")
        said = wide_world._mood(text.replace("{a}", facts.an(member)).replace("{x}", member), "", rng)
        turns += [Turn("user", _small(said, member, rng)), Turn("assistant", calls=[(name, {key: member})])]
        if rng.random() < 0.2:
            turns += [Turn("tool", '{"ok": true}'), Turn("assistant", rng.choice(DONE))]
    return Chat(turns, "wide_wants", (), system(rng) if rng.random() < 0.15 else "", rng.sample(shown, len(shown)), expect=None)  # fmt: skip


def draw(rng: Random) -> Chat:
    return rng.choices((tool_call, kind_call, deed_call), (66, 17, 17))[0](rng)
