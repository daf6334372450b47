"""What people write around a text that they want as JSON: before it, behind it, in the same line; no word of it is a value.

An order is drawn with its manner (typed badly, in capitals, in small letters), its place, and what else people say: greetings, excuses,
thanks, the name that they sign with.
"""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from training import wide
from training.data_chat import Chat, Turn
from training.wide_facts import capital, slip
from training.wide_listed import listed
from training.wide_talk import lines

if TYPE_CHECKING:
    from training.wide_prompted import Form

# without the keys: a grammar has them, or a schema behind the order
ORDERS = lines("""extract the details|pull the facts out of this|get me the structured data|convert this to JSON|please structure the following|parse this message|turn the note into an object|fill in the form from this|record the following event|
make a JSON object from this sentence|put this in the database format|write this up as a record|could you extract the fields|can you turn this into JSON|would you mind structuring that|what are the facts here|which values are in this text|what does this say, as data|
I want this as JSON|I'd like the data from this|I need an object out of it|we need it structured|it should become a record|this belongs in our system|this has to be in JSON by noon|JSON|json pls|JSON, thanks|data only|object please|fields only|values only, no prose|
structured output|machine readable please|for the spreadsheet|for the log|into the log with it|log entry|new entry|next one|another entry|same as before|same procedure|once more with this one|do this one|one more|and this|now this one|handle this|process it|take care of that|go|
read carefully and answer in JSON|read the text, then give me the data|go through this and note what matters|summarize as JSON|condense this to its fields|boil it down to JSON|distill the facts|strip it down to the data|reduce it to key and value|list what you learn, as JSON|
respond with the object|answer with an object only|return the object and nothing else|reply in JSON|reply with the filled form|output JSON|output the record|produce the record|produce an instance of the schema|give the instance|generate the JSON for this|create the entry|create a JSON entry|
use the given schema|follow the schema|stick to the schema|apply the schema to this text|match the schema|the schema is known to you|according to the format we agreed on|in the usual format|in the format from before|you know the format|you know the keys|same keys as always|
annotate this|tag this sentence|label the parts|identify the entities|find the entities in this|recognize who and what|who did what, as JSON|who, what, where, as data|Information extraction task|Task: extraction|Task: fill the form|Instruction: extract|Extraction|Extract|Parse|Convert|Transform|Analyze|Process|Structure|Record|
translate this into JSON|transcribe it into the form|type this into the form for me|enter this in the books|book it|file it|put it on file|keep a record of this|store the following|save this for later, as JSON|archive it as an object|index this note|catalog the following|register what happened|document this|note down the essentials|
help me get this into JSON|help me fill this in|I have to enter this somewhere, make it JSON|my program needs this as an object|our API only takes JSON, so please|the database wants an object|the importer is waiting for JSON|my script will read your answer|this goes straight to a parser|
kindly provide the data contained in the following statement|we kindly ask you to structure this message|the following message is to be converted|the above should be returned as JSON|the sentence above, as an object|what I just wrote, as JSON|the text below should be converted|Please find below a text to be structured|
would be great to have that as JSON|wish I had this as data|if you could make JSON of this|maybe you can make an object of this|do me a favor and structure this|be so good and extract this|let me have it in JSON|let's have the data|show me the data in this|show the JSON|tell me in JSON what it says|say it in JSON|
make it JSON|JSON it|jsonify|to json|as json|in JSON form please|JSON version|JSON representation of this|an object, if you please|one object|a single object|a small object for this|just the data, no chat|no comments, only the object|don't explain, just extract|no talking, JSON|nothing but JSON|raw JSON|valid JSON only|
extrct the data|plz parse|pls convert to json thx|can u make this json|gimme the json|need json asap|json asap|wanna have this as json|could u extract pls|Convert pls""")
# with them
KEYED = lines("""answer as JSON with {k}|JSON with the keys {k}|extract {k}|extract {k} and return JSON|give me {k} as a JSON object|return a JSON object containing {k}|the object has {k}|the JSON needs {k}|I need {k}|I need {k} from this, as JSON|I'd like {k} in JSON|we track {k}, so JSON with those|
our table has the columns {k}|columns: {k}|keys {k}|keys: {k}. JSON only|fields: {k}|fields wanted: {k}|wanted: {k}|use the keys {k}|use {k} as keys|with the keys {k}, please|your keys are {k}|name the keys {k}|the keys should be {k}|the keys must be called {k}|only these keys: {k}|exactly these keys: {k}|
what are {k}? answer in JSON|can you find {k} in this? JSON please|could you give me {k}, as JSON|would you extract {k} into JSON|what do we know about {k}? as JSON|tell me {k} (JSON)|tell me {k}, in JSON|read out {k}, JSON|pick {k} out of this|pull {k}|pull out {k} as JSON|grab {k}, json|get {k}|find {k}, write JSON|
json {k}|json: {k}|JSON ({k})|JSON object, {k}|JSON -> {k}|-> {k}|=> JSON {k}|{k} as json pls|{k} in json, thanks|{k}, JSON|{k} please, as JSON|{k} is what I need, in JSON|{k}: JSON please|just {k}|only {k}, as JSON, nothing more|
respond with JSON that has {k}|reply with a JSON object with {k}|output: JSON with {k}|output a JSON object whose keys are {k}|produce JSON, fields {k}|generate JSON having {k}|create an object with {k}|build an object from this with {k}|make a JSON object out of the text with {k}|put it in JSON using {k}|
fill in {k} and reply in JSON|fill {k}|complete the record: {k}|record to fill: {k}|the form asks for {k}|the form has {k}|I have to fill in {k}|my boss wants {k} as JSON|my app expects {k}|the API expects JSON with {k}|the importer wants {k}, JSON|the parser needs {k}, nothing else|schema: {k}|shape: an object with {k}|
kindly provide {k} in JSON format|please be so kind as to return {k} in JSON|the reply shall be a JSON object comprising {k}|the response has to contain {k}|Information extraction. Return {k}|Task: return {k} as JSON|Instruction: extract {k}|From the text determine {k}|From the following, extract {k}|Given the text, give {k} in JSON|
Parse into {k}|Convert into JSON with {k}|Transform to an object with {k}|Split into {k}|Sort it into {k}|Structure it by {k}|Label {k}|Identify {k} and answer in JSON|Look for {k}. JSON answer|Turn the message into JSON. It must have {k}|Summarize as JSON under {k}|Note {k} for me, JSON|Write down {k} as JSON|
wish I knew {k}, JSON please|would love {k} as JSON|it would be nice to have {k} as JSON|let me have {k}|let's have {k} in JSON|let the answer be JSON: {k}|give JSON ({k})|gimme {k} as json|need {k} asap json|can u get {k}|plz extract {k} json|extrct {k} as JSON""")
GREETINGS = lines(
    """Hi|Hello|Hey|Hi there|Hello there|Hey there|Good morning|Good evening|Good afternoon|Morning|Dear assistant|Dear all|Dear Sir or Madam|Hi team|Hello friend|Hello again|Me again|Hey you|Greetings|Howdy|Evening all|Hi bot|Hello computer|Dear helper|Hallo|Yo"""
)
EXCUSES = lines("""Sorry to bother you again.|Sorry, one more.|Sorry for the mess below.|I hope this finds you well.|Hope you had a good weekend.|Not sure if this is the right place.|My colleague is on holiday, so you get this.|I am new here.|I am no expert, so bear with me.|This came in over the phone.|Got this from a friend.|Found this in the mail.|
This was on a scrap of paper.|Typed on my phone, sorry.|I will keep it short.|Quick question.|Quick favor.|Small job for you.|Easy one.|Boring, I know.|Last one for today.|First of many.|Here we go again.|Okay, focus.|Ready? Good.|As promised.|As discussed.|Forwarded message.|Voice memo, transcribed.|Excuse the spelling.|
Long time no see.|My printer is broken, so I ask you.|Can you help me?|You are my last hope.|Boss is watching.|I owe you one.|I have a train to catch.|Coffee first, then this.|No idea who wrote it.|The kids are yelling, so quickly.|Pardon the interruption.|Let us get this over with.""")
THANKS = lines("""Thanks|Thank you|Thanks a lot|Many thanks|Thanks in advance|Thanks so much|Much appreciated|Cheers|Ta|thx|ty|Thank you kindly|Thanks, you are a star|I owe you a coffee|You are the best|Great work so far|Have a nice day|Take your time|No rush|Hurry|Asap please|Be careful with the spelling|Double-check it|
No mistakes please|Best regards|Kind regards|Regards|Yours sincerely|Best|Bye|See you|Talk soon|That is all|That would be all|End of message|Sent from my phone|Please and thank you|Until tomorrow|Warm wishes|With thanks|Looking forward to your answer|Let me know when done|Over|Okay?|Got it?|Can do?""")
LEADS = lines(
    """Text|The text|Here is the text|Input|Message|Note|The message reads|It says|Sentence|Source|Content|Quote|The note|Transcript|Document|Entry|Mail body|What I have|Raw text|See here|This is it|Data|Statement|My note"""
)
GIVEN = ("{o}: {t}", "{o}:\n{t}", "{o}:\n\n{t}", "{o}. {t}", "{o}.\n{t}", "{o}\n\n{t}", "{o}\n{t}", "{o} -> {t}", "{o} - {t}", "{o} — {t}", "{o} >> {t}", '{o}: "{t}"', "{o} ({t})", "{o} | {t}", "{o}... {t}", "{o}! {t}", "{o} => {t}", "{o}; {t}", "{o}, {t}")  # fmt: skip
BEHIND = ("{t}\n\n{O}", "{t}\n{O}", "{t} {O}", "{t} {O}", "{t} - {o}", "{t} -> {o}", "{t} => {o}", "{t} ({o})", "{t} // {o}", "{t} | {o}", "{t}... {o}", '"{t}" {o}', '"{t}" - {o}', "{t} — {o}", "{t}\n---\n{O}", "<text>{t}</text> {O}", "[{t}] {o}", "{t}\n>> {o}")  # fmt: skip
OPEN = (
    "{t} {o}",
    "{t} {O}",
    "{t}, {o}",
    "{t}; {o}",
    "{t} - {o}",
    "{t} {o}",
    "{t}\n{o}",
)  # behind a text without its full stop
ASKS = ("what", "which", "who", "can ", "could ", "would you")
SYSTEMS = lines(
    """You extract data.|You are a helpful assistant.|You answer in JSON.|You fill in forms.|You work at a front desk.|Reply only with JSON.|You are an extraction engine.|Be brief.|You help with paperwork.|Assistant for records.|You never chat."""
)


