"""The value is the member of the key's kind, and not the word beside it: not the measure, not the adjective, not the role.

So much of something, persons with what they do, sides that play, trips, tests; and true or false by a clause that says how it ended.
The words are in `wide_scraps`; no key is the examiner's (`held_words`).
"""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_copy, wide_keyed, wide_kinds, wide_prompted, wide_scraps
from training.data_chat import Chat
from training.held_words import free, plain, taken
from training.wide_facts import capital
from training.wide_fields import many
from training.wide_prompted import Form
from training.wide_talk import lines, spelled

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+2?)(\.a)?\}")


@dataclass(frozen=True)
class Goods:
    names: tuple[str, ...]
    counted: bool
    members: tuple[str, ...]
    boxes: tuple[str, ...]
    adjectives: tuple[str, ...]
    done: tuple[str, ...]

    def draw(self, rng: Random) -> str:
        """A member; one in six is a word that nobody knows."""
        word = wide_copy.bent(rng.choice(self.members).split(" ")[0], rng) if rng.random() < 0.5 else wide.made_up(rng)
        member = word if rng.random() < 0.17 else rng.choice(self.members)
        return many(member) if self.counted else member


@cache
def goods() -> list[Goods]:
    found = []
    for line in wide_scraps.GOODS.strip().splitlines():
        names, kind, *parts = line.split("|")
        kept = tuple(free(names.split()))
        if kept:
            members, boxes, adjectives, done = (tuple(part.split(",")) for part in parts)
            found.append(Goods(kept, kind == "c", members, boxes, adjectives, done))
    return found


@dataclass(frozen=True)
class Scene:
    theme: str
    text: str
    names: dict[str, tuple[str, ...]]

    @property
    def holes(self) -> list[str]:
        return list(dict.fromkeys(found[1] for found in HOLE.finditer(self.text)))


@cache
def scenes() -> list[Scene]:
    found = []
    for line in wide_scraps.SCENES.strip().splitlines():
        theme, text, names = line.split("|")
        parts = (part.partition(":") for part in names.split(";") if part)
        found.append(Scene(theme, text, {hole: tuple(given.split()) for hole, _, given in parts}))
    return found


@dataclass(frozen=True)
class End:
    themes: str
    so: tuple[str, ...]
    not_so: tuple[str, ...]
    yes: tuple[str, ...]
    no: tuple[str, ...]

    @property
    def wet(self) -> bool:
        """Rain is told in the same words whatever it fell on: one of these is enough."""
        return bool(re.search("rain|dry|wet|umbrella", " ".join((*self.yes, *self.no))))


@cache
def ends() -> list[End]:
    found = []
    for line in wide_scraps.ENDS.strip().splitlines():
        themes, so, not_so, yes, no = line.split("|")
        found.append(
            End(
                themes,
                tuple(free(so.split())),
                tuple(free(not_so.split())),
                tuple(yes.split(";")),
                tuple(no.split(";")),
            )
        )
    return [one for one in found if one.so or one.not_so]


# -- values


def _team(rng: Random) -> str:
    end = rng.choice(wide_scraps.TEAM_ENDS)
    draw = rng.random()
    if draw < 0.45:
        return f"{wide.town(rng).split(' ')[0]} {end}"
    if draw < 0.75:
        return f"{capital(rng.choice((wide.colour(rng).split(' ')[-1], wide.adjective(rng), wide.made_up(rng))))} {end}"
    return capital(wide.made_up(rng)) if draw < 0.9 else f"SC {capital(wide.made_up(rng))}"


def _firm(rng: Random) -> str:
    return rng.choice(
        (
            f"{wide.last_name(rng)} {rng.choice(('& Sons', 'Brothers', 'Works', 'Trading', 'Supplies', 'Mills'))}",
            f"{capital(wide.made_up(rng))} {rng.choice(('Ltd', 'Inc', 'AG', 'Foods', 'Transport'))}",
            f"{wide.last_name(rng)} and {wide.last_name(rng)}",
            capital(wide.made_up(rng)),
        )
    )


def _title(rng: Random) -> str:
    return " ".join(
        map(
            capital,
            rng.choice((f"the {wide.phrase(rng)}", wide.phrase(rng), f"{wide.noun(rng)} and {wide.noun(rng)}")).split(),
        )
    )


def _name(rng: Random) -> str:
    return wide.first_name(rng) if rng.random() < 0.35 else f"{wide.first_name(rng)} {wide.last_name(rng)}"


