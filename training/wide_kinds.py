"""JSON and tool calls about anything: the records of `wide_schemas`, and records put together from WordNet's kinds.

Names of values are read for their meaning: a schema has other names each time, and mostly it is not in the prompt, as when
the server enforces it by a grammar.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_orders, wide_schemas, wide_short, wide_talk
from training.data_chat import Chat, Turn
from training.sources import records
from training.wide_facts import capital, typed
from training.wide_listed import listed
from training.wide_long import joined, system
from training.wide_talk import lines, spelled

Draw = Callable[[Random], Any]


@cache
def kinds() -> dict[str, list[str]]:
    path = records() / "kinds.json"
    known: dict[str, list[str]] = json.loads(path.read_text()) if path.exists() else {}
    return known or {"tree": ["oak", "pine", "elm", "ash"], "tool": ["saw", "axe", "drill", "rake"]}


# -- the records of wide_schemas


@dataclass(frozen=True)
class Yes:
    """A value that is true or false, told by phrases."""

    yes: str
    no: str


@dataclass(frozen=True)
class Slot:
    names: tuple[str, ...]
    how: Draw | Yes
    whole: bool = False  # may be told in words
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    tools: tuple[str, ...]
    slots: dict[str, Slot]
    told: list[str]
    requests: list[str]


SIMPLE: dict[str, Draw] = {
    "p": lambda rng: f"{wide.first_name(rng)} {wide.last_name(rng)}" if rng.random() < 0.75 else wide.person(rng),
    "f": wide.first_name, "t": wide.town, "s": wide.site, "d": wide.date, "w": lambda rng: rng.choice(facts.DAYS), "h": wide.clock,
    "y": lambda rng: rng.randint(1200, 2060), "c": wide.code, "g": lambda rng: rng.choice((wide.phrase(rng), capital(wide.made_up(rng)), capital(wide.noun(rng)))),
    "*": lambda rng: rng.choice(rng.choice(list(kinds().values()))[:20]), "n": wide.noun, "m": wide.mail, "ip": wide.ip, "ph": wide.phone,
}  # fmt: skip


def _between(low: int, high: int) -> Draw:
    """Small numbers are as likely as large ones."""

    def draw(rng: Random) -> int:
        if low >= 0 and high > 100 and rng.random() < 0.5:
            return min(high, max(low, int(10 ** rng.uniform(0, len(str(high)) - 0.5))))
        return rng.randint(low, high)

    return draw


def _slot(text: str) -> tuple[str, Slot]:
    letter, _, rest = text.strip().partition(": ")
    names, _, how = rest.partition("=")
    found = tuple(names.split())
    if how.startswith("b "):
        yes, no = how[2:].split("/")
        return letter, Slot(found, Yes(yes.strip(), no.strip()))
    number = re.fullmatch(r"([ix])(-?\d+)-(\d+)", how)
    if number and number[1] == "i":
        return letter, Slot(found, _between(int(number[2]), int(number[3])), True)
    if number:
        low, high = int(number[2]), int(number[3])
        return letter, Slot(found, lambda rng: round(rng.uniform(low, high), 1))
    if how in SIMPLE:
        return letter, Slot(found, SIMPLE[how])
    words = tuple(how.split(","))
    return letter, Slot(found, lambda rng: rng.choice(words), choices=words)


@cache
def known() -> list[Record]:
    found = []
    for block in (wide_schemas.RECORDS.strip() + "\n\n" + wide_short.RECORDS.strip()).split("\n\n"):
        head, sentences, asked = block.split("\n")
        tools, _, slots = head.partition(" | ")
        named = dict(_slot(slot) for slot in slots.split("; "))
        found.append(Record(tuple(tools.split()), named, lines(sentences[2:]), lines(asked[2:])))
    return found


@dataclass(frozen=True)
class Drawn:
    text: str
    request: str
    tool: str
    values: dict[str, Any]  # of the text, by this schema's names
    asked: dict[str, Any]  # of the request


def told(value: Any, slot: Slot, rng: Random) -> str:
    if isinstance(slot.how, Yes):
        return slot.how.yes if value else slot.how.no
    if slot.whole and 0 <= value <= 20 and rng.random() < 0.15:
        return spelled(value)
    if slot.whole and value > 999 and rng.random() < 0.15:
        return f"{value:,}"
    return str(value)


def styled(name: str, style: int) -> str:
    parts = name.split("_")
    if style == 1:
        return parts[0] + "".join(map(capital, parts[1:]))
    return "-".join(parts) if style == 2 else name


def record(rng: Random) -> Drawn:
    one = rng.choice(known())
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    style = rng.choice((0, 0, 0, 0, 1, 2))
    for letter, slot in one.slots.items():
        values[letter] = rng.random() < 0.5 if isinstance(slot.how, Yes) else slot.how(rng)
        free = [name for name in slot.names if styled(name, style) not in names.values()]
        names[letter] = styled(rng.choice(free or [letter]), style)
    said = {letter: told(values[letter], slot, rng) for letter, slot in one.slots.items()}
    text, request = rng.choice(one.told), rng.choice(one.requests)
    return Drawn(
        " ".join(text.format(**said).split()),
        request.format(**said),
        rng.choice(one.tools),
        {names[letter]: value for letter, value in values.items() if f"{{{letter}}}" in text},
        {names[letter]: value for letter, value in values.items() if f"{{{letter}}}" in request},
    )


# -- records put together

VERBS = (
    """sold:seller vendor merchant dealer:sell|bought:buyer customer purchaser shopper:buy|painted:painter artist:paint|repaired:repairer
