"""Who did what to what, where, when, with what and why: sentences of any verb, and questions for any part of them.

What the facts of `wide_facts` teach of their own verbs, these teach of the grammar: a question has the order of words
that its part asks for, and the answer is the plain sentence up to that part.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from training import facts, wide

VERBS = """paint repair clean carry move wash open close borrow order visit photograph sketch deliver collect inspect measure polish
guard cover drop fix lock mark pack press pull push record rescue return sample sign sort stamp store test touch trade unload wrap
donate rename replace report request reserve restore review scan seal select study test translate transport unlock unpack watch admire
examine decorate describe design discover destroy hammer heat label launch load load mail mention mix order park pick pour print
program protect punch rent roast rob salvage save scratch seed ship smash solder spill steam survey tow trim weigh weld adopt assemble
attach boil bury check climb count cross dust explore fill follow fold frame gather haul ignore improve invent kick""".split()
TIMES = "at dawn|at noon|at midnight|on {d}|last {d}|in {m}|in {y}|before breakfast|after lunch|during the storm|every {d}|at {c}|two days ago|in the evening".split(
    "|"
)
TOOLS = "with a {n}|using a {n}|by means of a {n}|with an old {n}|with two {s}".split("|")
PLACES = "in {t}|at {p}|behind the {n}|near the {n}|under the {n}|in the {n}|next to the {n}|inside the {n}|on the {n}".split(
    "|"
)
WHYS = """because the {n} was {a}|because of the {n}|to please {w}|for a bet|out of boredom|to win the {n}|since {w} had asked for it|to
earn money for a {n}|because nobody else would""".replace("\n", " ").split("|")


def past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    doubled = ("drop", "trim", "rob", "scan", "wrap", "ship", "stamp")
    return verb + (verb[-1] if verb in doubled and verb != "stamp" else "") + "ed"


def _filled(form: str, rng: Random) -> str:
    return form.format(
        d=rng.choice(facts.DAYS), m=rng.choice(facts.MONTHS), y=wide.year(rng), c=wide.clock(rng), n=wide.noun(rng), s=facts.plural(wide.noun(rng)),
        t=wide.town(rng), p=wide.site(rng), a=wide.adjective(rng), w=wide.first_name(rng),
    )  # fmt: skip


ASKS = {
    "who": ("who {past} {o}", "which person {past} {o}", "by whom was {o} {past}", "tell me who {past} {o}", "who was it that {past} {o}", "the one who {past} {o}, who was that"),
    "what": ("what did {k} {verb}", "what was {past} by {k}", "which thing did {k} {verb}", "tell me what {k} {past}", "{k} {past} what", "what is it that {k} {past}"),
    "place": ("where did {k} {verb} {o}", "where was {o} {past}", "in what place did {k} {verb} {o}", "tell me where {k} {past} {o}", "where was it that {k} {past} {o}"),
    "time": ("when did {k} {verb} {o}", "when was {o} {past}", "at what time did {k} {verb} {o}", "tell me when {k} {past} {o}", "on what occasion did {k} {verb} {o}"),
    "tool": ("with what did {k} {verb} {o}", "what did {k} {verb} {o} with", "how did {k} {verb} {o}", "what was used to {verb} {o}", "how was {o} {past}"),
    "why": ("why did {k} {verb} {o}", "for what reason did {k} {verb} {o}", "why was {o} {past}", "what made {k} {verb} {o}", "tell me why {k} {past} {o}"),
    "count": ("how many {s} did {k} {verb}", "how many {s} were {past} by {k}", "what number of {s} did {k} {verb}", "tell me how many {s} {k} {past}"),
}  # fmt: skip


@dataclass(frozen=True)
class Event:
    """`part` is the part that is asked for, `value` what stands there."""

    key: str
    verb: str
    thing: str
    part: str
    value: str
    relation: int = 0  # it is no attribute

    attribute = ""

    @property
    def about(self) -> tuple[str, str]:
        return (self.thing if self.part == "who" else self.key), self.verb + self.part

    def sentence(self, value: str) -> str:
        done = past(self.verb)
        if self.part == "who":
            return f"{value} {done} {self.thing}"
        if self.part == "what":
            return f"{self.key} {done} {value}"
        if self.part == "count":
            return f"{self.key} {done} {value} {self.thing}"
        return f"{self.key} {done} {self.thing} {value}"

    def core(self, rng: Random) -> str:
        done, form = past(self.verb), rng.random()
        whole = self.sentence(self.value)
        if self.part in ("place", "time", "why", "tool"):
            if form < 0.25:
                return f"{self.value}, {self.key} {done} {self.thing}"
            if form < 0.45:
                return f"{self.thing} was {done} by {self.key} {self.value}"
            if form < 0.55:
                return f"it was {self.value} that {self.key} {done} {self.thing}"
            return whole
        if self.part == "count":
            return f"{self.value} {self.thing} were {done} by {self.key}" if form < 0.3 else whole
        who, what = (self.value, self.thing) if self.part == "who" else (self.key, self.value)
        if form < 0.25:
            return f"{what} was {done} by {who}"
        if form < 0.35:
            return f"it was {who} who {done} {what}"
        return whole + (f" {_filled(rng.choice(PLACES + TIMES), rng)}" if form < 0.6 else "")

    def question(self, rng: Random) -> str:
        words = {"k": self.key, "o": self.thing, "s": self.thing, "verb": self.verb, "past": past(self.verb)}
        return rng.choice(ASKS[self.part]).format(**words)

    def another(self, rng: Random) -> str:
        while (found := _value(self.part, rng)) == self.value:
            pass
        return found


def _value(part: str, rng: Random) -> str:
    if part == "who":
        return wide.person(rng)
    if part == "what":
        return wide.thing(rng)
    if part == "count":
        return rng.choice((facts.NUMBERS[rng.randint(2, 20)], str(rng.randint(2, 400))))
    return _filled(rng.choice({"place": PLACES, "time": TIMES, "tool": TOOLS, "why": WHYS}[part]), rng)


def draw(rng: Random, near: Event | None = None) -> Event:
    """An event; with `near`, one that shares its verb or its person."""
    part = near.part if near is not None and rng.random() < 0.6 else rng.choice(list(ASKS))
    key = near.key if near is not None and rng.random() < 0.4 else wide.person(rng)
    verb = rng.choice(VERBS)
    if near is not None and key != near.key and rng.random() < 0.8:
        verb = near.verb
    while near is not None and (key, verb) == (near.key, near.verb):  # done twice, the question would be open
        verb = rng.choice(VERBS)
    thing = facts.plural(wide.noun(rng)) if part == "count" else wide.thing(rng)
    return Event(key, verb, thing, part, _value(part, rng))
