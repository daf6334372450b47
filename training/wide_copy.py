"""Copying letter by letter: keys made of any words in any manner of writing, rare and invented words as keys, values and quotations.

No key is the examiner's (`held_words`). Slips of typing are in what is asked around the keys, never in the keys or in the text.
"""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_fields, wide_kinds, wide_orders
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.held_words import fresh, plain, taken
from training.wide_facts import capital, slip
from training.wide_listed import listed
from training.wide_long import joined, system
from training.wide_talk import lines, spelled

Json = dict[str, Any]


# -- words


@cache
def _words() -> dict[str, list[str]]:
    """The dictionary's words by what part of speech they are, long ones too."""
    found: dict[str, list[str]] = {"noun": [], "verb": [], "adjective": []}
    for word, part, _ in facts.definitions():
        if re.fullmatch("[a-z]{3,13}", word):
            found[part].append(word)
    return {part: words or ["lantern", "hollow"] for part, words in found.items()}


def bent(word: str, rng: Random) -> str:
    """Nearly a word: nobody may put it right."""
    if len(word) < 3:
        return word + rng.choice("aeiou")
    at, form = rng.randrange(1, len(word) - 1), rng.randrange(4)
    if form == 0:
        return word[:at] + rng.choice("abdefgiklmnoprstuvz") + word[at + 1 :]
    if form == 1:
        return word[:at] + rng.choice("aeioulnrst") + word[at:]
    return word[:at] + word[at + 1 :] if form == 2 else rng.choice("bcdfghklmnprstvw") + word[1:]


def rare(rng: Random) -> str:
    """Of a dictionary, of a kind, nearly a word, or none at all."""
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(_words()[rng.choice(("noun", "noun", "adjective", "verb"))])
    if draw < 0.5:
        return rng.choice(rng.choice(list(wide_kinds.kinds().values())))
    if draw < 0.7:
        return bent(rng.choice(_words()["noun"]), rng)
    return wide.made_up(rng, rng.choice((1, 2, 2)), rng.choice((2, 3, 4)))


# -- keys

ENDS = lines(
    "no|nr|id|code|total|rate|limit|flag|ref|type|level|index|mode|date|list|label|text|note|value|sum|size|status|ratio"
)
SHORT = lines("qty|amt|addr|dept|acct|desc|cat|cfg|ext|lvl|mgr|pct|pos|pkg|seq|src|dst|tmp|vol|wt|ht|len|min|max|avg")
STYLES = ("snake", "snake", "snake", "camel", "camel", "kebab", "pascal", "one", "words", "upper", "caps", "joint")


def _abbreviated(word: str, rng: Random) -> str:
    if rng.random() < 0.5:
        return word[: rng.choice((3, 4))]
    return word[0] + "".join(letter for letter in word[1:] if letter not in "aeiou")[:3]


def written(parts: list[str], style: str) -> str:
    """The words as a key: brass_hinge, brassHinge, brass-hinge, BrassHinge, brass hinge, BRASS_HINGE, Brass Hinge, brasshinge."""
    if style in ("camel", "pascal"):
        name = "".join(map(capital, parts))
        return name if style == "pascal" else name[0].lower() + name[1:]
    if style == "upper":
        return "_".join(parts).upper()
    if style == "caps":
        return " ".join(map(capital, parts))
    return {"kebab": "-", "words": " ", "joint": ""}.get(style, "_").join(parts)


def key(rng: Random, style: str = "") -> tuple[str, list[str]]:
    """A name that is not the examiner's, and its words."""
    while True:
        how = style or rng.choice(STYLES)
        count = 1 if how == "one" else 2 if how == "joint" else rng.choice((1, 2, 2, 2, 3, 3))
        parts = []
        for at in range(count):
            draw, last = rng.random(), at == count - 1
            if last and count > 1 and draw < 0.3:
                parts.append(rng.choice(ENDS))
            elif draw < 0.08:
                parts.append(wide.made_up(rng))
            elif draw < 0.14:
                parts.append(rng.choice(SHORT))
            else:
                part = "noun" if last or rng.random() < 0.4 else rng.choice(("adjective", "verb"))
                parts.append(rng.choice(_words()[part]))
        shown = [_abbreviated(part, rng) if len(part) > 4 and rng.random() < 0.05 else part for part in parts]
        if rng.random() < 0.05:
            number = str(rng.randint(1, 9))
            shown, parts = [*shown, number], [*parts, number]
        name = written(shown, how)
        if len(set(parts)) == len(parts) and not taken(name) and len(name) < 36:
            return name, parts