VALUES: dict[str, Callable[[Random], str]] = {
    "p": _name, "town": wide.town, "date": wide.date, "time": wide.clock, "firm": _firm, "team": _team, "show": _title,
    "weekday": lambda rng: rng.choice(facts.DAYS), "role": lambda rng: rng.choice(wide_scraps.ROLES),
    "relative": lambda rng: rng.choice(wide_scraps.RELATIVES), "device": lambda rng: rng.choice(wide_scraps.DEVICES),
    "ride": lambda rng: rng.choice(wide_scraps.RIDES), "food": lambda rng: rng.choice(wide_scraps.FOODS),
    "part": lambda rng: rng.choice(wide_scraps.PARTS), "verb": lambda rng: rng.choice(wide_scraps.VERBS),
    "cup": lambda rng: rng.choice(wide_scraps.CUPS), "peak": lambda rng: f"{rng.choice(('Mount', 'Piz', 'Monte'))} {capital(wide.made_up(rng))}",
    "ailment": lambda rng: rng.choice(wide_scraps.AILMENTS), "subject": lambda rng: rng.choice(wide_scraps.SUBJECTS), "phone": lambda rng: f"{rng.randint(100, 999)}-{rng.randint(0, 9999):04}",
    "offence": lambda rng: rng.choice(wide_scraps.OFFENCES), "plan": lambda rng: rng.choice(wide_scraps.PLANS), "pet": wide.first_name,
    "creature": lambda rng: rng.choice(wide_scraps.CREATURES), "place": lambda rng: rng.choice(wide_scraps.PLACES),
    "ware": lambda rng: rng.choice(wide_scraps.WARES), "color": lambda rng: rng.choice(wide_scraps.COLORS), "brand": lambda rng: capital(wide.made_up(rng)),
    "ship": lambda rng: rng.choice((capital(wide.made_up(rng)), _title(rng).removeprefix("The "), wide.first_name(rng))),
}  # fmt: skip
NAMES: dict[str, tuple[str, ...]] = {
    "box": ("unit", "container", "packaging", "packing", "packed_in", "measure", "unit_of_measure", "holder_type", "comes_in", "measured_in"),
    "adj": ("looks", "how_it_is", "quality_word", "described_as", "attribute"),
    "done": ("done_to_it", "treatment_word", "what_was_done"), "verb": ("action_done", "what_was_done", "did_what"),
    "town": ("town", "place", "location", "town_name", "which_town", "where", "locality", "at_place"), "date": ("date", "day", "day_given", "on_date", "when", "dated"),
    "time": ("time", "time_given", "clock_time", "at_time"), "weekday": ("weekday", "day_of_week"), "firm": ("firm", "company", "firm_name"),
    "p": ("name", "person", "who", "person_name"), "role": ("role", "job", "position_held", "works_as", "duty_title"), "year": ("year", "year_given", "in_year"),
    "ride": ("means",), "relative": ("kinship",),
}  # fmt: skip
SPANS = {"year": (1900, 2030), "goals": (4, 9), "few": (1, 3), "high": (800, 4800), "min": (5, 90)}
NUMBERS = ("n", "m", *SPANS)
TITLES = {
    "g": "load stock goods_entry batch", "o": "staff_note person contact_card", "s": "match_report game fixture", "t": "trip voyage journey_note", "x": "test_run trial", "w": "show stage_note",
    "k": "kitchen_note food_entry", "b": "ware_card product_note", "m": "patient_note ward_entry", "l": "exam_note class_entry", "r": "repair_job fix_note", "j": "court_case hearing",
    "v": "vote ballot_note", "a": "animal_case rescue_note", "f": "fire_report blaze",
}  # fmt: skip
PLAIN = ("record", "entry", "note", "report", "card", "item", "extract", "row", "case", "event")
FOOD = {"fruit_kind", "nut_kind", "spice_kind", "cheese_kind", "sweet_kind", "vegetable_kind"}
ANYTHING = ("product", "item", "goods", "what", "article", "merchandise", "stuff", "what_it_is", "thing_named")
COUNTED = lines(
    "{b}|number_of_{b}|{b}_count|total_{b}|no_of_{b}|how_many_{b}|{b}_total|{b}_no|n_{b}|count_of_{b}|qty|quantity_given|how_many|quantity|amount|count"
)


def _decorated(base: str, kind: str, rng: Random) -> str:
    """A name with a word more, in one of eight."""
    if rng.random() > 0.13:
        return base
    word = rng.choice(wide_copy._words()["noun"])
    if kind == "string":
        return rng.choice(
            (f"{base}_given", f"the_{base}", f"{word}_{base}", f"which_{base}", f"{base}_here", f"noted_{base}")
        )
    return rng.choice((f"{word}_{base}", f"the_{base}", f"{base}_here"))