technician mechanic:repair|delivered:courier driver carrier deliverer:deliver|found:finder discoverer:find|stole:thief culprit suspect:steal|
photographed:photographer:photograph|collected:collector:collect|cooked:cook chef:cook|sewed:tailor:sew|borrowed:borrower:borrow|lent:lender:lend|
rented:renter tenant:rent|inspected:inspector examiner:inspect|designed:designer architect:design|donated:donor giver:donate|ordered:customer
client:order|packed:packer:pack|tested:tester:test|drew:illustrator draftsman:draw|carved:carver sculptor:carve|hid:hider:hide|counted:counter
observer:count|measured:surveyor:measure|reported:reporter witness:report|won:winner champion:win|lost:loser owner:lose|returned:returner:return|
imported:importer:import|exported:exporter:export|brought:bringer helper:bring|made:maker manufacturer:make|built:builder contractor:build|described:
author writer:describe|studied:researcher scientist student:study|guarded:guard keeper:guard|owned:owner proprietor:own|requested:requester
applicant:request|received:receiver recipient:receive|sent:sender shipper:send|cleaned:cleaner:clean|loaded:loader:load|stored:storekeeper:store|
weighed:weigher:weigh|wrapped:wrapper:wrap|auctioned:auctioneer:auction|invented:inventor:invent|recommended:adviser critic:recommend|rejected:
reviewer:reject|approved:approver manager:approve|shipped:shipper:ship|stacked:worker:stack|dropped:person:drop|admired:visitor fan:admire""".replace(
        "\n", " "
    )
    .replace(": ", ":")
    .replace("| ", "|")
    .split("|")
)
PARTICIPLES = lines("""heated|insured|signed|waterproof|refundable|fragile|used|locked|polished|damaged|organic|handmade|imported|frozen|rare|
certified|painted|sealed|recycled|taxable|gift-wrapped|rented|broken|washed|vegan|electric|portable|registered|expired|reserved|prepaid|antique|
foldable|spicy|boxed|labeled|tested|urgent|final|private|licensed|salted|smoked|mounted|framed|tame|poisonous|edible|noisy|valuable""")
SUBJECT = ("person", "name", "who", "full_name")
WHERE = lines("where|place|location|city|town|spot|site|region|venue|seen_in|market|branch|area|locality")
WHEN = lines("when|day|date|on|weekday|day_of_event|happened_on|scheduled")
PRICES = lines("price|cost|amount|total|paid|value|sum|fee|euros|money|charge|expense")
TOLD_PRICE = lines("for {} euros|at a price of {}|costing {}|and {} euros changed hands|for {} in all|worth {}")
UNITS = {
    "kg": ("weight", "kilos", "mass_kg", "weight_kg"), "meters": ("length", "meters", "size_m", "how_long"), "years": ("age", "years", "years_old"),
    "liters": ("volume", "liters", "capacity"), "hours": ("duration", "hours", "time_needed", "how_long"), "km": ("distance", "kilometers", "km"),
    "pages": ("pages", "length", "page_count"), "degrees": ("temperature", "degrees", "heat"), "percent": ("percent", "share", "proportion"),
    "days": ("days", "period", "how_many_days"), "watts": ("power", "watts", "wattage"), "points": ("points", "score", "mark"),
}  # fmt: skip


def composed(rng: Random) -> Drawn:
    """Somebody did something with things of a kind, somewhere, some time, for a price."""
    past, agents, verb = (part.strip() for part in rng.choice(VERBS).split(":"))
    category = rng.choice(list(kinds()))
    member = rng.choice(kinds()[category][: rng.choice((6, 15, 40))])
    kind = category.replace(" ", "_")
    person = SIMPLE["p"](rng)
    values: dict[str, Any] = {}
    agent = rng.choice((*agents.split() * 2, *SUBJECT))
    values[rng.choice((agent, agent, f"{agent.removesuffix('_name')}_name"))] = person
    count = rng.choice((0, 0, rng.randint(2, 20), rng.randint(2, 400)))
    plural = facts.plural(member)
    if count:
        thing = f"{spelled(count) if count <= 20 and rng.random() < 0.3 else count} {plural}"
        values[
            rng.choice(
                (
                    "count",
                    "quantity",
                    "number",
                    "how_many",
                    "amount",
                    f"{kind}_count",
                    f"number_of_{facts.plural(kind)}",
                    facts.plural(kind),
                )
            )
        ] = count
    else:
        thing = rng.choice((facts.an(member), f"the {member}", facts.an(member)))
    values[
        rng.choice(
            (
                kind,
                kind,
                kind,
                kind,
                f"{kind}_type",
                f"type_of_{kind}",
                f"kind_of_{kind}",
                f"which_{kind}",
                "item",
                "object",
                "what",
            )
        )
    ] = plural if count and rng.random() < 0.5 else member
    if count and member not in values.values() and plural not in values.values():
        values["item"] = plural
    parts = []
    if rng.random() < 0.5:
        place = rng.choice((wide.town(rng), wide.site(rng)))
        parts.append(f"{rng.choice(('in', 'at', 'near'))} {place}")
        values[rng.choice(WHERE)] = place
    if rng.random() < 0.4:
        day = wide.date(rng)
        parts.append(f"on {day}")
        values[rng.choice(WHEN)] = day
    if rng.random() < 0.35:
        price = _between(1, 5000)(rng)
        parts.append(rng.choice(TOLD_PRICE).format(price))
        values[rng.choice([name for name in PRICES if name not in values])] = price
    rng.shuffle(parts)
    ends = []
    if rng.random() < 0.35:
        flag, yes = rng.choice(PARTICIPLES), rng.random() < 0.5
        it = "they are" if count else "it is"
        ends.append(
            rng.choice((f"{it} {'' if yes else 'not '}{flag}", f"{it} {flag}" if yes else f"{it} by no means {flag}"))
        )
        values[rng.choice(("{}", "{}", "is_{}")).format(re.sub("-", "_", flag))] = yes
    if rng.random() < 0.35:
        unit = rng.choice(list(UNITS))
        number = _between(1, 900)(rng)
        ends.append(
            rng.choice(
                (
                    f"{number} {unit} each" if count else f"{number} {unit}",
                    f"we noted {number} {unit}",
                    f"{unit}: {number}",
                )
            )
        )
        values[rng.choice([name for name in UNITS[unit] if name not in values] or [f"{unit}_noted"])] = number
    tail = f" {' '.join(parts)}" if parts else ""
    text = rng.choice((f"{person} {past} {thing}{tail}", f"{person} {past} {thing}{tail}", f"{thing} {'were' if count else 'was'} {past} by {person}{tail}",
                       f"it was {person} who {past} {thing}{tail}"))  # fmt: skip
    if past in ("drew", "stole", "won", "lost"):
        text = f"{person} {past} {thing}{tail}"
    request = rng.choice(("{p} wants to {v} {t}{e}", "help {p} {v} {t}{e}", "{v} {t}{e}, in the name of {p}", "let {p} {v} {t}{e}", "{p} is going to {v} {t}{e}",
                          "I'd like {p} to {v} {t}{e}", "could {p} {v} {t}{e}")).format(p=person, v=verb, t=thing, e=tail)  # fmt: skip
    joint = rng.choice((". ", "; ", ", ", " - "))
    whole = joint.join([text, *(capital(end) if joint == ". " else end for end in ends)])
    asked = joint.join([request, *(capital(end) if joint == ". " else end for end in ends)])
    style = rng.choice((0, 0, 0, 0, 1, 2))
    named = {styled(name, style): value for name, value in values.items()}
    tool = rng.choice(
        (f"{verb}_{kind}", f"{verb}_{kind}", f"{kind}_{verb}", f"{verb}_item", f"{verb}{capital(kind)}", verb)
    )
    return Drawn(capital(whole) + rng.choice((".", ".", "")), asked, tool, named, dict(named))


def several(rng: Random) -> Drawn:
    """Several members of a kind, as a list."""
    category = rng.choice(list(kinds()))
    members = list(dict.fromkeys(rng.choices(kinds()[category][:20], k=rng.randint(2, 4))))
    person, place = SIMPLE["p"](rng), wide.town(rng)
    form = rng.choice(
        (
            "{p} brought {m} to {t}",
            "in {t}, {p} has {m}",
            "{p} from {t} asked for {m}",
            "on the list of {p} ({t}) are {m}",
            "{m}: that is what {p} keeps in {t}",
        )
    )
    text = form.format(p=person, t=place, m=joined(members))
    many = facts.plural(category.replace(" ", "_"))
    values = {
        rng.choice((many, many, "items", "things", "list")): members,
        rng.choice(("person", "name", "owner")): person,
        rng.choice(WHERE): place,
    }
    return Drawn(capital(text) + ".", text, f"list_{many}", values, values)


def draw(rng: Random) -> Drawn:
    from training import wide_things

    form = rng.random()
    if form < 0.4:
        return wide_things.drawn(rng)
    return record(rng) if form < 0.67 else composed(rng) if form < 0.95 else several(rng)


# -- JSON

ORDER = lines("""log it|make an entry|record this|as data, please|put that into the system|save it|turn this into a record|note this down|enter it|store
this|register that|extract the data|give me the data|data please|fill in the form|structured, please|add it to the database|write the record|parse this|
what are the values|process this message|here is a message to process|archive that|get the details|pull out the details|summarize it as data|for the
archive|keep this for me|book this in|as an object|as JSON|JSON please|return JSON|in JSON|answer in JSON only|to JSON|make a record of it|fields please|catalog it|
take this down|put it on record|capture this|index this|tabulate it|I need this as a record""")
KEYED = lines("""JSON with {k}|extract {k}|give me {k} as JSON|keys: {k}|fields: {k}|return an object with {k}|I need {k}|fill in {k}|as JSON, using {k}|
what are {k}? JSON only|read out {k}|record with {k}|the keys are {k}|put {k} into JSON|find {k}""")
SCHEMED = lines(
    """schema: {s}|follow this JSON schema: {s}|answer by this schema: {s}|{s}|your output has to fit {s}|JSON schema {s}|format: {s}"""
)
SYSTEM = lines("""You extract data from messages.|You answer in JSON.|Reply with a JSON object only.|You are a data entry clerk.|You turn text into records.|
Return structured data.|You are a parser.|Only JSON, no comments.|You keep the books.|Fill in the form from the user's message.""")
NOISE = lines("""Hope you are well.|Thanks in advance.|Sorry for the late message.|Nice weather today, by the way.|More news tomorrow.|That is all for now.|Please
check it twice.|As we said on the phone.|I was told to write here.|Best wishes from all of us.|You know how it is.|Not a word to anybody.|No hurry with this.|The coffee machine is broken again, by the way.|I
hope this reaches you in time.|We met on the stairs this morning.|Greetings to your family.|It took me all day to find that out.|Somebody left the window open.|I am writing this on the bus.|The rest can
wait until Monday.|As always, I may be wrong about the small things.|Lunch was good.|You asked for it, so here it is.|The phone rings all the time.|I copied it from an old notebook.|My colleague typed
this.|Let me know if something is unclear.|It is raining here.|I will call you later.|What a long day.|This is everything I could get.|The office is almost empty.|Do not print this.|Sent from my phone.""")