def _usual(rng: Random, style: str) -> tuple[str, list[str]]:
    """A name that a program could have: backup_server_port."""
    while True:
        parts = wide.attribute(rng)[0].lower().split(" ")
        name = written(parts, style or rng.choice(STYLES))
        if not taken(name) and len(set(parts)) == len(parts) and "ip" not in parts:
            return name, parts


def names(rng: Random, count: int) -> list[tuple[str, list[str]]]:
    """Keys of one object: mostly written alike; now and then they share a word."""
    style = rng.choice(STYLES) if rng.random() < 0.85 else ""
    found: dict[str, list[str]] = {}
    usual = rng.random() < 0.35
    shared = rng.choice(_words()["noun"]) if rng.random() < 0.15 else ""
    while len(found) < count:
        name, parts = _usual(rng, style) if usual and not shared else key(rng, style)
        if shared and style not in ("", "one") and shared not in parts:
            parts = [shared, *parts[-1:]] if rng.random() < 0.6 else [*parts[:1], shared]
            name = written(parts, style)
        if plain(name) not in map(plain, found) and not taken(name) and parts not in found.values():
            found[name] = parts
    return list(found.items())


# -- how an object is asked for

ORDER = lines("""make a JSON object with the keys {k}|JSON with {k}|I want JSON, keys {k}|give me {k} as JSON|return JSON, with exactly these keys: {k}|the keys are {k}, the answer is JSON|extract {k} as JSON|put this into JSON: {k}|as JSON please, with {k}|
only JSON, only {k}|I need an object that has {k}|JSON object ({k})|fill {k} and send it as JSON|what I need from this is {k}, in JSON|write {k} as a JSON object|read it and give me {k}, JSON only|turn it into JSON; the fields are called {k}|the fields
{k}, as JSON|my program wants the keys {k}, so answer in JSON|answer with a JSON object whose keys are {k}|can you make JSON of it, {k}|could you pull out {k} as JSON|we store {k}, so give me these as JSON|name the keys {k} and nothing else, JSON|
take down {k} in JSON|json: {k}|produce {k}, valid JSON|I would like {k} as JSON|find {k} here, and put them in JSON|a JSON object with {k} is what I am after|just {k}, as JSON|output {k} in a JSON object|use {k} as keys and answer in JSON|
the form has the boxes {k}, fill them in as JSON|the columns of my table are {k}, one row as JSON please|schema: {k}|format: JSON. Keys: {k}|keys are case sensitive: {k}. Give me the JSON|I have to type in {k}, hand me that as JSON|JSON, nothing but JSON, with {k}|
there must be {k} in the JSON|write it as {k}, in JSON|from that I want {k} (JSON)|split it up into {k} and answer in JSON|who or what is {k} here, as JSON|JSON for my database; the columns are {k}|could you sort that into {k} for me, as JSON|do it as JSON and call the keys {k}|sum it up under {k}, JSON|
please send JSON back. It needs {k}|a small JSON, with {k}|the script reads {k}, so write JSON with these|JSON with the following keys, spelled like this: {k}""")
FIRST = lines(
    "the keys are {k}|I need {k}|keys: {k}|we want {k}|remember these keys: {k}|your keys: {k}|wanted: {k}|I am looking for {k} in this"
)
NOW = lines(
    "Now the JSON.|JSON, please.|As JSON.|Give me the JSON object.|Now write the JSON|That is the text. JSON now.|And now JSON with these keys, nothing else.|Answer in JSON."
)
POLITE = lines("""Would you be so kind?|If it is not too much trouble,|Good morning!|Hello, I hope you are fine.|Dear assistant,|Thank you so much for your help.|When you have a minute,|I would be very grateful.|Sorry to bother you.|Please and thank you.|May I ask
you something?|With kind regards.|Many thanks in advance!""")
GRUMPY = lines("""Third time I ask.|No chatter.|And do not invent any keys.|Ugh, this again.|I am in a hurry.|Last time you got the keys wrong.|Is that so hard?|Come on.|Spell the keys right for once.|I do not have all day.|No excuses.|Not one word more.|You
always change the names, do not.|Get it right.|What a day.|I hate forms.""")
CHATTY = lines("""So my sister sent me this and I have no idea what to do with it, haha.|Okay so here is the thing.|It is raining here, so I am doing paperwork.|My boss wants this in the system by noon, you know how he is.|I just got a coffee, let us do this.|You
would not believe how many of these I have.|We did the same yesterday, remember?|Funny one this time.|My old computer did this for me, but it broke.|Anyway, enough about me.|This came in while I was out for lunch.|It is for my cousin's little shop.""")


