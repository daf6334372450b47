"""Answers of a form: JSON from a text, tool calls from a request, and what is said when a tool has answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from training import facts, facts_questions, facts_talk
from training.data_chat import Chat, Phrases, Split, Turn, held
from training.facts_find import draw_facts
from training.facts_talk import SYSTEMS

Value = Callable[[Random], Any]


def _of(words: list[str]) -> Value:
    return lambda rng: rng.choice(words)


def _number(low: int, high: int) -> Value:
    return lambda rng: rng.randint(low, high)


def _time(rng: Random) -> str:
    return f"{rng.randint(0, 23):02}:{rng.choice((0, 15, 30, 45)):02}"


def _date(rng: Random) -> str:
    return f"{rng.choice(facts.MONTHS)} {rng.randint(1, 28)}"


def _full_name(rng: Random) -> str:
    return f"{rng.choice(facts.NAMES)} {rng.choice(facts.SURNAMES)}"


def _thing(rng: Random) -> str:
    return f"{rng.choice(facts.RICH_COLOURS)} {rng.choice(facts.THINGS)}"


# -- JSON

FIELDS: dict[str, tuple[Value, str]] = {
    "name": (_full_name, "The name is {}."), "age": (_number(4, 99), "The age is {}."), "city": (_of(facts.CITIES),
    "The city is {}."),
    "job": (_of(facts.JOBS), "The job is {}."), "color": (_of(facts.COLOURS), "The color is {}."),
    "price": (_number(1, 999), "The price is {}."), "quantity": (_number(1, 50), "The quantity is {}."),
    "item": (_thing, "The item is {}."), "day": (_of(facts.DAYS), "The day is {}."), "time": (_time, "The time is {}."),
    "animal": (_of(facts.ANIMALS), "The animal is {}."), "fruit": (_of(facts.FRUITS), "The fruit is {}."),
    "month": (_of(facts.MONTHS), "The month is {}."), "weather": (_of(facts.WEATHER), "The weather is {}."),
    "material": (_of(facts.MATERIALS), "The material is {}."), "sport": (_of(facts.SPORTS), "The sport is {}."),
    "room": (_number(1, 400), "The room is {}."), "weight": (_number(1, 900), "The weight is {}."),
    "active": (lambda rng: rng.random() < 0.5, "The active flag is {}."), "food": (_of(facts.FOODS), "The food is {}."),
}  # fmt: skip
_person = Phrases(
    "I know {name}, who is {age} and lives in {city}.", "This is {name} ({age}) from {city}.",
    "Say hello to {name}, {age} years old, of {city}.", "Yesterday I saw {name} in {city}; the age is {age}.",
    "Name: {name}. Age: {age}. Home: {city}.", "{city} is the home of {name}, age {age}.",
    "We visited {name}, {age}, in {city}.", "At the age of {age}, {name} lives in {city}.",
    "Our guest {name}, from {city}, is {age}.", "{age} years ago {name} was born in {city}.",
    "Here comes {name} from {city}, {age} years old.", "Ask {name}, {age}, who stays in {city}.",
    "Please welcome {name} of {city}, aged {age}.", "I spoke with {name}, {age}, of {city}.",
    "{name} is {age} years old and lives in {city}.", "{name}, aged {age}, lives in {city}.",
    "In {city} lives {name}, who is {age}.",
    "My friend {name} from {city} is {age} years old.", "{name} lives in {city} and is {age}.",
    "Meet {name}, {age}, from {city}.", exact=True,
)  # fmt: skip
_order = Phrases(
    "{name} paid {price} dollars for {quantity} {item}.", "Sold: {quantity} {item} to {name}, {price} dollars.",
    "{price} dollars is what {name} gave for {quantity} {item}.",
    "{name} takes {quantity} {item}. Price: {price} dollars.",
    "Send {quantity} {item} to {name} and ask for {price} dollars.",
    "We sold {name} {quantity} {item} at {price} dollars.",
    "{quantity} {item} cost {name} {price} dollars.", "{name} wants {quantity} {item} and will pay {price} dollars.",
    "Yesterday {name} spent {price} dollars on {quantity} {item}.",
    "With {price} dollars {name} bought {quantity} {item}.",
    "{name} orders {quantity} {item} for {price} dollars.", "Order: {quantity} {item}, {price} dollars, for {name}.",
    "{quantity} {item} were bought by {name} for {price} dollars.",
    "{name} bought {quantity} {item} and paid {price} dollars.",
    "For {price} dollars, {name} got {quantity} {item}.", exact=True,
)  # fmt: skip
_want = Phrases(
    "JSON with {keys}.",
    "As JSON: {keys}.",
    "Output JSON. Fields: {keys}.",
    "I want JSON with the fields {keys}.",
    "Please answer in JSON, with {keys}.",
    "Give {keys} in JSON.",
    "Return an object with {keys}.",
    "Put {keys} into a JSON object.",
    "Format the answer as JSON with {keys}.",
    "Fill a JSON object: {keys}.",
    "Use JSON. The keys are {keys}.",
    "json: {keys}",
    "Produce a JSON object that has {keys}.",
    "Show me {keys} as a JSON object.",
    "Write JSON that holds {keys}.",
    "The result should be JSON with the keys {keys}.",
    "Read {keys} from the text and answer in JSON.",
    "Can you give me {keys} as JSON?",
    "Answer in JSON with the keys {keys}.", "Give me a JSON object with {keys}.", "Extract {keys} as JSON.",
    "Return JSON with these fields: {keys}.", "Write it as a JSON object with the keys {keys}.",
    "JSON please, with {keys}.",
    "Convert this to JSON. Keys: {keys}.", "Reply only with JSON, keys {keys}.", "I need this as JSON with {keys}.",
    "Make a JSON object from it, with the fields {keys}.",
)  # fmt: skip


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _keys(keys: list[str], rng: Random) -> str:
    if rng.random() < 0.5:
        return ", ".join(keys)
    return ", ".join(keys[:-1]) + (" and " if len(keys) > 1 else "") + keys[-1]


def json_answer(rng: Random, split: Split) -> Chat:
    """A text and the keys that are wanted of it."""
    while True:
        chat = rng.choice((_json_fields, _json_fields, _json_sentence, _json_list, _json_lookup))(rng, split)
        if held("json", *chat.combination) == (split == "held"):
            return chat


def _json_fields(rng: Random, split: Split) -> Chat:
    keys = rng.sample(list(FIELDS), rng.randint(2, 6))
    values = {key: FIELDS[key][0](rng) for key in keys}
    lines = [FIELDS[key][1].format(_said(value)) for key, value in values.items()]
    if rng.random() < 0.3:
        lines = [f"{key}: {_said(value)}" for key, value in values.items()]
    wanted = dict(values)
    if rng.random() < 0.35:  # fewer keys than the text has, in another order
        chosen = rng.sample(keys, rng.randint(1, len(keys)))
        wanted = {key: values[key] for key in chosen}
    return _json_chat(
        " ".join(lines) if rng.random() < 0.7 else "\n".join(lines), wanted, tuple(sorted(keys)), rng, split
    )


def _json_sentence(rng: Random, split: Split) -> Chat:
    if rng.random() < 0.5:
        values = {"name": _full_name(rng), "age": rng.randint(4, 99), "city": rng.choice(facts.CITIES)}
        text = _person.pick(rng, split).format(**values)
    else:
        item = f"{rng.choice(facts.RICH_COLOURS)} {facts.plural(rng.choice(facts.THINGS))}"
        values = {
            "name": rng.choice(facts.NAMES),
            "quantity": rng.randint(2, 50),
            "item": item,
            "price": rng.randint(1, 999),
        }
        text = _order.pick(rng, split).format(**values)
    return _json_chat(text, values, (values["name"], *sorted(values)), rng, split)


def _json_list(rng: Random, split: Split) -> Chat:
    kind = rng.choice(list(facts.CATEGORIES))
    words = rng.sample(facts.CATEGORIES[kind], rng.randint(2, 5))
    key = facts.plural(kind).replace(" ", "_")
    text = f"My {facts.plural(kind)} are {', '.join(words[:-1])} and {words[-1]}."
    return _json_chat(text, {key: words, "count": len(words)}, (key, *sorted(words)), rng, split)


def _json_lookup(rng: Random, split: Split) -> Chat:
    found = draw_facts(rng, split, rng.randint(2, 6))
    key = found[0].key
    own = {fact.attribute.replace(" ", "_"): fact.value for fact in found if fact.key == key}
    text = " ".join(fact.told(rng, split) for fact in rng.sample(found, len(found)))
    chat = _json_chat(text, own, (key, *sorted(own)), rng, split)
    chat.turns[0].text += f" The object is about {key}."
    return chat


def _json_chat(text: str, wanted: dict[str, Any], combination: tuple[object, ...], rng: Random, split: Split) -> Chat:
    order = _want.pick(rng, split).format(keys=_keys(list(wanted), rng))
    user = f"{text}\n\n{order}" if rng.random() < 0.6 else f"{order}\n{text}"
    answer = json.dumps(wanted, ensure_ascii=False)
    if rng.random() < 0.25:
        answer = json.dumps(wanted, ensure_ascii=False, indent=2)
        user += " Use indentation."
    turns = [Turn("user", user), Turn("assistant", answer)]
    system = SYSTEMS.pick(rng, split) if rng.random() < 0.3 else ""
    return Chat(turns, "json", combination, system, expect=wanted)


# -- tools


@dataclass(frozen=True)
class Tool:
    name: str
    about: str
    parameters: dict[str, tuple[Value, str]]  # name: (value, JSON type)
    requests: Phrases
    result: Callable[[Random, dict[str, Any]], dict[str, Any]]
    final: str  # the answer, from arguments and result

    def signature(self, described: bool = False) -> dict[str, Any]:
        """As clients send it; some describe every parameter."""
        properties = {name: {"type": kind} for name, (_, kind) in self.parameters.items()}
        if described:
            for name, entry in properties.items():
                entry["description"] = f"The {name} of the {self.name.split('_')[-1]}."
        parameters = {"type": "object", "properties": properties, "required": list(self.parameters)}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


_city = (_of(facts.CITIES), "string")
HAND_MADE = (
    Tool("get_weather", "Get the weather of a city.", {"city": _city},
         Phrases("What is the weather in {city}?", "How is the weather in {city} today?", "Is it raining in {city}?",
         "Tell me the weather in {city}.",
                 "Do I need an umbrella in {city}?", "weather {city}", "I travel to {city}. How is the weather?",
                 "Check the weather in {city}, please."),
         lambda rng, _: {"weather": rng.choice(facts.WEATHER), "degrees": rng.randint(-10, 35)},
         "It is {weather} in {city}, with {degrees} degrees."),
    Tool("get_forecast", "Get the forecast for some days.", {"city": _city, "days": (_number(1, 14), "integer")},
         Phrases("Give me the forecast for {city} for {days} days.",
         "What will the weather in {city} be in the next {days} days?",
                 "Forecast for {days} days in {city}, please.", "I stay {days} days in {city}. What is the forecast?",
                 "Show the {days} day forecast of {city}.", "How will the next {days} days be in {city}?"),
         lambda rng, _: {"weather": rng.choice(facts.WEATHER)},
         "The forecast for {city} is {weather} for {days} days."),
    Tool("get_time", "Get the local time of a city.", {"city": _city},
         Phrases("What time is it in {city}?", "Tell me the time in {city}.", "How late is it in {city} now?",
         "Current time in {city}?",
                 "What is the local time in {city}?", "Which hour is it in {city}?"),
         lambda rng, _: {"time": _time(rng)}, "It is {time} in {city}."),
    Tool("add", "Add two numbers.", {"a": (_number(1, 999), "integer"), "b": (_number(1, 999), "integer")},
         Phrases("Use the tool to add {a} and {b}.", "Add {a} and {b}.", "What is {a} plus {b}?",
         "Please add {a} to {b} with the tool.",
                 "Sum up {a} and {b}.", "Calculate {a} + {b}.", "How much is {a} + {b}?"),
         lambda _, given: {"result": given["a"] + given["b"]}, "The result is {result}."),
    Tool("multiply", "Multiply two numbers.", {"a": (_number(1, 999), "integer"), "b": (_number(1, 999), "integer")},
         Phrases("Multiply {a} by {b}.", "What is {a} times {b}?", "Use the tool to multiply {a} and {b}.",
         "Calculate {a} * {b}.",
                 "How much is {a} times {b}?", "Find the product of {a} and {b}."),
         lambda _, given: {"result": given["a"] * given["b"]}, "The result is {result}."),
    Tool("send_message", "Send a message to a person.", {"to": (_of(facts.NAMES), "string"), "text": (
             lambda rng: rng.choice(("I am late", "the meeting is moved", "dinner is ready", "call me back",
             "good luck",
                                     "see you soon", "the train is delayed")) + rng.choice(("", " today",
                                     " on " + rng.choice(facts.DAYS))), "string")},
         Phrases('Send a message to {to}: "{text}"', 'Tell {to} "{text}".', "Write to {to} that {text}.",
         'Message {to}: "{text}"',
                 'Let {to} know: "{text}"', 'Please send {to} the message "{text}".'),
         lambda rng, _: {"status": "sent"}, "Your message to {to} was sent."),
    Tool("set_alarm", "Set an alarm.", {"time": (_time, "string")},
         Phrases("Set an alarm for {time}.", "Wake me up at {time}.", "I need an alarm at {time}.",
         "Alarm at {time}, please.",
                 "Please wake me at {time}.", "Could you set the alarm to {time}?"),
         lambda rng, _: {"status": "ok"}, "The alarm is set for {time}."),
    Tool("create_event", "Put an event into the calendar.",
    {"title": (lambda rng: rng.choice(facts.SPORTS + facts.SUBJECTS) + " lesson", "string"),
             "day": (_of(facts.DAYS), "string"), "time": (_time, "string")},
         Phrases("Add a {title} on {day} at {time} to my calendar.", "Create an event: {title}, {day}, {time}.",
                 "Put {title} into my calendar for {day} at {time}.", "I have a {title} on {day} at {time}. Note it.",
                 "Schedule a {title} for {day}, {time}.", "Plan a {title} at {time} on {day}."),
         lambda rng, _: {"status": "created"}, "I added {title} on {day} at {time}."),
    Tool("search_books", "Search for books on a subject.", {"subject": (_of(facts.SUBJECTS + facts.ANIMALS), "string")},
         Phrases("Find books about {subject}.", "Search for books on {subject}.", "Are there books about {subject}?",
         "I want to read about {subject}.",
                 "Look for a book on {subject}.", "Which books on {subject} are there?"),
         lambda rng, _: {"count": rng.randint(1, 90)}, "I found {count} books about {subject}."),
    Tool("translate", "Translate a word.", {"word": (_of(facts.ANIMALS + facts.FRUITS + facts.FOODS), "string"),
             "language": (_of(facts.words("French German Spanish Italian Polish Swedish Dutch Greek")), "string")},
         Phrases("Translate {word} into {language}.", "What is {word} in {language}?",
         "How do you say {word} in {language}?",
                 "{language} for {word}?", "Give me the {language} word for {word}.", "I need {word} in {language}."),
         lambda rng, _: {"translation": "".join(rng.choices("aeioulnrst", k=rng.randint(4, 7)))},
         "In {language}, {word} is {translation}."),
    Tool("convert_money", "Convert an amount of money.", {"amount": (_number(1, 900), "integer"),
             "source": (_of(facts.words("USD EUR GBP JPY CHF SEK")), "string"),
             "target": (_of(facts.words("INR CAD AUD BRL NOK PLN")), "string")},
         Phrases("Convert {amount} {source} to {target}.", "How much is {amount} {source} in {target}?",
         "{amount} {source} in {target}?",
                 "Change {amount} {source} into {target}.", "What are {amount} {source} worth in {target}?",
                 "Turn {amount} {source} into {target}."),
         lambda rng, _: {"result": rng.randint(2, 9000)}, "{amount} {source} are {result} {target}."),
    Tool("play_music", "Play music of an instrument.", {"instrument": (_of(facts.INSTRUMENTS), "string"),
    "volume": (_number(1, 10), "integer")},
         Phrases("Play {instrument} music at volume {volume}.", "I want to hear the {instrument}, volume {volume}.",
         "Put on some {instrument} at {volume}.",
                 "Play the {instrument} with volume {volume}.", "Some {instrument} music, please, volume {volume}."),
         lambda rng, _: {"status": "playing"}, "Now playing {instrument} music."),
    Tool("book_table", "Book a table in a restaurant.", {"people": (_number(1, 12), "integer"),
    "day": (_of(facts.DAYS), "string"), "city": _city},
         Phrases("Book a table for {people} on {day} in {city}.",
         "I need a table in {city} for {people} people on {day}.",
                 "Reserve a table for {people} people in {city} on {day}.",
                 "Get us a table on {day} in {city}, we are {people}.",
                 "A table for {people} in {city} on {day}, please.",
                 "On {day} we want a table for {people} in {city}."),
         lambda rng, _: {"number": rng.randint(100, 999)},
         "Your table for {people} on {day} is booked. The number is {number}."),
    Tool("find_train", "Find a train between two cities.", {"start": _city, "destination": _city,
    "day": (_of(facts.DAYS), "string")},
         Phrases("Find a train from {start} to {destination} on {day}.",
         "Is there a train from {start} to {destination} on {day}?",
                 "I want to go from {start} to {destination} on {day}.", "Trains from {start} to {destination}, {day}?",
                 "On {day} I travel from {start} to {destination}. Find a train.",
                 "Show me trains on {day} from {start} to {destination}."),
         lambda rng, _: {"departure": _time(rng)}, "There is a train from {start} to {destination} at {departure}."),
    Tool("read_file", "Read a file.",
    {"path": (lambda rng: f"{rng.choice(facts.SUBJECTS)}/{rng.choice(facts.THINGS)}.txt", "string")},
         Phrases("Read the file {path}.", "Open {path}.", "What is in {path}?", "Show me {path}.",
         "Please read {path} for me.", "Print the content of {path}."),
         lambda rng, _: {"content": f"{rng.choice(facts.RICH_COLOURS)} {rng.choice(facts.THINGS)}"},
         "The file says: {content}."),
    Tool("run_command", "Run a shell command.", {"command": (lambda rng: rng.choice(("ls", "cat", "wc -l", "head",
    "rm", "stat")) + " " +
             rng.choice(facts.THINGS) + rng.choice((".txt", ".py", ".md")), "string")},
         Phrases("Run the command {command}.", "Execute `{command}`.", "Please run {command}.",
         "Type {command} in the shell.", "Run `{command}` for me.", "Do {command} in a terminal."),
         lambda rng, _: {"output": rng.choice(facts.RICH_COLOURS)}, "The output is: {output}."),
)  # fmt: skip

VERBS = facts.words(
    "create update delete open close find count start stop move copy print check order cancel rename lock inspect"
)
NOUNS = facts.words(
    "order account file report ticket user photo song note device robot ship task invoice garden recipe parcel sensor"
)
_generic = Phrases(
    "I need you to {verb} a {noun} with {pairs}.",
    "Could you {verb} the {noun}? {pairs}.",
    "{verb} this {noun}: {pairs}",
    "Go and {verb} the {noun}, {pairs}.",
    "Now {verb} a {noun} with {pairs}.",
    "Would you {verb} the {noun} with {pairs}?",
    "Time to {verb} the {noun}: {pairs}.",
    "Let us {verb} a {noun} with {pairs}.",
    "Run {name} with {pairs}.",
    "{name}: {pairs}",
    "Please use {name}, {pairs}.",
    "{verb} the {noun} with {pairs}.", "Please {verb} a {noun}: {pairs}.",
    "I want to {verb} the {noun} with {pairs}.", "{verb} {noun}, {pairs}",
    "Can you {verb} the {noun} with {pairs}?", "Use {name} with {pairs}.", "Call {name} with {pairs}.",
    "{verb} one {noun} where {pairs}.",
    "Could you please {verb} the {noun} where {pairs}?",
)  # fmt: skip


NO_TOOL = (facts_talk.small_talk, facts_questions.explain, facts_questions.opposite, facts_talk.introduction)


def _generic_tool(rng: Random) -> Tool:
    verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
    keys = rng.sample([key for key in FIELDS if key != "active"], rng.randint(1, 4))
    kinds = {key: "integer" if key in ("age", "price", "quantity", "room", "weight") else "string" for key in keys}
    parameters = {key: (FIELDS[key][0], kinds[key]) for key in keys}
    name = rng.choice((f"{verb}_{noun}", f"{verb}_{noun}", f"{verb}{noun.capitalize()}", f"{noun}_{verb}"))

    def result(rng: Random, given: dict[str, Any]) -> dict[str, Any]:
        return {"status": rng.choice(("ok", "done", "failed")), "id": rng.randint(10, 999)}

    final = f"The {noun} has the number {{id}} and the status is {{status}}."
    requests = Phrases(*(text.replace("{verb}", verb).replace("{noun}", noun).replace("{name}", name)
                         for text in (*_generic.trained, *_generic.held)))  # fmt: skip
    return Tool(name, f"{verb.capitalize()} {facts.an(noun)}.", parameters, requests, result, final)


def _request(tool: Tool, given: dict[str, Any], rng: Random, split: Split) -> str:
    pairs = ", ".join(f"{key} {value}" for key, value in given.items())
    text = tool.requests.pick(rng, split).format(pairs=pairs, **given)
    return text[0].upper() + text[1:]


def tool_call(rng: Random, split: Split, finish: bool | None = None) -> Chat:
    """One to five tools, a request that needs one of them, its call; mostly also what the tool says and the answer.

    `finish` False stops at the call.
    """
    while True:
        tool = _generic_tool(rng) if rng.random() < 0.5 else rng.choice(HAND_MADE)
        given = {key: value(rng) for key, (value, _) in tool.parameters.items()}
        if held("tool", tool.name, *given.values()) == (split == "held"):
            break
    others: dict[str, Tool] = {}
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4))):
        other = _generic_tool(rng) if rng.random() < 0.5 else rng.choice(HAND_MADE)
        if other.name != tool.name:
            others[other.name] = other
    tools = [tool, *others.values()]
    rng.shuffle(tools)
    turns: list[Turn] = []
    if split == "train" and rng.random() < 0.2:  # a tool is there, and nobody needs it
        other_talk = facts_talk.draw(rng.choice(NO_TOOL), rng, split)
        turns += [Turn("user", other_talk.user), Turn("assistant", other_talk.answer)]
    turns += [Turn("user", _request(tool, given, rng, split)), Turn("assistant", calls=[(tool.name, given)])]
    expect: Any = (tool.name, given)
    if finish if finish is not None else rng.random() < 0.7:
        found = tool.result(rng, given)
        turns += [Turn("tool", json.dumps(found)), Turn("assistant", tool.final.format(**{**given, **found}))]
        expect = next(iter(found.values()))
        if finish is None and rng.random() < 0.4:  # and again, with other values or another tool
            again = rng.choice(tools)
            given = {key: value(rng) for key, (value, _) in again.parameters.items()}
            if held("tool", again.name, *given.values()) == (split == "held"):
                turns += [
                    Turn("user", _request(again, given, rng, split)),
                    Turn("assistant", calls=[(again.name, given)]),
                ]
                expect = (again.name, given)
    system = SYSTEMS.pick(rng, split) if rng.random() < 0.4 else ""
    described = rng.random() < 0.35
    return Chat(turns, "tools", (tool.name,), system, [one.signature(described) for one in tools], expect)
