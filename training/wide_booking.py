"""Hotels, tables, trains and taxis in other people's sentences (`sources_booking`): calls and JSON with values drawn anew."""

# ruff: noqa: E501, SIM905  (rows are easier to read than lists)

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from random import Random
from string import capwords
from typing import Any

from training import facts, wide, wide_calls, wide_keyed, wide_kinds, wide_prompted
from training.data_chat import Chat, Turn
from training.held_words import free, held_phrase, taken
from training.sources import records
from training.wide_facts import capital
from training.wide_long import system
from training.wide_prompted import Form
from training.wide_talk import lines

Json = dict[str, Any]
Key = tuple[str, tuple[str, ...]]  # domain and slots
# Other names for a slot. One that the examiner has under all of its names is never asked for.
OTHER = {
    "area": "area part_of_town district side_of_town", "price": "price_range pricing price_level price_class", "stars": "stars star_rating hotel_stars", "people": "people party_size guests how_many_people",
    "stay": "nights stay_length number_of_nights stay", "day": "day weekday on_day", "time": "time at_time time_of_day", "leave": "leave_at departure_time leaving_at leaves", "arrive": "arrive_by arrival_time arrives be_there_by",
    "food": "food cuisine kitchen kind_of_food", "name": "name place_name called which_place", "type": "type kind category", "dest": "destination to going_to drop_off", "depart": "departure origin from_place pick_up starting_point",
    "department": "department ward unit_of_hospital", "phone": "phone phone_number contact_number telephone", "post": "postcode postal_code post_code", "addr": "address street_address where_it_is", "ref": "reference reference_number booking_code confirmation",
    "id": "train_id train_number train", "ticket": "ticket_price fare total_fee cost", "fee": "entrance_fee admission entry_price", "car": "car car_type vehicle", "choice": "choice_count options number_of_choices", "open": "opening_hours open_times", "duration": "duration travel_time minutes_of_travel",
}  # fmt: skip
WHOLE = ("stars", "people", "stay", "choice")
TOOLS = {
    "hotel": ("find_hotel search_hotels hotel_search|Finds places to stay", "book_hotel reserve_room hotel_booking|Books a room"),
    "restaurant": ("find_restaurant search_restaurants restaurant_search|Finds restaurants", "book_table reserve_table restaurant_booking|Books a table"),
    "attraction": ("find_attraction sights_search attraction_finder|Finds places to visit",) * 2,
    "train": ("find_train search_trains train_search|Finds trains",) * 2,
    "taxi": ("book_taxi order_taxi call_cab taxi_order|Orders a taxi",) * 2,
    "hospital": ("find_hospital hospital_department clinic_search|Finds a hospital department",) * 2,
}  # fmt: skip
MEANT = {  # what a sentence has in it if it is clear which tool it is for
    "hotel": r"hotel|stay|room|lodg|guest ?house|night", "restaurant": r"restaurant|food|\beat|table|\bdin|meal|cuisine|serv", "train": r"train",
    "attraction": r"attraction|\{type\}|visit|to see|museum|sight", "taxi": r"taxi|\bcab\b|\bride\b|pick me up", "hospital": r"hospital|department|clinic",
}  # fmt: skip
BOOKED = {"people", "stay", "day", "time"}
TITLES = {"hotel": "Hotel Stay Lodging Room", "restaurant": "Restaurant Table Dinner Diner", "attraction": "Attraction Sight Visit", "train": "Train Journey Trip Ride", "taxi": "Taxi Cab Ride", "hospital": "Hospital Clinic", "booking": "Booking Reservation"}  # fmt: skip
AREAS = lines("north|south|east|west|centre|center|old town|harbor district|city center|university quarter|suburbs")
KINDS = lines(
    "museum|park|theatre|cinema|college|boat|swimming pool|nightclub|gallery|concert hall|castle|zoo|church|aquarium"
)
CARS = lines("Toyota|Honda|Tesla|Ford|Volvo|BMW|Skoda|Lexus|Audi|Volkswagen|Kia|minivan|limousine")


@cache
def known() -> dict[str, dict[Key, list[str]]]:
    """`asked` and `told`: sentences by domain and slots."""
    path = records() / "booking.json"
    read = json.loads(path.read_text()) if path.exists() else {}
    found: dict[str, dict[Key, list[str]]] = {"asked": defaultdict(list), "told": defaultdict(list)}
    for kind, many in found.items():
        for one in read.get(kind, []):
            timed = {"time": "duration"} if one["domain"] == "train" else {}
            slots = tuple(timed.get(slot, slot) for slot in one["slots"])
            texts = [text.replace("{time}", "{duration}") if timed else text for text in one["texts"]]
            if all(map(_called, slots)):
                many[one["domain"], slots] += [text for text in texts if not held_phrase(text)]
    return {kind: {key: texts for key, texts in many.items() if texts} for kind, many in found.items()}


