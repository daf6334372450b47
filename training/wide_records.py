"""Things of everyday that have several values at once, told in sentences and asked for in requests: for JSON and tools.

Every value goes by several names, so that a schema's own names have to be read.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from training import facts, wide
from training.wide_talk import lines

Draw = Callable[[Random], Any]


def _whole(low: int, high: int) -> Draw:
    return lambda rng: rng.randint(low, high)


@dataclass(frozen=True)
class Record:
    """`values`: slot to (names, how it is drawn). A request names its slots itself; the others stay out of the call."""

    values: dict[str, tuple[str, Draw]]
    told: list[str]
    requests: list[str]
    tools: str


def _full(rng: Random) -> str:
    return f"{wide.first_name(rng)} {wide.last_name(rng)}"


def _date(rng: Random) -> str:
    return wide.date(rng)


RECORDS = (
    Record({"n": ("name full_name person customer_name employee", _full), "a": ("age years age_in_years", _whole(3, 99)), "c":
            ("city town location residence home_city", wide.town), "j": ("job occupation profession role",
            lambda rng: rng.choice(facts.JOBS))},
           lines("""{n} is {a} years old, lives in {c} and works as a {j}.|{n}, {a}, is a {j} from {c}.|My friend {n} is a {j}. At {a}, the move to {c}
           was a big step.|A {j} named {n} ({a}) lives in {c}.|In {c} I met {n}, a {a}-year-old {j}.|{n} turned {a} last week, still a {j} in {c}.|Hi, I'm
           {n}, {a} years old. I live in {c} and I'm a {j}.|Born {a} years ago, {n} is now a {j} in {c}."""),
           lines("""add {n} to the staff list, age {a}, {j} in {c}|register {n}, {a} years old, a {j} from {c}|please create a profile for {n} ({a}), {j},
           living in {c}|new person: {n}, {a}, {c}, {j}|sign up {n} from {c}: {a} years old, works as a {j}"""),
           "add_person create_profile register_user new_employee save_contact"),
    Record({"n": ("customer buyer name client", _full), "q": ("quantity amount count number", _whole(2, 60)), "i": ("item product article goods",
            lambda rng: facts.plural(wide.noun(rng))), "p": ("price total cost total_price", _whole(1, 999))},
           lines("""{n} ordered {q} {i} for {p} dollars.|{n} bought {q} {i} and paid ${p}.|Order from {n}: {q} {i}, total {p} euros.|We shipped {q} {i} to {n};
           the bill was {p} dollars.|For {p} dollars {n} got {q} {i}.|{q} {i} went to {n} at a price of {p}.|{n} would like {q} {i}. That makes {p} dollars."""),
           lines("""order {q} {i} for {n}, {p} dollars in total|{n} wants {q} {i} for {p} dollars, place the order|buy {q} {i} for {n} and pay {p}|please sell {n}
           {q} {i} at {p} dollars|put in an order of {q} {i}, customer {n}, price {p}"""),
           "place_order create_order buy_items submit_purchase sell_goods"),
    Record({"t": ("title event name subject", wide.phrase), "d": ("date day when event_date", _date), "h": ("time start start_time hour", wide.clock), "p":
            ("place location venue where", wide.site)},
           lines("""The {t} takes place on {d} at {h} in {p}.|Join us for the {t}: {d}, {h}, {p}.|On {d} at {h} there is the {t} at {p}.|{p} hosts the {t} on {d},
           starting at {h}.|We moved the {t} to {d}, {h}, at {p}.|Don't miss the {t} at {p}! It starts at {h} on {d}."""),
           lines("""put the {t} in my calendar: {d}, {h}, at {p}|schedule the {t} for {d} at {h} in {p}|plan the {t} at {p} on {d}, starting {h}|I have the {t} on {d}
           at {h}, place: {p}. Please note it|book {p} for the {t} on {d} at {h}"""),
           "create_event schedule_meeting add_to_calendar plan_event new_appointment"),
    Record({"t": ("title book name book_title", wide.phrase), "a": ("author writer by written_by", _full), "y": ("year published publication_year",
            _whole(1700, 2050)), "p": ("pages page_count length", _whole(40, 900))},
           lines(""""{t}" by {a} came out in {y} and has {p} pages.|{a} wrote "{t}" in {y}; it is {p} pages long.|The book "{t}" ({a}, {y}) has {p} pages.|In {y}, {a}
           published "{t}", a book of {p} pages.|I am reading "{t}", {p} pages, written by {a} in {y}."""),
           lines("""add the book "{t}" by {a}, {y}, {p} pages|save "{t}" ({a}, {y}), it has {p} pages|put {a}'s "{t}" from {y} on my list, {p} pages|catalog this: "{t}",
           author {a}, year {y}, pages {p}"""),
           "add_book save_book catalog_item register_title"),
    Record({"f": ("from origin start departure_city source", wide.town), "t": ("to destination arrival_city end goal", wide.town), "d":
            ("date day travel_date departure_date", _date), "s": ("passengers seats people travelers tickets", _whole(1, 9))},
           lines("""We fly from {f} to {t} on {d} with {s} people.|The trip from {f} to {t} is on {d}, {s} seats are booked.|{s} tickets, {f} to {t}, {d}.|On {d}, {s} of us
           leave {f} for {t}.|Departure from {f} on {d}, arrival in {t}, {s} passengers."""),
           lines("""book {s} seats from {f} to {t} on {d}|I need {s} tickets from {f} to {t} for {d}|find a flight from {f} to {t} on {d} for {s} people|get me to {t} from {f}
           on {d}, we are {s}|we are {s} people and want to travel from {f} to {t} on {d}|reserve a trip {f} - {t}, {d}, {s} passengers"""),
           "book_flight find_trip reserve_seats search_flights book_train buy_tickets"),
    Record({"c": ("city location place town", wide.town), "w": ("weather condition sky description", lambda rng: rng.choice(facts.WEATHER)), "d":
            ("temperature degrees temp celsius", _whole(-20, 40))},
           lines("""It is {w} in {c} with {d} degrees.|{c}: {w}, {d} degrees.|Today's weather in {c} is {w} and the temperature is {d}.|In {c} we have {d} degrees and a {w}
           day.|The report for {c} says {w}, {d} degrees."""),
           lines("""what is the weather in {c}|how is the weather in {c}|weather for {c} please|is it going to rain in {c}|what's it like outside in {c}|do I need a coat in {c}|
           how warm is it in {c}|tell me the forecast for {c}"""),
           "get_weather weather_lookup current_weather check_forecast fetch_weather"),
    Record({"r": ("recipient to receiver send_to", wide.first_name), "m": ("message text body content", wide.deed), "s": ("subject title topic", wide.phrase)},
           lines("""Mail to {r}, subject "{s}": "{m}".|To: {r}. Subject: {s}. Body: {m}|I wrote {r} about the {s}: "{m}"."""),
           lines("""send {r} an email with the subject "{s}" and the text "{m}"|write to {r} about "{s}": "{m}"|mail {r}, subject {s}, saying "{m}"|message for {r}
           (subject: {s}): "{m}"|let {r} know: "{m}". Use the subject "{s}\""""),
           "send_email send_message write_mail compose_email notify_person"),
    Record({"a": ("amount value sum money", _whole(1, 9000)), "f": ("from_currency source currency from", lambda rng: rng.choice(("USD", "EUR", "GBP", "JPY", "CHF"))),
            "t": ("to_currency target into to", lambda rng: rng.choice(("INR", "CAD", "AUD", "BRL", "NOK")))},
           lines("""{a} {f} were changed into {t}.|We exchanged {a} {f} to {t}.|Conversion of {a} from {f} to {t}."""),
           lines("""convert {a} {f} to {t}|how much is {a} {f} in {t}|change {a} {f} into {t}|what are {a} {f} worth in {t}|{a} {f} in {t} please|I have {a} {f} and want {t}"""),
           "convert_currency exchange_money currency_convert money_exchange"),
    Record({"d": ("device appliance thing name", wide.noun), "r": ("room area location where", lambda rng: rng.choice(facts.ROOMS)), "l":
            ("level brightness value setting percent", _whole(0, 100))},
           lines("""The {d} in the {r} is at {l} percent.|In the {r}, the {d} was set to {l}.|{r}: {d} at {l}."""),
           lines("""set the {d} in the {r} to {l}|turn the {d} in the {r} to {l} percent|put the {r} {d} at {l}|make the {d} of the {r} {l} percent|{d} in the {r}: {l}, please"""),
           "set_device control_home adjust_setting set_level"),
    Record({"w": ("word text phrase term", wide.noun), "l": ("language target target_language to", lambda rng: rng.choice(("French", "German", "Polish", "Greek",
            "Dutch", "Hindi", "Korean")))},
           lines("""The word {w} was translated into {l}.|Translation of "{w}" to {l}.|We need {w} in {l}."""),
           lines("""translate {w} into {l}|how do you say {w} in {l}|what is {w} in {l}|{w} in {l}, please|give me the {l} word for {w}|I need "{w}" in {l}"""),
           "translate translate_word translate_text to_language"),
    Record({"p": ("patient name person", _full), "k": ("doctor physician with", lambda rng: f"Dr. {wide.last_name(rng)}"), "d": ("day date when", lambda rng:
            rng.choice(facts.DAYS)), "h": ("time hour at", wide.clock)},
           lines("""{p} sees {k} on {d} at {h}.|{k} has an appointment with {p}, {d}, {h}.|On {d} at {h}, {p} will visit {k}.|Appointment: {p} with {k}, {d} {h}."""),
           lines("""make an appointment for {p} with {k} on {d} at {h}|{p} needs to see {k} on {d}, {h}|book {k} for {p}: {d} at {h}|on {d} at {h}, {p} wants to visit {k}"""),
           "book_appointment make_appointment schedule_visit reserve_slot"),
    Record({"s": ("song title track name", wide.phrase), "a": ("artist singer band performer", _full), "v": ("volume loudness level", _whole(1, 100))},
           lines(""""{s}" by {a} is playing at volume {v}.|Now playing: {s}, {a}, volume {v}.|{a} sang "{s}"; the volume was {v}."""),
           lines("""play "{s}" by {a} at volume {v}|put on {a}'s "{s}", volume {v}|I want to hear "{s}" from {a} at {v}|start the song {s} of {a} with volume {v}"""),
           "play_song play_music start_track play"),
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    text: str
    request: str
    tool: str
    values: dict[str, Any]  # by the names of this schema, of the slots that the text tells
    asked: dict[str, Any]  # of the slots that the request tells


def draw(rng: Random) -> Drawn:
    record = rng.choice(RECORDS)
    values = {slot: how(rng) for slot, (_, how) in record.values.items()}
    names: dict[str, str] = {}
    for slot, (known, _) in record.values.items():
        free = [name for name in known.split() if name not in names.values()]
        names[slot] = rng.choice(free)
    text, request = rng.choice(record.told), rng.choice(record.requests)
    return Drawn(
        text.format(**values),
        request.format(**values),
        rng.choice(record.tools.split()),
        {names[slot]: value for slot, value in values.items() if f"{{{slot}}}" in text},
        {names[slot]: value for slot, value in values.items() if f"{{{slot}}}" in request},
    )
