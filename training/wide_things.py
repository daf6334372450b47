"""Things with properties (`wide_clauses`): texts about them with records for JSON, and facts to be found and asked for."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_clauses, wide_kinds
from training.wide_facts import asked_for, capital, framed, yes_no
from training.wide_long import joined
from training.wide_prompted import Form
from training.wide_relations import LEADS
from training.wide_talk import lines

FOOD = facts.FOODS + facts.FRUITS + facts.VEGETABLES
MORE: dict[str, wide_kinds.Draw] = {
    "Q": lambda rng: rng.choice(FOOD), "N": wide.noun, "D": lambda rng: str(rng.randint(1000, 99999)),
    "g": lambda rng: " ".join(map(capital, rng.choice((wide.made_up(rng), wide.phrase(rng), f"{wide.last_name(rng)} {wide.noun(rng)}", wide.noun(rng))).split())),
}  # fmt: skip


@dataclass(frozen=True)
class Property:
    kinds: str
    names: tuple[str, ...]
    how: wide_kinds.Draw | None  # None: true or false
    clauses: tuple[str, ...]  # of what is true or false: both, with `/` between them
    questions: tuple[str, ...]
    whole: bool = False
    choices: tuple[str, ...] = ()

    def value(self, rng: Random) -> Any:
        return rng.random() < 0.5 if self.how is None else self.how(rng)

    def clause(self, value: Any, rng: Random, at: int = -1) -> str:
        """With `{s}` still in it."""
        form = self.clauses[at] if at >= 0 else rng.choice(self.clauses)
        if self.how is None:
            return form.split("/")[0 if value else 1]
        return form.replace("{v}", self.said(value, rng) if at < 0 else str(value))

    def said(self, value: Any, rng: Random) -> str:
        slot = wide_kinds.Slot(self.names, self.how or wide.noun, self.whole)
        return wide_kinds.told(value, slot, rng)


@cache
def properties() -> dict[str, list[Property]]:
    found: dict[str, list[Property]] = {}
    for line in wide_clauses.LINES.strip().splitlines():
        told, _, asked = line.partition("? ")
        kinds, _, told = told.partition("|")
        head, _, rest = told.partition("=")
        names = tuple(head.split())
        if rest.startswith("b "):
            one = Property(kinds, names, None, tuple(rest[2:].split("|")), tuple(asked.split("|")))
        else:
            how, _, clauses = rest.partition(": ")
            slot = wide_kinds.Slot(names, MORE[how]) if how in MORE else wide_kinds._slot(f"a: {head}={how}")[1]
            draw = slot.how
            assert not isinstance(draw, wide_kinds.Yes)
            one = Property(
                kinds, names, draw, tuple(clauses.split("|")), tuple(asked.split("|")), slot.whole, slot.choices
            )
        for kind in kinds:
            found.setdefault(kind, []).append(one)
    return found


NOUNS = {
    "P": "person", "B": "museum tower hotel school library factory castle chapel theater stadium warehouse clinic villa mill",
    "V": "tractor van drone printer excavator robot pump crane mixer generator truck lathe loom sawmill kiln", "A": "animal creature",
    "O": "article item product piece thing", "E": "concert fair workshop auction lecture festival parade exhibition gala",
    "C": "company firm business enterprise", "D": "novel film song play report poem album essay", "T": "town city village place",
    "F": "dish meal recipe", "R": "trip journey tour booking", "I": "case ticket report incident", "L": "course class lesson seminar",
    "M": "match game final", "N": "lake cave waterfall glacier gorge lagoon reef canyon", "G": "club band orchestra troop circle league society",
    "Y": "plant flower shrub bush", "S": "shop store bakery boutique kiosk", "W": "painting picture canvas", "H": "flat apartment studio cottage",
    "J": "job position post", "U": "program app library tool",
}  # fmt: skip
CALLED = {
    "P": "name full_name person who", "B": "building name place", "V": "machine name unit", "A": "name animal_name called", "O": "item product article",
    "E": "event name title", "C": "company name firm", "D": "title name work", "T": "town city place name", "F": "dish name meal", "R": "booking trip id",
    "I": "ticket case id", "L": "course title name", "M": "match game name",
    "N": "name place site", "G": "group name club", "Y": "plant name flower", "S": "shop name store", "W": "painting title name", "H": "flat apartment name",
    "J": "job position title", "U": "program name app",
}  # fmt: skip
CLASSES = {
    "P": "Person Contact", "B": "Building Site", "V": "Machine Device", "A": "Animal Pet", "O": "Product Item Article", "E": "Event", "C": "Company Firm",
    "D": "Work Publication", "T": "Town City", "F": "Dish Recipe", "R": "Trip Booking Journey", "I": "Ticket Case Incident", "L": "Course Lesson", "M": "Match Game",
    "N": "Place Landmark", "G": "Group Club", "Y": "Plant", "S": "Shop Store", "W": "Painting Artwork", "H": "Flat Apartment", "J": "Job Vacancy", "U": "Program Software",
}  # fmt: skip
SUFFIX = ("", " Ltd", " Inc", " & Sons", " Works", " Group", " Brothers", " AG")


@dataclass(frozen=True)
class Thing:
    kind: str
    name: str
    noun: str
    pronoun: str

    def again(self, rng: Random) -> str:
        """How a later sentence calls it."""
        draw = rng.random()
        if draw < 0.55:
            return self.pronoun
        return f"the {self.noun}" if draw < 0.8 and self.kind != "P" else self.name


def thing(rng: Random, kind: str = "") -> Thing:
    kind = kind or rng.choice(list(NOUNS))
    noun = rng.choice(NOUNS[kind].split())
    pronoun = rng.choice(("he", "she")) if kind == "P" else "it"
    if kind == "P":
        name = f"{wide.first_name(rng)} {wide.last_name(rng)}" if rng.random() < 0.7 else wide.person(rng)
    elif kind == "B":
        name = rng.choice((wide.site(rng), f"the {noun} of {wide.town(rng)}", f"the {wide.last_name(rng)} {noun}"))
    elif kind == "A":
        name = wide.first_name(rng)
    elif kind == "T":
        name = wide.town(rng)
    elif kind == "C":
        name = MORE["g"](rng) + rng.choice(SUFFIX)
    elif kind == "U":
        name = capital(wide.made_up(rng)) if rng.random() < 0.6 else MORE["g"](rng)
    elif kind in "DW":
        title = " ".join(
            map(capital, rng.choice((wide.phrase(rng), f"the {wide.phrase(rng)}", wide.thing(rng))).split())
        )
        name = f'"{title}"' if rng.random() < 0.6 else title
    elif kind in "VRILJ":
        name = rng.choice(
            (
                f"{noun} {wide.code(rng)}",
                f"the {wide.adjective(rng)} {noun}",
                f"{noun} {rng.randint(2, 999)}",
                f"the {noun} {wide.code(rng)}",
            )
        )
    elif kind in "EMNGSH":
        name = rng.choice(
            (f"the {wide.town(rng)} {noun}", f"the {wide.last_name(rng)} {noun}", f"the {wide.adjective(rng)} {noun}")
        )
    else:
        name = f"the {wide.phrase(rng)}"
    return Thing(kind, name, noun, pronoun)


# -- a text about a thing


def _sentences(one: Thing, clauses: list[str], rng: Random) -> str:
    """The clauses in one of the ways that people put them together."""
    draw = rng.random()
    starts = [clause for clause in clauses if clause.startswith("{s} ")]
    if draw < 0.3 and len(starts) > 1:  # one subject for several
        rest = [clause for clause in clauses if clause not in starts]
        tails = [clause[4:] for clause in starts]
        first = rng.choice(
            (
                f"{one.name} {joined(tails)}",
                f"{one.name} {', '.join(tails[:-1])}, and {tails[-1]}",
                f"{one.name}, {'who' if one.kind == 'P' else 'which'} {tails[0]}, {joined(tails[1:])}",
            )
        )
        return " ".join([capital(first) + ".", *(_said(clause, one.again(rng)) for clause in rest)])
    if draw < 0.4:
        dash = rng.choice(("- ", "* ", "", "> "))
        return f"{capital(one.name)}\n" + "\n".join(dash + _said(clause, one.again(rng)) for clause in clauses)
    if draw < 0.5:
        return (
            capital(
                "; ".join(clause.format(s=one.name if at == 0 else one.again(rng)) for at, clause in enumerate(clauses))
            )
            + "."
        )
    said = [_said(clause, one.name if at == 0 else one.again(rng)) for at, clause in enumerate(clauses)]
    if rng.random() < 0.12:
        said.insert(rng.randint(0, len(said)), rng.choice(wide_kinds.NOISE))
    return " ".join(said)


def _said(clause: str, name: str) -> str:
    return capital(clause.format(s=name)) + "."


def _notes(one: Thing, pairs: list[tuple[Property, str, Any]], rng: Random) -> str:
    """As notes: what it is called, and each value behind its name in words."""
    sign = rng.choice((": ", " = ", " ", " - ", ": "))
    parts = []
    for prop, name, value in pairs:
        said = ("yes" if value else "no") if prop.how is None else prop.said(value, rng)
        parts.append(f"{rng.choice((name, *prop.names)).replace('_', ' ').replace('-', ' ')}{sign}{said}")
    joint = rng.choice((", ", "; ", "\n", " | "))
    return f"{capital(one.name)}{rng.choice((': ', ' - ', chr(10), ', '))}{joint.join(parts)}"


@dataclass(frozen=True)
class ThingForm(Form):
    """A form of `wide_prompted` whose texts are about things of a kind."""

    kind: str = ""
    called: str = ""  # the value that holds the thing's name
    props: tuple[tuple[str, Property], ...] = ()
    silent: tuple[Property, ...] = ()  # told, and not asked for

    def told(self, rng: Random) -> tuple[str, dict[str, Any]]:
        one = thing(rng, self.kind)
        pairs = [(prop, name, self._value(name, prop, rng)) for name, prop in self.props]
        extra = [(prop, prop.names[0], prop.value(rng)) for prop in self.silent]
        both = [*pairs, *extra]
        rng.shuffle(both)
        if rng.random() < 0.12:
            text = _notes(one, both, rng)
        else:
            text = _sentences(one, [prop.clause(value, rng) for prop, _, value in both], rng)
        known = {name: value for _, name, value in pairs} | {self.called: bare(one.name)}
        return text, {name: known[name] for name in self.values}

    def _value(self, name: str, prop: Property, rng: Random) -> Any:
        return rng.choice(self.values[name]["enum"]) if "enum" in self.values[name] else prop.value(rng)


def bare(name: str) -> str:
    return name.strip('"').removeprefix("the ")


def form(rng: Random) -> ThingForm:
    kind = rng.choice(list(NOUNS))
    known = properties()[kind]
    chosen = rng.sample(known, min(len(known), rng.choice((1, 2, 2, 3, 3, 4, 5))))
    style = rng.choice((0, 0, 0, 0, 1, 2))
    named: dict[str, Property] = {}
    for prop in chosen:
        free = [name for name in prop.names if wide_kinds.styled(name, style) not in named]
        if free:
            named[wide_kinds.styled(rng.choice(free), style)] = prop
    silent = [
        prop for prop in known if prop not in chosen and not any(set(prop.names) & set(one.names) for one in chosen)
    ]
    silent = [prop for prop in silent if not _alike(prop, chosen)]
    silent = rng.sample(silent, min(len(silent), rng.choice((0, 0, 1, 2))))
    called = next((name for name in rng.sample(CALLED[kind].split(), 2) if name not in named), "")
    names = list(named)
    if called and rng.random() < 0.6:
        names.insert(0 if rng.random() < 0.7 else rng.randint(0, len(names)), called)
    if rng.random() < 0.5:
        rng.shuffle(names)
    values: dict[str, dict[str, Any]] = {}
    for name in names:
        own = named.get(name)
        values[name] = {"type": "string"} if own is None else wide_kinds.type_of(own.value(rng))
        if own is not None and own.choices and rng.random() < 0.4:
            values[name] = {"type": "string", "enum": rng.sample(own.choices, rng.randint(3, len(own.choices)))}
    if not values:
        return form(rng)
    title = rng.choice(CLASSES[kind].split())
    return ThingForm(title, values, None, {}, (), kind, called, tuple(named.items()), tuple(silent))


def _alike(prop: Property, chosen: list[Property]) -> bool:
    """Whether somebody might take one for the other: both are persons, towns or dates that a clause does not tell apart."""
    return any(prop.how is not None and prop.how is one.how for one in chosen)


def drawn(rng: Random) -> wide_kinds.Drawn:
    """As the records of `wide_kinds`."""
    one = form(rng)
    text, values = one.told(rng)
    return wide_kinds.Drawn(text, text, f"add_{one.name.lower()}", values, values)


# -- facts to be found


INTRO = lines("""Let me tell you about {k}.|Do you remember {k}?|Then there is {k}.|About {k}:|I have news of {k}.|{k} came up again today.|People talk a lot about {k}.|We also spoke of {k}.|My next point is {k}.|A word on {k}.|You asked about
{k}.|Everybody here knows {k}.|Take {k}, for example.|And what about {k}?|I looked into {k}.|Somebody mentioned {k}.|They wrote about {k}.|On to {k}.|{k} is another matter.|I should not forget {k}.""")


@dataclass(frozen=True)
class Owned:
    """A property of a thing, told and asked for as the facts of `wide_facts` are."""

    thing: Thing
    prop: Property
    value: str

    relation = 0
    attribute = ""

    @property
    def key(self) -> str:
        return self.thing.name

    @property
    def about(self) -> tuple[str, str]:
        return self.key, self.prop.names[0]

    def _form(self, value: str, at: int) -> str:
        return self.prop.clause(value, Random(0), at).format(s=self.key)

    @property
    def answer(self) -> str:
        return capital(self._form(self.value, 0)) + "."

    def told(self, rng: Random) -> str:
        at = rng.randrange(len(self.prop.clauses))
        if rng.random() < 0.2:  # named in one sentence, told in the next
            clause = self.prop.clause(self.value, rng, at).format(s=self.thing.pronoun)
            return f"{capital(rng.choice(INTRO).format(k=self.key))} {capital(clause)}."
        return framed(self._form(self.value, at), rng)

    def asked(self, rng: Random) -> tuple[str, str]:
        text = rng.choice(self.prop.questions).format(k=self.key)
        if rng.random() < 0.12:
            name = self.prop.names[0].replace("_", " ")
            text = rng.choice(("{n} of {k}", "tell me the {n} of {k}", "I need the {n} of {k}", "{k}: {n}")).format(
                n=name, k=self.key
            )
        question, answer = asked_for(text, self.answer, self.value, (self.key,), rng)
        return (f"{rng.choice(LEADS)} {question}" if rng.random() < 0.1 else question), answer

    def yes_or_no(self, rng: Random, other: str) -> tuple[str, str, bool]:
        right = rng.random() < 0.5
        value = self.value if right else other
        plain, said = self._form(value, 0), self._form(value, rng.randrange(len(self.prop.clauses)))
        frame = rng.choice(
            lines(
                "is it right that {}|is it so that {}|would you say that {}|does it say that {}|{}, yes or no|{}, correct"
            )
        )
        return yes_no(frame.format(said), plain, self.answer, right, rng)

    def another(self, rng: Random) -> str:
        assert self.prop.how is not None
        while (found := str(self.prop.how(rng))) == self.value:
            pass
        return found


def draw(rng: Random, near: Owned | None = None) -> Owned:
    """A fact; with `near`, the same property of another thing, or another one of the same thing."""
    if near is not None and rng.random() < 0.5:
        return _owned(near.thing, near.prop, rng, other=True)
    one = near.thing if near is not None else thing(rng)
    known = [prop for prop in properties()[one.kind] if prop.how is not None]
    return _owned(one, rng.choice(known), rng)


def _owned(one: Thing, prop: Property, rng: Random, other: bool = False) -> Owned:
    assert prop.how is not None
    return Owned(thing(rng, one.kind) if other else one, prop, str(prop.how(rng)))