def type_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"}


def schema(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: type_of(one) for name, one in value.items()},
        "required": list(value),
    }


def json_answer(rng: Random, drawn: Drawn | None = None) -> Chat:
    drawn = drawn or draw(rng)
    names = list(drawn.values)
    rng.shuffle(names)
    if rng.random() < 0.25:
        names = names[: rng.randint(1, len(names))]
    value: dict[str, Any] = {name: drawn.values[name] for name in names}
    text = drawn.text
    if rng.random() < 0.12:
        text = rng.choice((f"{rng.choice(NOISE)} {text}", f"{text} {rng.choice(NOISE)}"))
    opening, form, blind = "", rng.random(), False
    shown = value
    if rng.random() < 0.08 and len(names) > 2:
        cut = rng.randint(1, len(names) - 1)
        inside = rng.choice(("details", "info", "data", "more", "extra", "about", "content"))
        value = {name: value[name] for name in names[:cut]} | {inside: {name: value[name] for name in names[cut:]}}
        form = 0.0
    if form < 0.55:  # the grammar knows the keys, the prompt does not
        blind = True
        order = rng.choice(ORDER) if rng.random() < 0.4 else wide_orders.order(rng)
        user = text if rng.random() < 0.2 else wide_orders.around(text, order, rng, text)
        opening = rng.choice(SYSTEM) if rng.random() < 0.3 else ""
    else:
        if form < 0.75:
            order = rng.choice(KEYED).replace("{k}", listed(names, rng, block=False))
            order = order if rng.random() < 0.5 else wide_orders.order(rng, names)
        else:
            order = capital(rng.choice(SCHEMED).replace("{s}", json.dumps(schema(shown))))
        if rng.random() < 0.2:
            opening, user = f"{rng.choice(SYSTEM)} {wide_orders.raised(order, names)}", text
        elif form < 0.75:
            user = wide_orders.around(text, order, rng, text, names)
        else:
            user = rng.choice((f"{text}\n\n{order}", f"{text} {order}", f"{order}\n\n{text}", f"{order}\nText: {text}"))
    answer = json.dumps(value, ensure_ascii=False)
    return Chat([Turn("user", user), Turn("assistant", answer)], "wide_json", (), opening, expect=value, blind=blind)