def ordered(keys: list[str], rng: Random, types: list[str] | None = None, what: list[str] = ORDER) -> str:
    """Somebody asks, in some mood, with or without slips; the keys stay as they are."""
    text = rng.choice(what)
    draw = rng.random()
    if draw < 0.15:
        words = text.split(" ")
        places = [at for at, word in enumerate(words) if len(word) > 3 and word.isalpha() and word != "JSON"]
        for at in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 3)))):
            words[at] = slip(words[at], rng)
        text = " ".join(words)
    elif draw < 0.25:
        text = text.upper().replace("{K}", "{k}")
    elif draw < 0.35:
        text = text.lower()
    elif draw < 0.9:
        text = capital(text)
    ends = (".", ".", ".", "", "!", " please", ", please.", "?" if text.lower().startswith(("can", "could")) else ".")
    text = text.replace("{k}", listed(keys, rng, types or (), text.endswith("{k}")))
    text += "" if text.endswith("\n") else rng.choice(ends)
    mood = rng.random()
    if mood < 0.4:
        said = rng.choice(rng.choice((POLITE, GRUMPY, CHATTY)))
        said = said.upper() if rng.random() < 0.08 else said
        text = f"{said} {text}" if said.endswith(",") or rng.random() < 0.6 else f"{text} {said}"
    return text


NOTE = lines(
    "Text:|Here it is:|The note:|This is what came in:|Message:|Input:|It says:|Here you go:|The text is this:"
)


def asked(text: str, order: str, rng: Random) -> tuple[str, str]:
    """The system turn and the user's."""
    draw = rng.random()
    if draw < 0.08:
        return order, text
    shown = rng.choice((text, text, text, f'"{text}"', f"<text>\n{text}\n</text>", f"---\n{text}\n---"))
    between = rng.choice(("\n", "\n\n", " ") if text[-1] in ".!?" else ("\n", "\n\n"))
    note = rng.choice(NOTE)
    if draw < 0.5:
        user = rng.choice((f"{shown}{between}{order}", f"{note} {shown}{between}{order}", f"{text}{between}{order}"))
    else:
        user = rng.choice((f"{order}{between}{shown}", f"{order}{between}{note} {shown}", f"{order}\n{note}\n{shown}"))
    return system(rng) if rng.random() < 0.12 else "", user


def answered(text: str, values: Json, rng: Random, types: list[str] | None = None) -> Chat:
    draw, keys = rng.random(), list(values)
    if draw < 0.35:
        opening, user = "", wide_orders.around(text, wide_orders.order(rng, keys, types or ()), rng, text, keys)
    elif draw < 0.43:  # the keys first, the order last
        opening, user = "", f"{ordered(list(values), rng, types, FIRST)}\n\n{text}\n\n{rng.choice(NOW)}"
    else:
        opening, user = asked(text, ordered(list(values), rng, types), rng)
    said = json.dumps(values, ensure_ascii=False)
    return Chat([Turn("user", user), Turn("assistant", said)], "wide_copy", (), opening, expect=values)


# -- objects whose keys are any words, and a text that has the words too


def _value(rng: Random) -> tuple[str, Any]:
    """As it is told, and as it is stored."""
    draw = rng.random()
    if draw < 0.42:
        word = rare(rng)
        return word, word
    if draw < 0.58:
        number = rng.choice((rng.randint(0, 20), rng.randint(1, 999), rng.randint(1, 99999)))
        return spelled(number) if number < 13 and rng.random() < 0.2 else str(number), number
    if draw < 0.64:
        part = round(rng.uniform(0.1, 99), rng.choice((1, 2)))
        return str(part), part
    how = rng.choice((wide.phrase, wide.person, wide.town, wide.code, wide.date, wide.first_name, wide.mail, wide.site))
    text = how(rng)
    return (text, int(text)) if re.fullmatch("[1-9][0-9]*", text) else (text, text)