@cache
def _pool() -> dict[str, list[str]]:
    """Values by domain and slot; what people say in the end."""
    path = records() / "booking.json"
    read = json.loads(path.read_text()) if path.exists() else {"values": {}}
    parted = {name: [text for text in read.get(name, []) if not held_phrase(text)] for name in ("thanks", "bye")}
    found: dict[str, list[str]] = read["values"] | parted
    return found


PARTING = {"thanks": "You are welcome!", "bye": "Goodbye! Have a nice day."}


def _parting(rng: Random) -> list[Turn]:
    """The tool has answered, and the user says thanks or goodbye."""
    name = rng.choice(("thanks", "thanks", "bye"))
    turns = [Turn("tool", json.dumps(rng.choice(({"status": "ok"}, {"ok": True}, {"result": "done"}))))]
    turns.append(Turn("assistant", "It is done."))
    return (
        [*turns, Turn("user", rng.choice(_pool()[name])), Turn("assistant", PARTING[name])] if _pool()[name] else turns
    )


@cache
def _called(slot: str) -> tuple[str, ...]:
    return tuple(name for name in free(OTHER.get(slot, slot).split()) if not taken(name))


def _clock(rng: Random) -> str:
    return f"{rng.randint(0, 23):02}:{rng.randrange(0, 60, rng.choice((1, 5, 15))):02}"


def _place(domain: str, rng: Random) -> str:
    domain = (
        domain if domain in ("hotel", "restaurant", "attraction") else rng.choice(("hotel", "restaurant", "attraction"))
    )
    many = _pool().get(f"{domain} name", [])
    if not many or rng.random() < 0.4:
        return rng.choice(
            (f"The {capital(wide.noun(rng))}", wide.site(rng), f"{wide.first_name(rng)}'s", capital(wide.made_up(rng)))
        )
    name = rng.choice(many)
    return capwords(name) if rng.random() < 0.6 else name


def _value(slot: str, domain: str, rng: Random) -> Any:
    if slot in WHOLE:
        return rng.randint(2, 5 if slot == "stars" else 14)
    if slot == "duration":
        return f"{rng.randint(12, 190)} minutes"
    if slot in ("time", "leave", "arrive"):
        return _clock(rng) if rng.random() < 0.8 else wide.clock(rng)
    if slot in ("dest", "depart"):
        return wide.town(rng) if domain == "train" or rng.random() < 0.3 else _place("", rng)
    if slot == "name":
        return _place(domain, rng)
    if slot in ("food", "department"):
        many = _pool().get(f"{'restaurant' if slot == 'food' else 'hospital'} {slot}", []) or ["greek", "thai"]
        return rng.choice(many)
    if slot == "type":
        return rng.choice(("hotel", "guest house", "hostel", "inn")) if domain == "hotel" else rng.choice(KINDS)
    if slot == "car":
        return f"{wide.colour(rng)} {rng.choice(CARS)}"
    if slot == "post":
        return (
            "".join(rng.choice("abcdeglnprs") for _ in "ab")
            + f"{rng.randint(10, 99)}{rng.choice('abdefhj')}{rng.choice('lnpqrs')}"
        )
    if slot == "id":
        return f"{rng.choice(('TR', 'IC', 'EX', 'RB'))}{rng.randint(100, 9999)}"
    simple = {
        "area": AREAS,
        "price": ["cheap", "moderate", "expensive", "budget", "luxury"],
        "day": [*facts.DAYS, *map(str.lower, facts.DAYS)],
    }
    if slot in simple:
        return rng.choice(simple[slot])
    draws = {"phone": wide.phone, "addr": wide.address, "ref": wide.code, "ticket": wide.price, "fee": wide.price}
    return draws.get(slot, wide.clock)(rng)


def _filled(text: str, domain: str, slots: tuple[str, ...], rng: Random) -> tuple[str, Json]:
    """The sentence with values, each of them another."""
    values: Json = {}
    for slot in slots:
        for _ in range(20):
            value = _value(slot, domain, rng)
            if not any(str(value) in str(other) or str(other) in str(value) for other in values.values()):
                break
        article = "an" if str(value)[0].lower() in "aeiou" else "a"
        text = re.sub(rf"\b([Aa])n? (?=\{{{slot}\}})", lambda found, end=article[1:]: f"{found[1]}{end} ", text)
        text = text.replace(f"{{{slot}}}", str(value))
        values[slot] = value
    return text, values


