"""Tools that nobody trained on: the right one of one to four, with the right arguments.

The rule: exactly one call, of the right tool, whose arguments are those that the message states. Arguments are compared
as in strangers_json; an argument that is not required may be left out. One message in ten asks for nothing that a tool
does: there must be no call, and an answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_json import FOLK, HARBOURS, INSECTS, VEHICLES, Maker, compare, pick, whole
from training.strangers_rules import MARKS
from training.strangers_voices import voiced

GENRES = ["jazz", "polka", "techno", "folk"]
RECIPES = ["goulash", "paella", "shepherd's pie", "ramen", "borscht"]
ROOMS = ["attic", "pantry", "garage", "nursery", "hallway"]


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    purpose: str
    fields: Mapping[str, tuple[str, str, Maker]]  # JSON type, description, value
    asks: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        properties = {name: {"type": kind, "description": what} for name, (kind, what, _) in self.fields.items()}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.purpose, "parameters": parameters},
        }


TOOLS = (
    Tool(
        "book_ferry",
        "Reserve a seat on a ferry.",
        {
            "destination": ("string", "harbour to go to", pick(HARBOURS)),
            "passengers": ("integer", "how many travel", whole(1, 9)),
        },
        (
            "Get me on the boat to {destination}, we are {passengers}.",
            "{passengers} seats on the ferry to {destination} please",
            "We want to cross over to {destination}. Party of {passengers}.",
        ),
    ),
    Tool(
        "dim_lights",
        "Set how bright the lamps of a room are.",
        {
            "room": ("string", "which room", pick(ROOMS)),
            "percent": ("integer", "brightness from 0 to 100", whole(5, 95)),
        },
        (
            "Lights in the {room} down to {percent} percent.",
            "it is too bright in the {room}, make it {percent}%",
            "Would you put the {room} lamps at {percent} per cent?",
        ),
    ),
    Tool(
        "play_station",
        "Start the radio.",
        {"genre": ("string", "kind of music", pick(GENRES))},
        ("I am in the mood for some {genre}, switch on the radio.", "radio on, {genre}", "Let us hear {genre}."),
    ),
    Tool(
        "lookup_recipe",
        "Find a recipe in the cookbook.",
        {
            "dish": ("string", "what to cook", pick(RECIPES)),
            "servings": ("integer", "for how many people", whole(2, 12)),
        },
        (
            "How do I make {dish} for {servings} people?",
            "There will be {servings} of us for dinner and they want {dish}. Find how to cook it.",
            "recipe: {dish}, serves {servings}",
        ),
    ),
    Tool(
        "report_insect",
        "Tell the nature society about an insect.",
        {"species": ("string", "kind of insect", pick(INSECTS)), "garden": ("string", "whose garden", pick(FOLK))},
        (
            "I saw a {species} in the garden of {garden}. Let the society know.",
            "Log one {species}, garden of {garden}.",
            "Please pass on that there is a {species} at {garden}'s, in the garden.",
        ),
    ),
    Tool(
        "rent_vehicle",
        "Hire something to drive.",
        {"kind": ("string", "kind of vehicle", pick(VEHICLES)), "days": ("integer", "for how many days", whole(1, 21))},
        (
            "We need a {kind} for {days} days.",
            "hire a {kind}, {days} days",
            "Can I have the {kind}? I would bring it back after {days} days.",
        ),
    ),
    Tool(
        "message_colleague",
        "Send a short note to someone at work.",
        {
            "colleague": ("string", "who gets it", pick(FOLK)),
            "note": (
                "string",
                "what it says",
                pick(["lunch is ready", "call me back", "the printer works again", "I am late"]),
            ),
        },
        ('Tell {colleague} "{note}".', 'Drop {colleague} a line that says "{note}".', 'msg to {colleague}: "{note}"'),
    ),
    Tool(
        "convert_length",
        "Change metres to feet.",
        {"metres": ("number", "length in metres", whole(2, 400))},
        (
            "What is {metres} metres in feet?",
            "{metres} m -> ft",
            "My plot is {metres} metres long. I want that in feet.",
        ),
    ),
    Tool(
        "set_alarm_clock",
        "Make the clock ring.",
        {"hour": ("integer", "0 to 23", whole(0, 23)), "minute": ("integer", "0 to 59", whole(10, 59))},
        (
            "Wake me at {hour}:{minute}.",
            "alarm {hour}:{minute}",
            "I have to get up at {hour}:{minute}, make sure I do.",
        ),
    ),
    Tool(
        "share_price",
        "Latest price of a company's stock.",
        {"ticker": ("string", "symbol at the exchange", pick(["ZQRT", "BLMN", "OPFX", "TTWY"]))},
        ("How is {ticker} doing at the stock exchange?", "quote for {ticker}", "What does one {ticker} share go for?"),
    ),
    Tool(
        "water_plants",
        "Open the valve of a flower bed.",
        {
            "bed": ("string", "which bed", pick(["roses", "tomatoes", "ferns", "herbs"])),
            "litres": ("integer", "how much water", whole(1, 60)),
        },
        (
            "The {bed} look dry, give them {litres} litres.",
            "{litres} l on the {bed}",
            "Water the {bed} with {litres} litres, will you?",
        ),
    ),
    Tool(
        "find_lost_item",
        "Search the lost-property office.",
        {"item": ("string", "what was lost", pick(["umbrella", "wallet", "glove", "violin case"]))},
        ("I left my {item} on the bus. Has it turned up?", "lost: {item}", "Did anybody hand in a {item}?"),
    ),
)
IDLE = (
    "Thank you, that will be all.",
    "Great, see you tomorrow!",
    "hello there",
    "ok thx bye",
    "You have been very helpful.",
)


def calls(tool: Tool, values: Mapping[str, Any]) -> Verdict:
    def verdict(answer: Answer) -> str:
        if len(answer.calls) != 1:
            return f"{len(answer.calls)} calls"
        call = answer.calls[0]
        if call["name"] != tool.name:
            return f"calls {call['name']}"
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            return "arguments are not JSON"
        return compare(arguments, values) if isinstance(arguments, dict) else "arguments are no object"

    return verdict


def calls_nothing(answer: Answer) -> str:
    if answer.calls:
        return f"calls {answer.calls[0]['name']}"
    if any(mark in answer.text for mark in MARKS):
        return "begins a call"
    return "" if answer.text.strip() else "says nothing"


def question(rng: random.Random, index: int, figure: str) -> Question:
    tool = TOOLS[index % len(TOOLS)]
    others = rng.sample([other for other in TOOLS if other is not tool], rng.choice((0, 1, 2, 3)))
    offered = rng.sample([tool, *others], len(others) + 1)
    schemas = [one.schema() for one in offered]
    names = [one.name for one in offered]
    if index % 10 == 9:
        text = rng.choice(IDLE)
        return chat(
            figure, text, calls_nothing, max_tokens=80, tools=schemas, expected="no call", facts={"tools": names}
        )
    values = {name: make(rng) for name, (_, _, make) in tool.fields.items()}
    text = rng.choice(tool.asks).format(**values)
    keep: Sequence[str] = [str(value) for value in values.values()]
    prompt, voice = voiced(text, rng, keep, only=("plain", "lower", "typos", "polite", "grumpy", "chatty"))
    expected = {"name": tool.name, "arguments": values}
    facts = {"tools": names, "voice": voice}
    return chat(figure, prompt, calls(tool, values), max_tokens=120, tools=schemas, expected=expected, facts=facts)


def questions(count: int, seed: int, figure: str) -> list[Question]:
    return [question(random.Random(f"tools {seed} {index}"), index, figure) for index in range(count)]
