"""JSON for schemas that nobody trained on: records read from a sentence, with `response_format` and without.

The rule: the answer is one JSON object (without `response_format` it may be fenced or have words around it), it has
exactly the keys that were asked for, and every value is the one in the text. Strings are compared without case, "the"
and a full stop at the end; numbers by value, and a number in a string counts where the schema does not forbid it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_voices import voiced

HARBOURS = ["Esbjerg", "Calais", "Rostock", "Haifa", "Durban", "Cadiz", "Hobart", "Bodo"]
FOLK = [
    "Agnes",
    "Bartek",
    "Ciara",
    "Dimitri",
    "Elspeth",
    "Fumiko",
    "Gareth",
    "Hamida",
    "Ivo",
    "Jolanta",
    "Kofi",
    "Leila",
]
SURNAMES = ["Norberg", "Okonkwo", "Pavlov", "Quinlan", "Reyes", "Stoica", "Tanaka", "Uddin"]
BREADS = ["rye", "sourdough", "ciabatta", "brioche", "cornbread", "focaccia"]
INSECTS = ["ladybird", "hornet", "cricket", "dragonfly", "weevil", "firefly"]
STONES = ["granite", "slate", "marble", "basalt", "flint", "sandstone"]
VEHICLES = ["tractor", "scooter", "van", "tram", "lorry", "canoe", "sledge"]
DISEASES = ["flu", "measles", "hay fever", "a cold", "a migraine"]
PLANETS = ["Mars", "Venus", "Saturn", "Neptune", "Jupiter"]
CLOTHES = ["scarf", "raincoat", "jumper", "waistcoat", "kimono", "cardigan"]
SIZES = ["small", "medium", "large"]

Maker = Callable[[random.Random], Any]


def pick(pool: list[str]) -> Maker:
    return lambda rng: rng.choice(pool)


def whole(low: int, high: int) -> Maker:
    return lambda rng: rng.randint(low, high)


def full_name(rng: random.Random) -> str:
    return f"{rng.choice(FOLK)} {rng.choice(SURNAMES)}"


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: Mapping[str, tuple[str, Maker]]  # JSON type (or "enum:..."), value
    texts: tuple[str, ...]


RECORDS = (
    Record(
        "voyage",
        {
            "ship": ("string", pick(["Albatross", "Nordlys", "Esmeralda", "Kittiwake"])),
            "port": ("string", pick(HARBOURS)),
            "crew_size": ("integer", whole(3, 90)),
        },
        (
            "The {ship} left {port} with {crew_size} hands on board.",
            "On board the {ship}: {crew_size} sailors. Last port {port}.",
            "{crew_size} people crew the {ship}, which lies at {port}.",
        ),
    ),
    Record(
        "loaf",
        {
            "flour": ("string", pick(BREADS)),
            "grams": ("integer", whole(250, 1500)),
            "sliced": ("boolean", lambda rng: rng.random() < 0.5),
        },
        (
            "One {flour} loaf of {grams} g, {sliced:sliced|not sliced}, please.",
            "{grams} grams of {flour} bread; {sliced:cut it into slices|leave it whole, unsliced}.",
        ),
    ),
    Record(
        "sighting",
        {"insect": ("string", pick(INSECTS)), "seenBy": ("string", pick(FOLK)), "howMany": ("integer", whole(2, 60))},
        (
            "{seenBy} spotted {howMany} of the {insect} kind by the pond.",
            "Insect: {insect}. Observer: {seenBy}. Number: {howMany}.",
            "{howMany} times {seenBy} saw a {insect} today.",
        ),
    ),
    Record(
        "quarry",
        {"stone": ("string", pick(STONES)), "tonnes": ("integer", whole(5, 800)), "foreman": ("string", full_name)},
        ("{foreman} had {tonnes} tonnes of {stone} dug out.", "The foreman, {foreman}, reports {tonnes} t of {stone}."),
    ),
    Record(
        "hire",
        {"vehicle": ("string", pick(VEHICLES)), "renter": ("string", full_name), "days": ("integer", whole(1, 30))},
        (
            "{renter} takes the {vehicle} for {days} days.",
            "Rental slip. Customer {renter}, item {vehicle}, duration {days} days.",
            "for {days} days the {vehicle} goes to {renter}",
        ),
    ),
    Record(
        "patient",
        {
            "patient_name": ("string", full_name),
            "complaint": ("string", pick(DISEASES)),
            "temperature": ("number", lambda rng: round(rng.uniform(36.0, 40.5), 1)),
        },
        (
            "{patient_name} came in with {complaint} and {temperature} degrees.",
            "Seen today: {patient_name}. Temperature {temperature}. Suffers from {complaint}.",
        ),
    ),
    Record(
        "probe",
        {
            "planet": ("string", pick(PLANETS)),
            "launch_year": ("integer", whole(1961, 2030)),
            "failed": ("boolean", lambda rng: rng.random() < 0.5),
        },
        (
            "The probe to {planet} went up in {launch_year} and {failed:was lost|was a success}.",
            "{launch_year}: a mission flew to {planet}; it {failed:failed|did not fail}.",
        ),
    ),
    Record(
        "garment",
        {
            "garment": ("string", pick(CLOTHES)),
            "size": ("enum:small,medium,large", pick(SIZES)),
            "pieces": ("integer", whole(2, 40)),
        },
        (
            "We need {pieces} pieces of the {garment} in {size}.",
            "Order a {size} {garment}, {pieces} times.",
            "{pieces} x {garment} ({size})",
        ),
    ),
    Record(
        "song",
        {
            "title": ("string", pick(["Harvest Moon Waltz", "Paper Boats", "Nine Rivers", "Slow Copper Rain"])),
            "singer": ("string", full_name),
            "minutes": ("integer", whole(2, 14)),
        },
        (
            '"{title}" is sung by {singer} and lasts {minutes} minutes.',
            "{singer} recorded {title}, a song of {minutes} minutes.",
        ),
    ),
    Record(
        "complaint",
        {
            "guest": ("string", full_name),
            "roomNo": ("integer", whole(101, 699)),
            "mood": ("enum:angry,calm,sad", pick(["angry", "calm", "sad"])),
        },
        (
            "{guest} from room {roomNo} called at the desk and sounded {mood}.",
            "Room {roomNo}. Guest: {guest}. Mood: {mood}.",
        ),
    ),
    Record(
        "harvest",
        {
            "farmer": ("string", pick(FOLK)),
            "crop": ("string", pick(["barley", "turnips", "hops", "flax", "leeks"])),
            "sacks": ("integer", whole(4, 300)),
        },
        ("{farmer} brought in {sacks} sacks of {crop}.", "This year {crop} did well: {farmer} filled {sacks} sacks."),
    ),
    Record(
        "match",
        {
            "home": ("string", pick(["Rovers", "Wanderers", "Dynamo"])),
            "away": ("string", pick(["Albion", "Sparta", "Hibernian"])),
            "home_goals": ("integer", whole(0, 6)),
            "away_goals": ("integer", whole(0, 6)),
        },
        (
            "{home} hosted {away}; {home} scored {home_goals}, {away} scored {away_goals}.",
            "At home {home} got {home_goals} goals, the visitors {away} got {away_goals}.",
        ),
    ),
)

WITH_SCHEMA = (
    "{t} File this.",
    "Here is what came in today: {t}",
    "Put the following into the form.\n\n{t}",
    "{t}\n\nFill in the record.",
    "Transcribe into fields: {t}",
)
WITHOUT = (
    "{t} Give it back as a JSON object whose keys are {k}.",
    "Turn this into JSON with the fields {k}: {t}",
    "{t}\n\nReply with JSON only. Keys: {k}.",
    "json with {k} from this text please -> {t}",
    "I need to parse your reply with json.loads, keys {k}. Text: {t}",
)


def filled(template: str, values: Mapping[str, Any]) -> str:
    """`{flag:yes|no}` chooses by a boolean."""

    def place(match: re.Match[str]) -> str:
        name, _, choice = match[1].partition(":")
        return choice.split("|")[0 if values[name] else 1] if choice else str(values[name])

    return re.sub(r"\{([^{}]+)\}", place, template)


def schema(record: Record) -> dict[str, Any]:
    def one(kind: str) -> dict[str, Any]:
        if kind.startswith("enum:"):
            return {"type": "string", "enum": kind.removeprefix("enum:").split(",")}
        return {"type": kind}

    properties = {name: one(kind) for name, (kind, _) in record.fields.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def plain(value: Any) -> Any:
    """For comparison."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    text = re.sub(r"^(?:the|a|an)\s+", "", re.sub(r"\s+", " ", str(value).strip().lower().rstrip(".")))
    if text in ("true", "yes", "false", "no"):
        return text in ("true", "yes")
    return float(text) if re.fullmatch(r"-?\d+(?:\.\d+)?", text) else text