def _key(kind: str, rng: Random) -> Key:
    """A domain by how many sets of slots it has, and more slots rather than few."""
    many = known()[kind]
    domains = sorted({key[0] for key in many})
    domain = rng.choices(domains, [sum(key[0] == one for key in many) ** 0.5 for one in domains])[0]
    keys = [key for key in many if key[0] == domain]
    keys = rng.sample(keys, min(3, len(keys)))
    return max(keys, key=lambda key: len(key[1])) if rng.random() < 0.6 else keys[0]


def _named(slots: tuple[str, ...], style: int, rng: Random) -> dict[str, str]:
    return {slot: wide_kinds.styled(rng.choice(_called(slot)), style) for slot in slots}


def _schema(slot: str) -> Json:
    return {"type": "integer" if slot in WHOLE else "string"}


def _tool(domain: str, slots: tuple[str, ...], style: int, rng: Random) -> tuple[str, Json, dict[str, str]]:
    """A tool of the domain: its name, its signature, and what it calls the slots."""
    names, _, about = TOOLS[domain][bool(BOOKED & set(slots))].partition("|")
    name = rng.choice([name for name in names.split() if not taken(name)] or ["look_up"])
    name = capital(wide_kinds.styled(name, 1)) if style == 3 else wide_kinds.styled(name, style % 2)
    every = sorted({slot for key in known()["asked"] if key[0] == domain for slot in key[1]})
    others = [slot for slot in every if slot not in slots and rng.random() < 0.35]
    called = _named((*slots, *others), style % 2, rng)
    shown = rng.sample(list(called), len(called))
    parameters = {"type": "object", "properties": {called[slot]: _schema(slot) for slot in shown}, "required": []}
    return (
        name,
        {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}},
        called,
    )


def tool_call(rng: Random) -> Chat:
    domain, slots, clear = "", (), []  # type: str, tuple[str, ...], list[str]
    while not clear:
        domain, slots = _key("asked", rng)
        clear = [text for text in known()["asked"][domain, slots] if re.search(MEANT.get(domain, "$^"), text.lower())]
    style = rng.choice((0, 0, 0, 1, 3))
    name, signature, called = _tool(domain, slots, style, rng)
    text, values = _filled(rng.choice(clear), domain, slots, rng)
    shown = {name: signature}
    near = [key for key in known()["asked"] if key[0] != domain and key[0] in TOOLS]
    for _ in range(rng.choice((0, 1, 2, 3, 4))):
        if near and rng.random() < 0.7:
            other, found, _ = _tool(*rng.choice(near), style, rng)
        else:
            found = wide_calls.signature(rng)
            other = found["function"]["name"]
        if found["function"]["description"] not in (one["function"]["description"] for one in shown.values()):
            shown.setdefault(other, found)
    order = list(signature["function"]["parameters"]["properties"])
    given = {called[slot]: value for slot, value in values.items()}
    answer = Turn("assistant", calls=[(name, {key: given[key] for key in order if key in given})])
    signatures = rng.sample(list(shown.values()), len(shown))
    turns = [Turn("user", text), answer, *(_parting(rng) if rng.random() < 0.15 else ())]
    return Chat(turns, "people_tools", (), system(rng) if rng.random() < 0.2 else "", signatures)


@dataclass(frozen=True)
class BookingForm(Form):
    """Sentences that have all of these slots."""

    key: Key = ("", ())
    texts: tuple[str, ...] = ()
    called: tuple[tuple[str, str], ...] = ()

    def told(self, rng: Random) -> tuple[str, Json]:
        text, values = _filled(rng.choice(self.texts), *self.key, rng)
        return text, {name: values[slot] for slot, name in self.called}


def form(rng: Random) -> BookingForm:
    kind = rng.choice(("asked", "asked", "told"))
    domain, slots = key = _key(kind, rng)
    called = _named(slots, rng.choice((0, 0, 0, 0, 1, 2)), rng)
    wanted = rng.sample(list(called), len(called)) if rng.random() < 0.6 else list(called)
    wanted = wanted[: rng.randint(1, len(wanted))] if rng.random() < 0.2 else wanted
    values = {called[slot]: _schema(slot) for slot in wanted}
    pairs = tuple((slot, called[slot]) for slot in wanted)
    title = rng.choice([one for one in TITLES.get(domain, "Entry").split() if not taken(one)] or ["Entry"])
    return BookingForm(title, values, None, {}, (), key, tuple(known()[kind][key]), pairs)


def json_answer(rng: Random) -> Chat:
    one = form(rng)
    draw = rng.random()
    if draw < 0.45:
        text, values = one.told(rng)
        return wide_kinds.json_answer(rng, wide_kinds.Drawn(text, text, "", values, values))
    return (wide_keyed if draw < 0.75 else wide_prompted).json_answer(rng, one)