@dataclass(frozen=True)
class PickForm(Form):
    """A form of `wide_prompted`: the same names and types each time it is told."""

    scene: Scene | None = None
    asked: tuple[tuple[str, str], ...] = ()  # a place of the sentence, and the name of its value
    ending: tuple[tuple[str, End, bool], ...] = ()  # a name, what it is about, whether it is named after what is so
    goods: tuple[Goods, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()  # places that a name goes by

    def told(self, rng: Random) -> tuple[str, Json]:
        assert self.scene is not None
        found: Json = dict(self.fixed)
        first, second = self.goods
        for hole in self.scene.holes:
            base, two = hole.rstrip("2"), hole.endswith("2")
            kind = second if two else first
            if hole in found:
                continue
            if base == "what":
                found[hole] = kind.draw(rng)
            elif base in ("box", "adj", "done"):
                pool = {"box": kind.boxes, "adj": kind.adjectives, "done": kind.done}[base]
                found[hole] = rng.choice([each for each in pool if each not in found.values()])
            elif base in NUMBERS:
                found[hole] = rng.randint(*SPANS.get(base, (2, rng.choice((9, 40, 99, 900)))))
                while found[hole] in [value for at, value in found.items() if at != hole]:
                    found[hole] += 1
            elif base == "price":
                found[hole] = round(rng.uniform(0.5, 400), rng.choice((1, 2)))
            else:
                while hole not in found or list(found.values()).count(found[hole]) > 1:
                    found[hole] = VALUES[base](rng)
        if "m" in found and "n" in found and ("of them" in self.scene.text or "only {m}" in self.scene.text):
            found["n"], found["m"] = max(found["n"], found["m"]), min(found["n"], found["m"])
        shown = {
            hole: spelled(value) if isinstance(value, int) and value < 13 and rng.random() < 0.15 else str(value)
            for hole, value in found.items()
        }
        text = HOLE.sub(lambda hole: facts.an(shown[hole[1]]) if hole[2] else shown[hole[1]], self.scene.text)
        values = {name: found[hole] for hole, name in self.asked}
        clauses = []
        for name, end, straight in self.ending:
            yes = rng.random() < 0.5
            values[name] = yes == straight
            clauses.append(rng.choice(end.yes if yes else end.no))
        return _text(text, clauses, rng), {name: values[name] for name in self.values}


JOINTS = (", and ", ", but ", "; ", " - ", ", ")
LABELS = lines(
    "note|log|from the diary|voice mail|memo|report|entry {n}|news|overheard|page {n}|for the file|to all|status"
)


def _text(first: str, clauses: list[str], rng: Random) -> str:
    """The sentence, and how it ended in it, behind it or before it."""
    text = capital(first) if rng.random() < 0.92 else first
    if clauses and rng.random() < 0.4:
        text += rng.choice(JOINTS) + clauses.pop()
    text += "."
    for clause in clauses:
        text = f"{text} {capital(clause)}." if rng.random() < 0.8 else f"{capital(clause)}. {text}"
    draw = rng.random()
    if draw < 0.12:
        text = f"{capital(rng.choice(LABELS).format(n=rng.randint(1, 99)))}: {text}"
    elif draw < 0.22:
        text = rng.choice((f"{rng.choice(wide_kinds.NOISE)} {text}", f"{text} {rng.choice(wide_kinds.NOISE)}"))
    elif draw < 0.3:
        text = text.rstrip(".")
    return text


def form(rng: Random, styles: tuple[str, ...] = ("snake", "snake", "camel", "kebab", "pascal")) -> PickForm:
    scene = rng.choice(scenes())
    first = rng.choice(
        [
            one
            for one in goods()
            if (one.counted or "c" not in scene.theme) and ("k" not in scene.theme or set(one.names) & FOOD)
        ]
    )
    second = rng.choice(
        [one for one in goods() if not set(one.names) & set(first.names) and not set(one.boxes) & set(first.boxes)]
    )
    style, pools = rng.choice(styles), (first, second)
    fixed: dict[str, str] = {}
    values: dict[str, Json] = {}
    asked: list[tuple[str, str]] = []
    holes = scene.holes

    def take(bases: tuple[str, ...], kind: str) -> str:
        for base in rng.sample(bases, len(bases)):
            name = wide_copy.written(_decorated(base, kind, rng).replace("-", "_").replace(" ", "_").split("_"), style)
            if not taken(name) and plain(name) not in map(plain, values):
                return name
        return ""

    for hole in rng.sample(holes, len(holes)):
        base, kind = hole.rstrip("2"), pools[hole.endswith("2")]
        if rng.random() < (
            0.06 if base in ("what", "n", "team", "p") else 0.62 if base in ("adj", "done", "verb", "box") else 0.25
        ):
            continue
        if base == "box" and "box2" in holes:  # whose?
            continue
        number = base in NUMBERS
        names = scene.names.get(hole, kind.names if base == "what" else NAMES.get(base, ()))
        if hole == "what" and "what2" not in holes and rng.random() < 0.12:
            names = ANYTHING
        if hole == "n" and hole not in scene.names:
            box = next((each for each in ("box", "box2", "what") if each in holes), "")
            if box not in ("", "what"):  # the name goes by what they come in
                fixed.setdefault(box, rng.choice(pools[box.endswith("2")].boxes))
                names = tuple(each.replace("{b}", fixed[box]) for each in COUNTED)
            else:
                names = ("how_many", "qty", "head_count", "number_given", "counted_total")
        if "{" in " ".join(names):
            for each in ("role", "box2"):
                if f"{{{each}}}" in " ".join(names):
                    fixed.setdefault(each, rng.choice(second.boxes) if each == "box2" else VALUES[each](rng))
                    names = tuple(one.replace(f"{{{each}}}", fixed[each]) for one in names)
        if base == "p" and hole not in scene.names and "role" in holes and rng.random() < 0.75:
            fixed.setdefault("role", VALUES["role"](rng))
            names = (fixed["role"], f"{fixed['role']}_name")
        type_ = "integer" if number else "number" if base == "price" else "string"
        name = take(names, type_)
        if name:
            asked.append((hole, name))
            values[name] = {"type": type_}
    ending: list[tuple[str, End, bool]] = []
    theme = scene.theme[-1]
    for _ in range(rng.choice((0, 1, 1, 2))):
        pool = [one for one in ends() if theme in one.themes and all(one is not each for _, each, _ in ending)]
        if any(each.wet for _, each, _ in ending):
            pool = [one for one in pool if not one.wet]
        own = [one for one in pool if len(one.themes) < 4]
        end = rng.choice(own if own and rng.random() < 0.6 else pool)
        straight = bool(end.so) and (rng.random() < 0.6 or not end.not_so)
        name = take(end.so if straight else end.not_so, "boolean")
        if name:
            ending.append((name, end, straight))
            values[name] = {"type": "boolean"}
    if not values:
        return form(rng, styles)
    if rng.random() < 0.4:  # not all that is told is wanted
        kept = rng.sample(list(values), min(len(values), rng.choice((1, 2, 2, 3, 3))))
        values = {name: values[name] for name in values if name in kept}
        asked = [(hole, name) for hole, name in asked if name in kept]
    order = rng.sample(list(values), len(values)) if rng.random() < 0.6 else list(values)
    title = "".join(map(capital, rng.choice(TITLES[theme].split() if rng.random() < 0.6 else PLAIN).split("_")))
    return PickForm(
        title,
        {name: values[name] for name in order},
        None,
        {},
        (),
        scene,
        tuple(asked),
        tuple(ending),
        pools,
        tuple(fixed.items()),
    )


def drawn(rng: Random) -> wide_kinds.Drawn:
    """As the records of `wide_kinds`."""
    one = form(rng)
    text, values = one.told(rng)
    verb = rng.choice(("add", "save", "log", "record", "store", "file", "note", "submit"))
    return wide_kinds.Drawn(text, text, f"{verb}_{plain(one.name)}", values, values)


TYPES = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}


def of_form(one: Form, rng: Random) -> Chat:
    """The keys stand in the prompt, in any manner and any mood (`wide_copy`)."""
    text, values = one.told(rng)
    return wide_copy.answered(text, values, rng, [TYPES[each["type"]] for each in one.values.values()])


def keyed(rng: Random) -> Chat:
    return of_form(form(rng, wide_copy.STYLES), rng)


def draw(rng: Random) -> Chat:
    how = rng.random()
    if how < 0.5:
        return keyed(rng)
    if how < 0.72:
        return wide_kinds.json_answer(rng, drawn(rng))
    return wide_prompted.json_answer(rng, form(rng)) if how < 0.86 else wide_keyed.json_answer(rng, form(rng))