def order(rng: Random, keys: Sequence[str] = (), types: Sequence[str] = ()) -> str:
    """Some order, typed by somebody; the keys stay as they are."""
    text = rng.choice(KEYED if keys else ORDERS)
    draw = rng.random()
    if draw < 0.1:
        words = text.split(" ")
        places = [at for at, word in enumerate(words) if len(word) > 3 and word.isalpha() and word != "JSON"]
        for at in rng.sample(places, min(len(places), rng.choice((1, 1, 2)))):
            words[at] = slip(words[at], rng)
        text = " ".join(words)
    elif draw < 0.14:
        text = text.upper().replace("{K}", "{k}")
    elif draw < 0.22:
        text = text.lower()
    elif draw < 0.3 and not text.lower().startswith(("please", "pls", "plz")):
        text = rng.choice(("please {}", "Please {}", "{}, please", "{} please", "now {}", "so, {}", "ok, {}", "{} for me", "then {}")).format(text)  # fmt: skip
    return text.replace("{k}", listed(keys, rng, types, text.endswith("{k}"))) if keys else text


def signed(rng: Random) -> str:
    """A greeting's or a goodbye's name: nobody asks for it."""
    return rng.choice((wide.first_name, wide.first_name, wide.last_name))(rng)


def raised(asked: str, keys: Sequence[str]) -> str:
    """With a capital, unless it begins with a key."""
    return asked if asked.startswith(tuple(keys)) else capital(asked)