def read_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text."""
    for match in re.finditer(r"\{", text):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[match.start() :])
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def compare(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    if set(found) != set(expected):
        return f"keys are {sorted(found)}"
    wrong = {name: found[name] for name in expected if plain(found[name]) != plain(expected[name])}
    return f"wrong: {wrong}" if wrong else ""


def is_record(expected: Mapping[str, Any], strict: bool) -> Verdict:
    def verdict(answer: Answer) -> str:
        try:
            found = json.loads(answer.text) if strict else read_object(answer.text)
        except ValueError:
            return "not JSON"
        return compare(found, expected) if isinstance(found, dict) else "no JSON object"

    return verdict


def questions(count: int, seed: int, figure: str, *, with_schema: bool) -> list[Question]:
    made = []
    for index in range(count):
        rng = random.Random(f"json {with_schema} {seed} {index}")
        record = RECORDS[index % len(RECORDS)]
        values = {name: make(rng) for name, (_, make) in record.fields.items()}
        text = filled(rng.choice(record.texts), values)
        names = [f'"{name}"' if rng.random() < 0.5 else name for name in values]
        listed = ", ".join(names[:-1]) + " and " + names[-1]
        frame = rng.choice(WITH_SCHEMA if with_schema else WITHOUT).format(t=text, k=listed)
        keep = (text, *values, *listed.split())
        prompt, voice = voiced(frame, rng, keep, only=("plain", "typos", "polite", "grumpy", "chatty"))
        more: dict[str, Any] = {}
        if with_schema:
            form = {"name": record.name, "schema": schema(record), "strict": True}
            more["response_format"] = {"type": "json_schema", "json_schema": form}
        facts = {"voice": voice, "record": record.name}
        verdict = is_record(values, with_schema)
        made.append(chat(figure, prompt, verdict, max_tokens=120, expected=values, facts=facts, **more))
    return made
