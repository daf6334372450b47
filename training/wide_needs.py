"""What can be done with a thing of any kind, and how people come to need it: tools are chosen by what is meant.

A line is verb | what the tool says of itself | needs, where `{n}` is the thing. The things are WordNet's kinds and their
members: the same verb with several kinds, and several verbs with the same kind, stand side by side.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_kinds, wide_more, wide_talk
from training.data_chat import Chat, Turn
from training.wide_facts import capital, typed
from training.wide_long import joined, system

Json = dict[str, Any]
LINES = """
repair|Repairs a {k}|{n} is broken|{n} does not work any more|somebody should fix {n}|can {n} be mended|{n} fell apart|{n} has a crack
clean|Cleans a {k}|{n} is dirty|there are stains on {n}|{n} needs a wash|I want {n} spotless|what a mess {n} is
sell|Finds a buyer for a {k}|I do not want {n} any more, make money of it|who would pay for {n}|find a buyer for {n}|{n} should bring me some cash
buy|Buys a {k}|get me {n} from the shop|I want to own {n}|go and purchase {n}|I would pay for {n}
find|Looks for a lost {k}|{n} has disappeared|I cannot remember where {n} is|where did {n} go|help me look for {n}|{n} got lost
paint|Gives a {k} a new coat of paint|{n} needs a fresh coat|the color of {n} has faded|{n} should get another color|put some paint on {n}
deliver|Brings a {k} to somebody|bring {n} over here|{n} must get to the customer|drop off {n}|could {n} come to my door
collect|Picks up a {k}|{n} is ready to be picked up|come and take {n} with you|somebody must fetch {n}|go and get {n}
return|Sends a {k} back|{n} is not what I ordered|I want to give {n} back|{n} goes back to the shop|take {n} back please
insure|Insures a {k} against damage|what if somebody steals {n}|cover {n} against damage|{n} needs a policy|I want to be safe if {n} burns
weigh|Tells the weight of a {k}|how heavy is {n}|put {n} on the scale|how many kilos has {n}|is {n} too heavy
measure|Tells the size of a {k}|how long and wide is {n}|will {n} fit through the door|what size is {n}|take the dimensions of {n}
move|Carries a {k} to another place|{n} stands in the way|put {n} somewhere else|shift {n} a bit|{n} belongs in another place
store|Keeps a {k} for later|put {n} away until I need it|I have no room for {n} at home|keep {n} safe for me|{n} should go into the warehouse
heat|Makes a {k} warm|{n} is cold|warm up {n}|{n} should be hot|bring {n} to a higher temperature
cool|Makes a {k} cold|{n} is too hot|chill {n}|put {n} on ice|{n} should be cold
fill|Fills a {k}|{n} is empty|top up {n}|there is nothing left in {n}|make {n} full again
empty|Empties a {k}|{n} is full|get everything out of {n}|pour out {n}|{n} cannot hold any more
cut|Cuts a {k} into pieces|{n} is too long|make {n} shorter|slice {n}|I need {n} in pieces
replace|Puts a new {k} in the place of the old|{n} is too old|I want a new one instead of {n}|{n} has had its day|swap {n} for another
inspect|Has an expert look at a {k}|is {n} in order|have a close look at {n}|check {n} for faults|an expert should see {n}
photograph|Takes a picture of a {k}|I want a picture of {n}|snap {n}|take a photo of {n}|{n} would look good in the album
wrap|Wraps a {k} as a gift|{n} is a present|put paper and a bow around {n}|make {n} look like a gift|{n} is for a birthday
print|Prints a {k} on paper|I need {n} on paper|get {n} out of the printer|a hard copy of {n}|put {n} on a sheet
copy|Makes a second {k}|I need {n} twice|duplicate {n}|make two out of {n}|{n} alone is not enough
hide|Puts a {k} where nobody finds it|nobody may see {n}|put {n} out of sight|keep {n} a secret|the guests must not find {n}
guard|Watches over a {k}|keep an eye on {n}|thieves are after {n}|somebody should watch {n}|do not let anybody near {n}
plant|Puts a {k} into the soil|{n} should grow in my garden|put {n} into the ground|I want to see {n} bloom|dig a hole for {n}
cook|Prepares a {k} as a meal|I want to eat {n}|make dinner with {n}|put {n} in the pot|{n} for lunch
freeze|Keeps a {k} frozen|{n} must not spoil|put {n} into the freezer|we eat {n} next month|turn {n} to ice
taste|Tries how a {k} tastes|is {n} any good to eat|try a bite of {n}|is there enough salt on {n}|how is the flavor of {n}
count|Tells how many of a {k} there are|how many {N} do we have|I lost track of the {N}|give me the number of {N}|are there enough {N}
label|Writes a name on a {k}|nobody knows what {n} is, put a tag on it|write something on {n}|mark {n} so that we know it|put a sticker on {n}
donate|Gives a {k} away for a good cause|poor people could use {n}|I give {n} away|charity can have {n}|{n} is for those in need
recycle|Takes a {k} apart for its material|{n} is only rubbish now|do not throw {n} away, use the material|turn {n} into something new|the material of {n} is worth something
polish|Makes a {k} shine|{n} has become dull|I want to see my face in {n}|make {n} shine|rub {n} until it gleams
assemble|Puts the parts of a {k} together|{n} came in parts|put {n} together|there are forty screws and {n} is not ready|build {n} from the kit
lock|Makes sure that nobody opens a {k}|nobody should open {n}|turn the key of {n}|make {n} secure|{n} must stay shut
unlock|Opens a locked {k}|I cannot get into {n}|the key of {n} is lost|let me into {n}|{n} is shut and I need what is inside
track|Tells where a {k} is right now|where is {n} at the moment|follow {n} on the map|has {n} arrived yet|show me the way of {n}
name|Gives a {k} a name|what should we call {n}|{n} has no name yet|find something to call {n}|baptize {n}
describe|Tells what a {k} looks like|what does {n} look like|I have never seen {n}|tell me about {n}|put {n} into words
order|Orders a {k} from a dealer|we are short of {N}|send for {n}|let the dealer send {n}|put {n} on the order form
cancel|Cancels the order of a {k}|I do not need {n} after all|forget about {n} that I ordered|stop {n} from being sent|no {n} for me any more
reserve|Keeps a {k} free for somebody|do not give {n} to anybody else|hold {n} for me|I want {n} to be mine on that day|keep {n} for us
ship|Sends a {k} by sea|{n} has to cross the ocean|put {n} in a container|{n} goes overseas|send {n} to the other continent
appraise|Tells what a {k} is worth|what is {n} worth|could {n} be valuable|how much would {n} bring|tell me the value of {n}
test|Tries out a {k}|does {n} do what it should|try out {n}|see how {n} behaves|I am not sure about {n}, try it
load|Puts a {k} on a truck|put {n} on the truck|{n} should travel with us|get {n} on board|the truck waits for {n}
unload|Takes a {k} off a truck|take {n} off the truck|{n} has arrived, get it down|the truck with {n} is here|{n} must leave the truck
burn|Sets fire to a {k}|{n} should go up in flames|put a match to {n}|only ashes should be left of {n}|throw {n} into the fire
bury|Puts a {k} under the ground|{n} belongs under the earth|dig a grave for {n}|cover {n} with soil|nobody will dig up {n}
decorate|Makes a {k} pretty|{n} looks so plain|put flowers on {n}|make {n} look festive|{n} could be prettier
sketch|Draws a {k} with a pencil|I want {n} on paper, in pencil|make a drawing of {n}|can you draw {n}|capture {n} with a few lines
compare|Compares a {k} with others|is {n} better than the rest|how does {n} do against others|which is best, {n} or another|put {n} next to the others
review|Writes an opinion of a {k}|what do people think of {n}|write something nice about {n}|I want to complain about {n} in public|give {n} some stars
advertise|Makes a {k} known|nobody has heard of {n}|put {n} in the newspaper|tell the world about {n}|make posters for {n}
stop|Makes a {k} stand still|{n} must not go on|bring {n} to a halt|put an end to {n}|{n} runs and runs, enough
start|Sets a {k} going|get {n} going|{n} should run now|switch {n} on|wake up {n}
"""


@cache
def verbs() -> dict[str, tuple[str, list[str]]]:
    return {verb: (about, needs) for verb, about, *needs in (line.split("|") for line in LINES.strip().splitlines())}


Extra = tuple[tuple[str, ...], Callable[[Random], Any], tuple[str, ...]]
EXTRAS: tuple[Extra, ...] = (
    (("person", "name", "customer", "contact", "for_whom"), lambda rng: wide_kinds.SIMPLE["p"](rng), ("it is for {v}", "ask for {v}", "{v} will be there", "the name is {v}", "in the name of {v}")),
    (("day", "date", "when", "on"), lambda rng: rng.choice(facts.DAYS), ("on {v}", "{v} would be good", "not later than {v}", "until {v}", "by {v}")),
    (("time", "at", "hour", "clock"), wide.clock, ("at {v}", "{v} suits me", "around {v}", "when it is {v}")),
    (("place", "location", "where", "address"), wide.site, ("at {v}", "it is at {v}", "you find it at {v}", "the place is {v}")),
    (("city", "town"), wide.town, ("in {v}", "I live in {v}", "we are in {v}")),
    (("count", "quantity", "number", "how_many"), lambda rng: rng.randint(2, 60), ("there are {v} of them", "{v} pieces", "{v} in all", "all {v} of them")),
    (("budget", "price", "max_price", "euros"), lambda rng: rng.randint(5, 2000), ("it may cost {v} euros", "for {v} euros", "not more than {v}", "I have {v} euros")),
    (("color", "colour"), wide.colour, ("the {v} one", "it is {v}", "{v}, that is its color")),
    (("minutes", "duration"), lambda rng: rng.randint(2, 120), ("in {v} minutes", "it may take {v} minutes", "{v} minutes should be enough")),
    (("urgent", "hurry"), lambda rng: True, ("it is urgent", "I am in a hurry", "as fast as you can")),
    (("code", "reference", "order_number"), wide.code, ("number {v}", "the reference is {v}", "it has the code {v}")),
)  # fmt: skip


def _kind(rng: Random) -> tuple[str, list[str]]:
    kinds = wide_kinds.kinds()
    while True:
        kind = rng.choice(list(kinds))
        members = kinds[kind][: rng.choice((3, 5, 10, 20))]
        if " " not in kind and members:
            return kind, members


class Tool:
    def __init__(self, verb: str, kind: str, members: list[str], rng: Random) -> None:
        self.verb, self.kind, self.members = verb, kind, members
        style = rng.choice((0, 0, 0, 1))
        general = rng.random() < 0.25
        noun = rng.choice(("item", "thing", "object")) if general else kind
        self.name = wide_kinds.styled(
            rng.choice(
                (f"{verb}_{noun}", f"{verb}_{noun}", f"{verb}_{noun}", f"{noun}_{verb}", f"request_{verb}_{noun}")
            ),
            style,
        )
        self.item = wide_kinds.styled(
            rng.choice((kind, kind, kind, "item", "what", "object", f"{kind}_name", f"kind_of_{kind}")), style
        )
        self.extras: list[tuple[str, Extra]] = []
        for one in rng.sample(EXTRAS, rng.choice((0, 1, 1, 2))):
            name = wide_kinds.styled(rng.choice(one[0]), style)
            if name != self.item:
                self.extras.append((name, one))
        self.about = verbs()[verb][0].format(k="thing" if general else kind)
        self.said = rng.random() < 0.8  # whether the description says it, or only the name

    def signature(self, rng: Random, described: bool) -> Json:
        values: Json = {self.item: {"type": "string"}}
        values |= {name: wide_kinds.type_of(one[1](rng)) for name, one in self.extras}
        if described:
            for name, one in values.items():
                one["description"] = capital(name.replace("_", " "))
        parameters = {"type": "object", "properties": values, "required": list(values)}
        about = (
            {"description": self.about + rng.choice((".", ""))}
            if self.said
            else {"description": capital(self.name.replace("_", " "))}
        )
        return {"type": "function", "function": {"name": self.name} | about | {"parameters": parameters}}

    def call(self, rng: Random) -> tuple[str, Json]:
        member = rng.choice(self.members)
        article = rng.choice(("the", "the", "my", "our", "this", "that"))
        need = (
            rng.choice(verbs()[self.verb][1]).replace("{n}", f"{article} {member}").replace("{N}", facts.plural(member))
        )
        arguments: Json = {self.item: member}
        said = []
        for name, (_, draw, phrases) in self.extras:
            arguments[name] = draw(rng)
            said.append(rng.choice(phrases).replace("{v}", str(arguments[name])))
        rng.shuffle(said)
        if not said:
            text = need
        elif rng.random() < 0.6:
            text = f"{need}, {', '.join(said)}"
        else:
            text = f"{need}. {capital(joined(said))}"
        draw = rng.random()
        if draw < 0.15:
            text = f"{rng.choice(wide_talk.OPEN)} {text}"
        elif draw < 0.25:
            text = f"{text}, {rng.choice(wide_kinds.ASIDE)}"
        text += rng.choice((".", ".", "", "!", "?"))
        return (capital(text) if rng.random() < 0.85 else text), arguments


NONE = "I have no tool for that."


def tool_call(rng: Random) -> Chat:
    names = list(verbs())
    verb, (kind, members) = rng.choice(names), _kind(rng)
    one = Tool(verb, kind, members, rng)
    tools = [one]
    for _ in range(rng.choice((0, 1, 2, 3, 4, 5))):
        draw = rng.random()
        other = rng.choice([each for each in names if each != verb])
        if draw < 0.45:
            tools.append(Tool(other, kind, members, rng))
        elif draw < 0.6 and not one.name.endswith(("item", "thing", "object")):
            more, theirs = _kind(rng)
            if not set(theirs) & set(members):
                tools.append(Tool(verb, more, theirs, rng))
        else:
            tools.append(Tool(other, *_kind(rng), rng))
    known = {each.name: each for each in reversed(tools)}
    described = rng.random() < 0.35
    turns: list[Turn] = []
    opening = system(rng) if rng.random() < 0.2 else ""
    draw = rng.random()
    if draw < 0.06:
        talk = rng.choice((wide_more.greet, wide_more.thank, wide_more.who, wide_talk.arithmetic, wide_talk.three))(rng)
        turns += [Turn("user", typed(talk.user, rng)), Turn("assistant", talk.answer)]
    elif draw < 0.11 and len(known) > 1 and all(each.verb != verb for each in tools[1:]):
        del known[one.name]
        turns = [Turn("user", one.call(rng)[0]), Turn("assistant", NONE)]
        one = rng.choice(list(known.values()))
    for _ in range(rng.choice((1, 1, 2))):
        text, arguments = one.call(rng)
        turns += [Turn("user", text), Turn("assistant", calls=[(one.name, arguments)])]
        if rng.random() < 0.35:
            turns += [
                Turn("tool", json.dumps(rng.choice(({"status": "ok"}, {"ok": True}, {"done": True})))),
                Turn("assistant", "It is done."),
            ]
        one = rng.choice(list(known.values()))
    shown = [each.signature(rng, described) for each in rng.sample(list(known.values()), len(known))]
    return Chat(turns, "wide_tools", (), opening, shown, expect=None)