def around(text: str, asked: str, rng: Random, never: str = "", keys: Sequence[str] = ()) -> str:
    """The order before the text, behind it, or with words on both sides. `never` holds what no signature may be."""
    first = raised(asked, keys) if rng.random() < 0.85 else asked
    broken = asked.endswith("\n")  # a list of keys in lines of its own
    draw = rng.random()
    words = asked.lower()
    if "above" in words or "just wrote" in words:
        draw = 0.6
    elif "below" in words or "following" in words:
        draw = 0.1
    asks = words.startswith(ASKS)
    if broken or "\n" in text:
        asked, first = asked.strip("\n"), first.strip("\n")
        user = f"{first}\n\n{text}" if draw < 0.5 else f"{text}\n\n{first}"
    elif draw < 0.5:
        form = rng.choice(GIVEN)
        form = form.replace("{o}.", "{o}?").replace("{o}:", "{o}?") if asks and rng.random() < 0.7 else form
        user = form.replace("{o}", first).replace("{t}", text)
    elif draw < 0.57:
        lead = rng.choice(LEADS)
        user = rng.choice((f"{first}.\n{lead}: {text}", f"{first}. {lead}: {text}", f"{first}\n\n{lead}:\n{text}", f"{lead}: {text}\n{first}", f"{lead}:\n{text}\n\n{first}."))  # fmt: skip
    elif draw < 0.82 or not re.search(r"\w[.!]$", text) or re.search(r"\.\S*\.$", text):
        end = rng.choice(("", "?", "?") if asks else ("", "", ".", "!"))
        asked = asked + end if asked[-1] not in ".?!" else asked
        ways = BEHIND if text.endswith((".", "!", "?")) else (*BEHIND[:2], *BEHIND[4:])
        user = rng.choice(ways).replace("{O}", raised(asked, keys)).replace("{o}", asked).replace("{t}", text)
    else:
        user = rng.choice(OPEN).replace("{O}", first).replace("{o}", asked).replace("{t}", text.rstrip(".!"))
    name = signed(rng)
    named = name.lower() not in never.lower()
    draw = rng.random()
    if draw < 0.13:
        hello = rng.choice(GREETINGS) + (f" {name}" if named and rng.random() < 0.25 else "")
        user = hello + rng.choice((", ", "! ", ". ", ",\n", ",\n\n", " - ")) + user
    elif draw < 0.25:
        user = rng.choice(EXCUSES) + rng.choice((" ", " ", "\n")) + user
    elif draw < 0.3:
        user = f"{rng.choice(GREETINGS)}, {rng.choice(EXCUSES)} {user}"
    if rng.random() < 0.16:
        thanks = rng.choice(THANKS)
        gap = rng.choice((" ", "\n", "\n\n")) if user[-1] in ".?!" else rng.choice(("\n", "\n\n", ". "))
        user += gap + thanks + (rng.choice((f", {name}", f"\n{name}", f" - {name}")) if named and rng.random() < 0.4 else rng.choice(("", "!", ".") if thanks[-1] != "?" else ("",)))  # fmt: skip
    return user