HEADS = {head.lower(): how for head, how in wide.HEADS.items() if " " not in head}


def _fitting(parts: list[str], rng: Random) -> tuple[str, Any]:
    """A value such as the name's last word has, if it is one of those; a code is never of digits alone."""
    how = HEADS.get(parts[-1])
    if how is None:
        return _value(rng)
    if how in (wide.digits, wide.amount, wide.year):
        number = rng.randint(1500, 2030) if how is wide.year else rng.randint(1, 9999)
        return str(number), number
    told = how(rng)
    return _fitting(parts, rng) if told.isdigit() else (told, told)


TOLD = lines(
    "the {w} is {v}|{w}: {v}|{w} is {v}|as {w} we have {v}|for {w} it says {v}|{v} is the {w}|the {w} was {v}|{w} {v}|{w} = {v}|{w} - {v}|its {w} is {v}|put {v} for {w}|{v} ({w})"
)
HAS = (("it has a {w}", "it has no {w}"), ("there is a {w}", "there is no {w}"), ("with a {w}", "without a {w}"))
IS = (("it is {w}", "it is not {w}"), ("{w}: yes", "{w}: no"), ("{w}, that is true", "{w}, that is not true"))


def _small(clause: str) -> str:
    """Inside of a sentence; a value at the beginning stays as it is."""
    head, _, rest = clause.partition(" ")
    return (
        f"{head.lower()} {rest}"
        if head in ("The", "As", "For", "Its", "Put", "It", "There", "With", "Without")
        else clause
    )


def record(rng: Random) -> Chat:
    """Some of what a text tells, under names made of the text's own words."""
    found = names(rng, rng.choice((1, 1, 2, 2, 3, 3, 4)) + rng.choice((0, 0, 1, 2)))
    form = rng.choice(TOLD) if rng.random() < 0.5 else ""
    clauses, values = [], {}
    for name, parts in found:
        words = " ".join(parts)
        if rng.random() < 0.12 and parts[-1] not in HEADS:
            yes = rng.random() < 0.5
            if len(parts) == 1 and parts[0] in _words()["adjective"]:
                telling = rng.choice(IS)
            else:
                telling = rng.choice((*HAS, IS[1]))
            clause, values[name] = telling[0 if yes else 1].replace("{w}", words), yes
        else:
            told, values[name] = _fitting(parts, rng)
            clause = (form or rng.choice(TOLD)).replace("{w}", words).replace("{v}", told)
        clause = re.sub(r"\ba (?=[aeiou])", "an ", clause)
        clauses.append(clause if clause.startswith(str(values[name])) else capital(clause))
    chosen = rng.sample(list(values), rng.randint(max(1, len(values) - 2), len(values)))
    rng.shuffle(clauses)
    draw = rng.random()
    if draw < 0.4:
        text = " ".join(one + "." for one in clauses)
    elif draw < 0.65:
        dash = rng.choice(("", "- ", "* "))
        text = "\n".join(dash + one for one in clauses)
    else:
        text = rng.choice((", ", "; ")).join([clauses[0], *(_small(one) for one in clauses[1:])]) + rng.choice(
            (".", "")
        )
    kinds = {str: "text", int: "number", float: "number", bool: "true or false"}
    return answered(text, {name: values[name] for name in chosen}, rng, [kinds[type(values[name])] for name in chosen])


SEEN = lines(
    "there were {l}|we counted {l}|on the table: {l}|{l}, that is all|they sold {l}|I found {l}|the box has {l}|in stock: {l}|somebody left {l} here|{l} came in today"
)


