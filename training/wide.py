"""Words for facts of any kind: names, things, and values in the forms that people write them in."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import cache
from random import Random

from training import facts
from training.sources import records

Value = Callable[[Random], str]

CONSONANTS = "b c d f g h k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr".split()
VOWELS = "a e i o u a e i o ai ea ou".split()
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


@cache
def _names() -> tuple[list[str], list[str]]:
    known = json.loads((records() / "names.json").read_text())
    return known["first"], known["last"]


@cache
def _parts() -> dict[str, list[str]]:
    """Nouns, verbs and adjectives of the dictionary, short enough to be copied."""
    found: dict[str, list[str]] = {"noun": [], "verb": [], "adjective": []}
    for word, part, _ in facts.definitions():
        if 3 < len(word) < 10:
            found[part].append(word)
    return {part: words or ["stone"] for part, words in found.items()}


def noun(rng: Random) -> str:
    return rng.choice(facts.THINGS) if rng.random() < 0.4 else rng.choice(_parts()["noun"])


def adjective(rng: Random) -> str:
    return rng.choice(facts.RICH_COLOURS) if rng.random() < 0.4 else rng.choice(_parts()["adjective"])


def made_up(rng: Random, least: int = 2, most: int = 3) -> str:
    """A word that no dictionary has."""
    word = "".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(least, most)))
    return word + rng.choice(("", "n", "r", "s", "l", "x", "k"))


def first_name(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.35:
        return rng.choice(facts.NAMES)
    return rng.choice(_names()[0]) if draw < 0.85 else made_up(rng).capitalize()


def last_name(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.35:
        return rng.choice(facts.SURNAMES)
    return rng.choice(_names()[1]) if draw < 0.85 else made_up(rng).capitalize()


def person(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.4:
        return first_name(rng)
    if draw < 0.85:
        return f"{first_name(rng)} {last_name(rng)}"
    title = rng.choice(("Dr.", "Mr.", "Mrs.", "Ms.", "Professor", "Captain", "Aunt", "Uncle", "Officer", "Chef"))
    return f"{title} {first_name(rng) if title in ('Aunt', 'Uncle') else last_name(rng)}"


def town(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.6:
        return rng.choice(facts.CITIES)
    if draw < 0.8:
        return made_up(rng).capitalize() + rng.choice(("", "", "ville", "ford", "ton", "burg"))
    return rng.choice(facts.countries())[1]


def site(rng: Random) -> str:
    """A place with a name."""
    kind = rng.choice(
        "Street Avenue Lane Hall House Tower Park Square Bridge Station Hotel School Clinic Museum Hill Lake Bay "
        "Farm Market Library Center Camp Cafe".split()
    )
    name = rng.choice((last_name(rng), adjective(rng).capitalize(), noun(rng).capitalize(), made_up(rng).capitalize()))
    return f"{name} {kind}"


def thing(rng: Random) -> str:
    """With its article."""
    draw = rng.random()
    if draw < 0.3:
        return f"the {noun(rng)}"
    if draw < 0.75:
        return f"the {adjective(rng)} {noun(rng)}"
    if draw < 0.85:
        return f"the {noun(rng)} in {town(rng)}"
    return f"the {noun(rng)} {rng.choice(('room', 'team', 'project', 'club', 'store', 'line', 'group', 'machine'))}"


def label(rng: Random) -> str:
    """A key that is no word of every day."""
    form = rng.randrange(10)
    if form == 0:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if form == 1:
        return f"{adjective(rng)}-{noun(rng)}"
    if form == 2:
        return f"{rng.choice(LETTERS)}{rng.choice(LETTERS)}{rng.randint(1, 999)}"
    if form == 3:
        return f"Project {rng.choice((noun(rng), made_up(rng))).capitalize()}"
    if form == 4:
        return (
            f"{rng.choice(('unit', 'room', 'gate', 'node', 'box', 'server', 'order', 'ticket'))} {rng.randint(1, 999)}"
        )
    if form == 5:
        return (
            f"{rng.choice(('unit', 'shelf', 'locker', 'row', 'lab', 'zone'))} {rng.randint(1, 99)}{rng.choice(LETTERS)}"
        )
    if form == 6:
        return f"{noun(rng)}_{noun(rng)}"
    if form == 7:
        return made_up(rng)
    if form == 8:
        return f"{noun(rng)} {rng.randint(1, 99)}"
    return f"{rng.choice(('Operation', 'Team', 'Agent', 'Model', 'Planet', 'Ship'))} {noun(rng).capitalize()}"


# -- values


def digits(rng: Random) -> str:
    size = rng.choice((2, 3, 4, 4, 5, 5, 6, 7, 7, 8, 9))
    return str(rng.randint(10 ** (size - 1), 10**size - 1))


def code(rng: Random) -> str:
    form = rng.randrange(8)
    if form == 0:
        return "".join(rng.choices(LETTERS + "23456789", k=rng.randint(4, 8)))
    if form == 1:
        return f"{rng.choice(LETTERS)}{rng.choice(LETTERS)}-{rng.randint(10, 9999)}"
    if form == 2:
        return f"{rng.randint(10, 999)}-{rng.choice(LETTERS)}{rng.choice(LETTERS)}"
    if form == 3:
        return "-".join(str(rng.randint(10, 99)) for _ in range(3))
    if form == 4:
        return f"{adjective(rng)}-{noun(rng)}-{rng.randint(1, 99)}"
    if form == 5:
        return f"{rng.choice(LETTERS)}{rng.randint(1, 9)}{rng.choice(LETTERS)}{rng.randint(1, 9)}"
    if form == 6:
        return "".join(rng.choices("0123456789abcdef", k=rng.randint(6, 10)))
    return digits(rng)


def word(rng: Random) -> str:
    return rng.choice((noun, noun, adjective, made_up))(rng)


def phrase(rng: Random) -> str:
    return f"{adjective(rng)} {noun(rng)}"


def amount(rng: Random) -> str:
    size = rng.choice((9, 99, 999, 9999))
    number = rng.randint(1, size)
    text = f"{number:,}" if rng.random() < 0.3 else str(number)
    return text if rng.random() < 0.75 else f"{rng.randint(0, 99)}.{rng.randint(1, 99)}"


def unit(*units: str) -> Value:
    return lambda rng: f"{amount(rng)} {rng.choice(units)}"


def price(rng: Random) -> str:
    form = rng.randrange(4)
    if form == 0:
        return f"${rng.randint(1, 999)}.{rng.randint(0, 99):02}"
    if form == 1:
        return f"{amount(rng)} {rng.choice(('dollars', 'euros', 'pounds', 'yen', 'francs', 'coins', 'crowns'))}"
    return f"{rng.choice('$€£')}{amount(rng)}" if form == 2 else f"{rng.randint(1, 900)} {rng.choice(('USD', 'EUR'))}"


def clock(rng: Random) -> str:
    form = rng.randrange(4)
    if form == 0:
        return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
    if form == 1:
        return f"{rng.randint(1, 12)} {rng.choice(('am', 'pm', 'a.m', 'p.m', 'AM', 'PM'))}"
    if form == 2:
        return f"{rng.choice(('half past', 'quarter past', 'quarter to'))} {facts.NUMBERS[rng.randint(1, 12)]}"
    return f"{rng.randint(1, 12)}:{rng.choice((5, 10, 15, 20, 30, 40, 45, 50)):02}"


def date(rng: Random) -> str:
    form = rng.randrange(6)
    month, day, year = rng.choice(facts.MONTHS), rng.randint(1, 28), rng.randint(1600, 2090)
    if form == 0:
        return f"{day} {month} {year}"
    if form == 1:
        return f"{month} {day}, {year}"
    if form == 2:
        return f"{year}-{rng.randint(1, 12):02}-{day:02}"
    if form == 3:
        return f"{month} {day}"
    return (
        rng.choice(facts.DAYS)
        if form == 4
        else f"the {day}{'th' if day not in (1, 2, 3, 21, 22, 23) else ''} of {month}"
    )


def year(rng: Random) -> str:
    return str(rng.randint(1100, 2099))


def phone(rng: Random) -> str:
    form = rng.randrange(3)
    if form == 0:
        return f"555-{rng.randint(0, 9999):04}"
    return f"+{rng.randint(1, 99)} {rng.randint(100, 999)} {rng.randint(1000, 9999)}" if form == 1 else digits(rng)


def address(rng: Random) -> str:
    return f"{rng.randint(1, 400)} {site(rng)}"


def mail(rng: Random) -> str:
    return (
        f"{first_name(rng).lower()}.{last_name(rng).lower()}@{made_up(rng)}.{rng.choice(('com', 'org', 'net', 'io'))}"
    )


def path(rng: Random) -> str:
    return f"/{noun(rng)}/{noun(rng)}.{rng.choice(('txt', 'log', 'yaml', 'json', 'csv', 'conf'))}"


def ip(rng: Random) -> str:
    return ".".join(str(rng.randint(1, 254)) for _ in range(4))


def identity(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4)) if rng.random() < 0.6 else code(rng)


def colour(rng: Random) -> str:
    return rng.choice((*facts.COLOURS, "teal", "crimson", "turquoise", "beige", "navy blue", "dark green", "gold"))


def deed(rng: Random) -> str:
    """Something to do, in a few words."""
    verbs = (
        "rent a small boat", "walk along the river", "visit the old mill", "eat fresh bread", "climb the hill",
        "listen to the choir", "swim in the cold lake", "watch the ships", "drink a cup of tea", "feed the ducks",
        "count the bells", "paint the harbor", "ride the first tram", "sleep in a tent", "buy flowers at the market",
        "play chess with the locals", "read a long novel", "look at the stars", "bake a plum cake", "fly a kite",
    )  # fmt: skip
    text = rng.choice(verbs)
    if rng.random() < 0.6:
        text += f" and {rng.choice(verbs)}"
    ends = ("at dawn", "in the rain", "with a friend", "after dark", "every Friday", "before breakfast", "in silence")
    return text + (f" {rng.choice(ends)}" if rng.random() < 0.5 else "")


HEADS: dict[str, Value] = {
    "code": code, "number": digits, "key": code, "password": code, "PIN": digits, "combination": code, "ID": identity,
    "token": identity, "price": price, "cost": price, "fee": price, "budget": price, "salary": price, "rent": price,
    "weight": unit("kg", "grams", "pounds", "tons"), "height": unit("meters", "cm", "feet", "inches"),
    "length": unit("meters", "km", "miles", "cm", "feet"), "width": unit("meters", "cm", "mm"),
    "capacity": unit("liters", "people", "seats", "gallons", "boxes"), "speed": unit("km/h", "mph", "knots"),
    "temperature": unit("degrees", "degrees Celsius", "°C", "°F"), "distance": unit("km", "miles", "steps"),
    "age": unit("years"), "duration": unit("minutes", "hours", "days", "weeks"), "score": amount, "rank": digits,
    "deadline": date, "date": date, "day": lambda rng: rng.choice(facts.DAYS), "time": clock, "year": year,
    "address": address, "email": mail, "phone": phone, "extension": digits, "channel": digits, "port": digits,
    "frequency": unit("MHz", "kHz", "Hz"), "version": lambda rng: f"{rng.randint(0, 20)}.{rng.randint(0, 40)}.{rng.randint(0, 9)}",
    "color": colour, "nickname": word, "motto": phrase, "owner": person, "manager": person, "supplier": person,
    "author": person, "winner": person, "captain": person, "contact": person, "destination": town, "origin": town,
    "location": site, "city": town, "word": word, "name": lambda rng: rng.choice((made_up(rng).capitalize(), person(rng))),
    "symbol": word, "animal": lambda rng: rng.choice(facts.ANIMALS), "fruit": lambda rng: rng.choice(facts.FRUITS),
    "material": lambda rng: rng.choice(facts.MATERIALS), "dish": lambda rng: rng.choice(facts.FOODS), "file": path,
    "IP address": ip, "status": word, "title": phrase, "answer": word, "value": digits, "count": digits,
    "instrument": lambda rng: rng.choice(facts.INSTRUMENTS), "job": lambda rng: rng.choice(facts.JOBS),
    "flight": code, "gate": code, "seat": code, "platform": digits, "plate": code, "signal": word, "passphrase": phrase,
}  # fmt: skip
MODIFIERS = """access door entry backup emergency customer order invoice shipping storage locker parking vault safe office
home front main secret hidden private public new old current final first last next default official internal tracking
reference registration membership booking room wifi network server database account billing contract license meeting
delivery arrival departure launch start expected maximum minimum average total daily weekly monthly annual battery
engine product serial batch model test control alarm radio gate elevator garage cabin flight train bus lucky favorite
preferred assigned temporary permanent recovery master guest staff visitor student patient case file magic special
confirmation activation security verification unlock""".split()


def attribute(rng: Random) -> tuple[str, Value]:
    """Its name, and how its values are drawn. One name is the public needle tests', and never drawn."""
    while True:
        head = rng.choice(list(HEADS))
        draw = rng.random()
        name = head if draw < 0.3 else f"{rng.choice(MODIFIERS)} {head}"
        if draw > 0.93:
            name = f"{rng.choice(MODIFIERS)} {name}"
        if name not in ("special magic number", "magic special number", "pass key", "passkey"):
            return name, HEADS[head]