def answered(one: Form, rng: Random, kind: str) -> Chat:
    """A text and its JSON: half of them by a schema that the prompt has not, others by keys or by a schema in it."""
    from training.wide_prompted import FENCE

    text, values = one.told(rng)
    schemas = one.values
    draw, blind, opening = rng.random(), False, ""
    never = f"{text} {list(values.values())}"
    if draw < 0.48:
        blind = True
        if rng.random() < 0.1:  # the text alone, or with words that ask for nothing
            user = rng.choice((text, text, f"{rng.choice(EXCUSES)} {text}", f"{rng.choice(GREETINGS)}, {text}"))
        else:
            user = around(text, order(rng), rng, never)
    elif draw < 0.9:
        types = [_type(schema, rng) for schema in schemas.values()]
        keys = list(schemas)
        asked = order(rng, keys, types)
        if rng.random() < 0.1:
            opening, user = raised(asked, keys).strip("\n"), text
        else:
            user = around(text, asked, rng, never, keys)
    else:
        shown = json.dumps(
            {"type": "object", "properties": schemas, "required": list(schemas)}, indent=rng.choice((None, None, 2))
        )
        asked = order(rng)
        shown = rng.choice((f"Schema: {shown}", shown, f"```json\n{shown}\n```", f"JSON schema:\n{shown}"))
        user = rng.choice((f"{around(text, asked, rng, never)}\n\n{shown}", f"{shown}\n\n{around(text, asked, rng, never)}"))  # fmt: skip
        if rng.random() < 0.4 and "above" not in asked.lower():
            opening, user = f"{capital(asked)}. {shown}", rng.choice((text, f"{rng.choice(EXCUSES)} {text}"))
    if not opening and rng.random() < 0.12:
        opening = rng.choice(SYSTEMS)
    answer = json.dumps(values, ensure_ascii=False)
    if not blind and rng.random() < 0.05:
        user, answer = f"{user}\n\n{rng.choice(FENCE)}", f"```json\n{answer}\n```"
    return Chat([Turn("user", user), Turn("assistant", answer)], kind, (), opening, expect=values, blind=blind)


TYPES = {"string": ("string", "text"), "integer": ("integer", "number", "int"), "number": ("number", "decimal"), "boolean": ("boolean", "true or false", "bool")}  # fmt: skip


def _type(schema: dict[str, Any], rng: Random) -> str:
    return "one of " + ", ".join(map(str, schema["enum"])) if "enum" in schema else rng.choice(TYPES[schema["type"]])