def counts(rng: Random) -> Chat:
    """How many of each, where all are of one kind: a key is one of them, and none of its neighbours."""
    while True:
        pool = rng.choice(list(wide_kinds.kinds().values())) if rng.random() < 0.5 else None
        if pool is None:
            one = rng.choice(wide_fields.fields()["kind"])
            pool = [wide_fields.bare(each) for each in one.members] if one.mass == "c" else []
        pool = [each for each in pool if not taken(each) and not each.endswith(("s", "man", "men"))]
        if len(pool) > 3:
            break
    members = rng.sample(pool, min(len(pool), rng.choice((2, 3, 4, 5))))
    plural = rng.random() < 0.4
    style = rng.choice(("snake", "camel", "kebab", "words"))
    numbers = {each: rng.randint(1, rng.choice((9, 99))) for each in members}
    told = [f"{number} {each if number == 1 else wide_fields.many(each)}" for each, number in numbers.items()]
    text = rng.choice(SEEN).replace("{l}", joined(told))
    chosen = rng.sample(members, rng.randint(max(1, len(members) - 1), len(members)))
    values = {}
    for each in chosen:
        name = written((wide_fields.many(each) if plural else each).replace("-", " ").split(" "), style)
        if not taken(name):
            values[name] = numbers[each]
    if not values:
        return counts(rng)
    return answered(capital(text) + ".", values, rng)


# -- drills

PAIR = lines("""make JSON with the key {a} and the value {b}|JSON: key {a}, value {b}|an object with {a} set to {b}|{a} is the key, {b} is the value, write that as JSON|write the JSON object in which {a} is {b}|put {b} under {a}, as JSON|set {a} to {b} and show me the
JSON|as JSON please: {a} = {b}|I want {b} stored as {a}, JSON|give me an object whose only key is {a}, with {b} in it|{a}: {b}. Make that JSON""")
REPEAT = lines(
    """repeat exactly: {x}|copy this letter by letter: {x}|write this again, as it is: {x}|say this back to me: {x}|type {x}|type exactly this: {x}|give me back what stands behind the colon: {x}|I say {x}, you say the same|echo {x}|print {x}|copy:\n{x}|the same
again, without a change: {x}|write down {x}|answer with {x} and nothing else|just say {x}|your whole answer is {x}|reproduce this text: {x}|spelling matters, copy it: {x}|output only this: {x}""".replace(
        "\\n", "\n"
    )
)
MARKED = lines(
    """which word is in quotes|what stands between the quotation marks|give me the quoted part|copy what is quoted|only the quoted word, please|what is in the quotes|write down the part in quotes"""
)
ARRAY = lines(
    "put these into a JSON array: {k}|as a JSON list: {k}|make a JSON array of {k}|{k}: write them as an array of strings in JSON|JSON array, please: {k}|turn {k} into a JSON list"
)
KEYS = lines(
    "which keys does this object have|list the keys|name its keys|what are the keys here|write down all keys|only the keys, please"
)
CASES = {"snake": "snake_case", "camel": "camelCase", "kebab": "kebab-case", "pascal": "PascalCase"}
CASED = lines(
    "write {w} in {c}|{w} in {c}|how do I write {w} in {c}|turn {w} into {c}|{c} for {w}|make {w} a name in {c}|I need {w} as {c}"
)


def _signed(text: str, rng: Random) -> str:
    text = capital(text) if rng.random() < 0.8 else text
    return f"{rng.choice(rng.choice((POLITE, GRUMPY)))} {text}" if rng.random() < 0.12 else text


def _said(user: str, answer: str) -> Exchange:
    return Exchange(user, answer, ())


def _quoted(text: str, rng: Random) -> str:
    return rng.choice((f'"{text}"', f'"{text}"', f"'{text}'", f"`{text}`"))


def pair(rng: Random) -> Exchange:
    name = key(rng)[0]
    told, value = _value(rng)
    told = str(value) if isinstance(value, int) else told
    bare = " " not in name and " " not in told and rng.random() < 0.4
    shown = (name, told) if bare else (_quoted(name, rng), told if not isinstance(value, str) else _quoted(told, rng))
    text = _signed(rng.choice(PAIR), rng).replace("{a}", shown[0]).replace("{b}", shown[1])
    return _said(text + rng.choice((".", "")), json.dumps({name: value}, ensure_ascii=False))