# -- tools


def _signature(name: str, arguments: dict[str, Any], rng: Random, described: bool) -> dict[str, Any]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    parameters = schema(arguments)
    if described:
        for key, one in parameters["properties"].items():
            one["description"] = capital(
                re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).replace("_", " ").replace("-", " ").lower()
            )
    about = rng.choice(
        (capital(words) + ".", capital(words), f"Use this to {words}.", f"{capital(words)} for the user.")
    )
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


ASIDE = lines(
    """please|thanks|can you do that|would you|when you have time|right away|if possible|that would be kind|can you|go|okay?|today"""
)


def tool_call(rng: Random) -> Chat:
    tools: dict[str, dict[str, Any]] = {}
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        drawn = draw(rng)
        if drawn.tool in tools or not drawn.asked:
            continue
        names = list(drawn.asked)
        rng.shuffle(names)
        arguments = {name: drawn.asked[name] for name in names}
        tools[drawn.tool] = arguments
        text = (
            drawn.request
            if rng.random() < 0.75
            else drawn.text.rstrip(".") + ". " + capital(drawn.tool.replace("_", " "))
        )
        draw_ = rng.random()
        if draw_ < 0.15:
            text = f"{text}, {rng.choice(ASIDE)}"
        elif draw_ < 0.3:
            text = f"{rng.choice(wide_talk.OPEN)} {text}"
        text = (capital(text) if rng.random() < 0.8 else text) + rng.choice((".", ".", "", "?", "!"))
        turns += [Turn("user", text), Turn("assistant", calls=[(drawn.tool, arguments)])]
        if rng.random() < 0.4:
            answer = rng.choice(({"status": "ok"}, {"ok": True}, {"result": "done"}, {"id": wide.code(rng)}))
            said = f"It is done. The id is {answer['id']}." if "id" in answer else "It is done."
            turns += [Turn("tool", json.dumps(answer)), Turn("assistant", said)]
    if not turns:
        return tool_call(rng)
    for _ in range(rng.choice((0, 1, 2, 3, 4, 6))):
        other = draw(rng)
        tools.setdefault(other.tool, other.asked)
    if rng.random() < 0.12 and turns[-1].text:
        talk = rng.choice((wide_talk.greet, wide_talk.who, wide_talk.thanks, wide_talk.arithmetic, wide_talk.stated))(
            rng
        )
        turns += [Turn("user", typed(talk.user, rng)), Turn("assistant", talk.answer)]
    order = rng.sample(list(tools), len(tools))
    described = rng.random() < 0.45
    signatures = [_signature(name, tools[name], rng, described) for name in order]
    return Chat(turns, "wide_tools", (), system(rng) if rng.random() < 0.25 else "", signatures, expect=None)