def repeat(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.35:
        text = " ".join(rare(rng) for _ in range(rng.choice((1, 1, 2, 3, 4))))
    elif draw < 0.6:
        text = rng.choice((" ", ", ")).join(key(rng)[0] for _ in range(rng.choice((1, 1, 2, 3))))
    elif draw < 0.75:
        text = " ".join(_value(rng)[0] for _ in range(rng.choice((2, 3))))
    elif draw < 0.88:
        text = f"{capital(wide.thing(rng))} of {wide.person(rng)} is {rng.choice((rare(rng), wide.code(rng)))}."
    else:
        text = wide.code(rng)
    quoted = rng.random() < 0.3 and '"' not in text
    return _said(_signed(rng.choice(REPEAT), rng).replace("{x}", f'"{text}"' if quoted else text), text)


def marked(rng: Random) -> Exchange:
    found = [rare(rng) for _ in range(rng.randint(4, 9))]
    word = rng.choice((rare(rng), key(rng)[0], f"{rare(rng)} {rare(rng)}", wide.code(rng)))
    found.insert(rng.randrange(len(found) + 1), f'"{word}"')
    text, order = " ".join(found), capital(rng.choice(MARKED))
    return _said(rng.choice((f"{text}\n{order}?", f"{order}?\n{text}", f"{order}: {text}")), word)


def array(rng: Random) -> Exchange:
    found = list(dict.fromkeys(rng.choice((rare, rare, wide.first_name))(rng) for _ in range(rng.randint(2, 6))))
    if rng.random() < 0.3:
        found = [name for name, _ in names(rng, rng.randint(2, 5))]
    text = _signed(rng.choice(ARRAY), rng).replace("{k}", rng.choice((joined(found), ", ".join(found))))
    return _said(text + rng.choice((".", "")), json.dumps(found, ensure_ascii=False))


def edited(rng: Random) -> Exchange:
    """Another object of one: a key more, a key less, under another name; or only its keys."""
    found = {name: _value(rng)[1] for name, _ in names(rng, rng.choice((2, 3, 4)))}
    shown, last = json.dumps(found, ensure_ascii=False), rng.choice(list(found))
    other = key(rng)[0]
    draw = rng.random()
    if draw < 0.3:
        order = rng.choice(KEYS)
        order += "?" if order.startswith(("wh", "what")) else "."
        return _said(rng.choice((f"{capital(order)}\n{shown}", f"{shown}\n{capital(order)}")), joined(list(found)))
    if draw < 0.55 or other in found:
        order = rng.choice((f'drop "{last}"', f'take "{last}" out', f'the same without "{last}"', f'remove "{last}"'))
        changed = {name: value for name, value in found.items() if name != last}
    elif draw < 0.8:
        order = rng.choice((f'call "{last}" "{other}"', f'rename "{last}" to "{other}"', f'"{other}" for "{last}"'))
        changed = {other if name == last else name: value for name, value in found.items()}
    else:
        word = rare(rng)
        order = rng.choice(
            (f'add "{other}": "{word}"', f'one more key: "{other}" with "{word}"', f'"{other}" is "{word}"')
        )
        changed = found | {other: word}
    order = capital(order) + rng.choice((".", "", ", please."))
    return _said(
        rng.choice((f"{shown}\n{order}", f"{order}\n{shown}", f"{shown} {order}")),
        json.dumps(changed, ensure_ascii=False),
    )


def cased(rng: Random) -> Exchange:
    style = rng.choice(list(CASES))
    _, parts = key(rng, "snake")
    parts = parts if len(parts) > 1 else [*parts, rng.choice(ENDS)]
    other = rng.choice([each for each in (*CASES, "words", "words") if each != style])
    text = (
        _signed(rng.choice(CASED), rng).replace("{c}", CASES[style]).replace("{w}", _quoted(written(parts, other), rng))
    )
    return _said(text + rng.choice((".", "", "?")), written(parts, style))


DRILLS = {pair: 4, repeat: 4, marked: 2, array: 2, edited: 2, cased: 1}


def drill(rng: Random) -> Chat:
    turns = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        one = fresh(rng.choices(list(DRILLS), list(DRILLS.values()))[0], rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_copy", (), system(rng) if rng.random() < 0.1 else "", expect=turns[-1].text)


def draw(rng: Random) -> Chat:
    form = rng.random()
    return record(rng) if form < 0.52 else counts(rng) if form < 0.66 else drill(rng)
