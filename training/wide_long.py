"""Texts of any kind and length with facts in them, and questions about the facts."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from training import facts, wide
from training.data_chat import Chat, Turn
from training.facts_talk import NOTHING_TO_THINK
from training.wide_facts import LISTED, Fact, Told, capital, some, typed

if TYPE_CHECKING:
    from training.wide_relations import Related
    from training.wide_things import Owned

Prose = Callable[[int, Random], str]  # characters wanted; text of the corpus

# -- what the facts lie in


def _sentences(text: str) -> list[str]:
    parts = text.replace("\n", " ").split(". ")
    return [part.strip() + "." for part in parts if part.strip()]


def _corpus(size: int, rng: Random, prose: Prose) -> list[str]:
    return _sentences(prose(size, rng))


def _paragraphs(size: int, rng: Random, prose: Prose) -> list[str]:
    return [part for part in prose(size, rng).split("\n") if part.strip()]


PLAIN = (
    "The road goes on.", "Rain fell all night.", "A dog slept by the door.", "Nothing else happened.", "The clock ticks.",
    "Birds sing in the morning.", "The soup is warm.", "He closed the window.", "She read the paper.", "We waited a while.",
    "The train was late again.", "Leaves turn brown.", "The lamp is on.", "Snow covers the hill.", "They talked for hours.",
    "It was a quiet day.", "The children laughed.", "Waves roll to the shore.", "The shop opens soon.", "I like long walks.",
)  # fmt: skip


def _repeated(size: int, rng: Random, prose: Prose) -> list[str]:
    units = rng.sample(PLAIN, rng.randint(1, 6))
    if rng.random() < 0.3:
        units = [capital(f"the {wide.noun(rng)} is {wide.adjective(rng)}.") for _ in range(rng.randint(2, 6))]
    count = max(1, size // sum(len(unit) + 1 for unit in units))
    return [unit for _ in range(count) for unit in units]


def _words(size: int, rng: Random, prose: Prose) -> list[str]:
    return [" ".join(wide.word(rng) for _ in range(rng.randint(4, 14))) + "." for _ in range(max(2, size // 60))]


def _simple(size: int, rng: Random, prose: Prose) -> list[str]:
    verbs = "sees likes sold paints carries finds wants brings cleans breaks builds forgets needs drops opens".split()
    return [
        f"{wide.first_name(rng)} {rng.choice(verbs)} {wide.thing(rng)}{rng.choice(('', ' today', ' again', ' at home'))}."
        for _ in range(max(2, size // 34))
    ]


def _log(size: int, rng: Random, prose: Prose) -> list[str]:
    lines, second = [], rng.randrange(80_000)
    what = (
        "started",
        "stopped",
        "connected",
        "timed out",
        "retried",
        "finished",
        "loaded",
        "failed",
        "waiting",
        "ready",
    )
    day = f"20{rng.randint(10, 60)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    for _ in range(max(2, size // 52)):
        second += rng.randint(0, 40)
        stamp = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        level = rng.choice(("INFO", "INFO", "DEBUG", "WARN", "ERROR"))
        lines.append(f"{day} {stamp} {level} {wide.noun(rng)} {rng.choice(what)} ({rng.randint(1, 999)} ms)")
    return lines


def _code(size: int, rng: Random, prose: Prose) -> list[str]:
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        name, other = wide.noun(rng), wide.noun(rng)
        lines += rng.choice(
            (
                [f"def {name}_{other}({other}):", f"    return {other} + {rng.randint(1, 99)}"],
                [f"{name} = [{', '.join(str(rng.randint(0, 99)) for _ in range(5))}]"],
                [f"for {name[0]} in range({rng.randint(2, 99)}):", f"    print({name[0]})"],
                [f"if {name} > {rng.randint(1, 99)}:", f"    {other} = None"],
                [f"const {name} = {other}.map(x => x * {rng.randint(2, 9)});"],
                [f"# {wide.adjective(rng)} {name}"],
                [f"class {capital(name)}:", f"    {other}: int = {rng.randint(0, 99)}"],
            )
        )
    return lines


def _listed(size: int, rng: Random, prose: Prose) -> list[str]:
    form = rng.choice(("- {}", "* {}", "{}", "{},", "[ ] {}"))
    return [form.format(wide.phrase(rng)) for _ in range(max(2, size // 20))]


def _others(size: int, rng: Random, prose: Prose) -> list[str]:
    """Facts that nobody asks for."""
    return [fact.told(rng) for fact in some(rng, min(160, max(2, size // 60)))]


def _chatter(size: int, rng: Random, prose: Prose) -> list[str]:
    people = [wide.first_name(rng) for _ in range(rng.randint(2, 4))]
    lines = _sentences(prose(size, rng))
    return [f"{rng.choice(people)}: {line}" for line in lines]


TEXTS: dict[Callable[[int, Random, Prose], list[str]], tuple[float, float, str]] = {
    # weight, characters a token, what joins the parts
    _corpus: (6, 3.4, " "), _paragraphs: (3, 3.55, "\n"), _repeated: (1.5, 3.85, " "), _words: (1, 3.15, " "),
    _simple: (2, 3.25, " "), _log: (1, 1.5, "\n"), _code: (1, 2.2, "\n"), _listed: (0.8, 2.95, "\n"),
    _others: (2, 2.9, " "), _chatter: (1, 2.9, "\n"),
}  # fmt: skip

# What a fact looks like where everything else is code, a log, a list or talk.
DRESSES: dict[Callable[[int, Random, Prose], list[str]], tuple[str, ...]] = {
    _code: ("# {}", "// {}", "/* {} */", "# TODO: {}", "# NOTE: {}", 'print("{}")', "-- {}"),
    _log: ("INFO {}", "00:00:00 NOTICE {}", "WARN {}", "[note] {}", "message: {}", "2031-04-02 11:20:45 INFO {}"),
    _listed: ("- {}", "* {}", "[x] {}", "> {}"), _chatter: ("Ana: {}", "Me: {}", "Boss: {}", "Unknown: {}", "Ivan: {}"),
}  # fmt: skip

# -- how a text is handed over

AROUND = """{t}|Text:\n{t}|Here is a text.\n\n{t}|Read this:\n{t}|{t}\n\nThat is all.|<document>\n{t}\n</document>|```\n{t}\n```|Below are my
 notes.\n\n{t}|Please read the following.\n\n{t}|I have this file:\n\n{t}|"{t}"|Context: {t}|### Document\n{t}\n\n### End|Passage: {t}|From
 a report:\n\n{t}|{t}\n---|I copied this from somewhere:\n{t}|Notes:\n{t}\n(end of notes)|Have a look.\n\n{t}|[begin]\n{t}\n[end]|Somewhere in
 here is what I need.\n\n{t}|There is a small detail in this text; keep it in mind, I will ask about it.\n\n{t}|Memorize this, there will be a
 test.\n\n{t}|<text>{t}</text>|Source material:\n\n{t}\n\nEnd of the material.|Here's everything I have: {t}|Input:\n{t}|My diary:\n{t}|The
 article:\n\n{t}|Long text ahead.\n\n{t}\n\nDone.|Story so far: {t}|Data:\n{t}|Mail from {p}:\n{t}""".replace(
    "\n ", " "
).split("|")
QUESTION = """{q}|{q}|{q}|{q}|Question: {q}|Q: {q}|Now: {q}|My question: {q}|Based on this, answer: {q}|Answer from the text. {q}|Use
 only the text. {q}|<question>{q}</question>|Task: {q}|### Question\n{q}|So, {q}|Please answer: {q}|I want to know this: {q}""".replace(
    "\n ", " "
).split("|")
SYSTEMS = """You are a helpful assistant.|You are a careful reader.|Answer the question about the text.|You are an AI that answers from
 documents.|Be concise.|You are a research assistant. Use the documents.|Respond in English.|You answer truthfully and briefly.|Help the user with their files.|You are a customer support agent.|Follow the
 instructions of the user exactly.|Today is {d}. You are a helpful, harmless assistant.|Always be polite.|You are an expert in finding
 information.|Keep answers short and to the point.|The assistant is kind.""".replace("\n ", " ").split("|")
UNKNOWN = "I do not know that."


def system(rng: Random) -> str:
    return rng.choice(SYSTEMS).format(p=wide.person(rng), d=wide.date(rng))


def _text(size: int, told: list[str], rng: Random, prose: Prose) -> str:
    """About `size` tokens, with the sentences somewhere in it, in their order."""
    from training import wide_filler

    texts = TEXTS | wide_filler.FILLERS
    kinds = list(texts)
    kind = rng.choices(kinds, [texts[one][0] for one in kinds])[0]
    _, each, joint = texts[kind]
    room = int((size - sum(len(line) for line in told) / 2.3) * each)
    units = kind(room, rng, prose) if room > 60 else []
    total = 0
    for at, unit in enumerate(units):  # what is drawn may be too long
        total += len(unit) + 1
        if total > room:
            units = units[:at]
            break
    if kind in DRESSES:
        told = [rng.choice(DRESSES[kind]).replace("{}", line) if rng.random() < 0.5 else line for line in told]
    told = [wide_filler.put(line, rng) if rng.random() < 0.15 else line for line in told]
    draw = rng.random()
    if draw < 0.12 and len(told) == 1:  # at the very start or end
        places = [0 if rng.random() < 0.5 else len(units)]
    elif draw < 0.2:  # all together
        places = [rng.randint(0, len(units))] * len(told)
    else:
        places = sorted(rng.randint(0, len(units)) for _ in told)
    for place, line in reversed(list(zip(places, told, strict=True))):
        if 0 < place < len(units) and rng.random() < 0.12:
            units[place] = wide_filler.woven(line, units[place], rng)
        else:
            units.insert(place, line)
    return joint.join(units)


def _given(text: str, question: str, rng: Random) -> tuple[str, str]:
    """(system, the user's first turn)."""
    around = rng.choice(AROUND)
    filled = around.replace("{p}", wide.person(rng) if "{p}" in around else "").replace("{t}", text)
    asked = rng.choice(QUESTION).replace("{q}", question)
    draw = rng.random()
    if draw < 0.06:
        return filled, question
    opening = system(rng) if rng.random() < 0.35 else ""
    if draw < 0.14:
        return opening, f"{asked}\n\n{filled}"
    if draw < 0.24:
        return opening, f"{asked}\n\n{filled}\n\n{asked}"
    return opening, f"{filled}{rng.choice((chr(10), chr(10) * 2, chr(10) * 2))}{asked}"


def _chat(text: str, asked: list[tuple[str, str]], rng: Random, expect: str) -> Chat:
    opening, first = _given(text, asked[0][0], rng)
    thought = NOTHING_TO_THINK if rng.random() < 0.05 else ""
    turns = [Turn("user", first), Turn("assistant", asked[0][1], thought)]
    for question, answer in asked[1:]:
        turns += [Turn("user", question), Turn("assistant", answer, thought)]
    return Chat(turns, "wide", (expect,), opening, expect=expect)


def find(rng: Random, size: int, prose: Prose, questions: int | None = None) -> Chat:
    """Facts in a text of about `size` tokens, and questions about some of them."""
    count = rng.choice((1, 1, 2, 3, rng.randint(1, max(2, min(24, size // 120)))))
    most = rng.choice((1, 1, 2, 3, rng.randint(1, 10)))
    if size > 1500 and rng.random() < 0.7:  # a long text is dear: it is asked more
        count = rng.randint(4, min(60, size // 130))
        most = rng.randint(4, 30 if size > 6000 else 12)
    found = some(rng, count)
    told = {fact.about: fact.told(rng) for fact in found}
    asked = rng.sample(found, min(len(found), questions or most))
    pairs = [_quoted(fact.asked(rng), fact, told[fact.about]) for fact in asked]
    if rng.random() < 0.12:
        pairs[-1] = asked[-1].yes_or_no(rng, _other(asked[-1], rng))[:2]
    return _chat(_text(size, list(told.values()), rng, prose), pairs, rng, asked[-1].value)


def _quoted(pair: tuple[str, str], fact: Fact | Told | Related | Owned, told: str) -> tuple[str, str]:
    """The answer goes on from the key as the text does, whatever it is about; or it is the value alone."""
    return pair if pair[1] == capital(fact.value) else (pair[0], _from_key(fact, told))


def _from_key(fact: Fact | Told | Related | Owned, told: str) -> str:
    at = told.lower().find(fact.key.lower())
    return capital(told[at:]) if 0 <= at < told.lower().rfind(fact.value.lower()) else told


ABOUT = """what does the text say about {a}|what is said about {a} and {b}|which sentence speaks of {a}|{a} and {b}?|{a}, {b}, {c}?|where does it mention {a}|tell me about {a}|what about the {a} and the {b}|quote the
 sentence with {a}|find the part on {a}|what happened with {a} and {b}|is there anything on {a}|I look for something with {a} and {b}|what was it about {a} and {b}|who or what was {a}|how was that with {a} and
 {b}|remind me of {a}|what did it say on {a}|{b} of {a}?|the one with {a} and {b}, please|in what way does {a} come up|show me {a} with {b}|which part has {a} in it|give me what you know of {a}""".replace(
    "\n ", " "
).split("|")


def mentioned(rng: Random, size: int, prose: Prose) -> Chat:
    """Any sentence of a text, asked for by words that stand nowhere else in it."""
    sentences: list[str] = []
    room = int(size * 2.9)
    for sentence in _sentences(prose(room, rng)):
        if sum(map(len, sentences)) + len(sentence) > room:
            break
        sentences.append(" ".join(sentence.split()))
    words = Counter(re.findall(r"[A-Za-z]+", " ".join(sentences).lower()))
    pairs: list[tuple[str, str]] = []
    for sentence in rng.sample(sentences, min(len(sentences), 3 * rng.randint(1, 4))):
        own = [word for word in re.findall(r"[A-Za-z]{5,}", sentence) if words[word.lower()] == 1]
        if len(own) > 2 and 30 < len(sentence) < 240:
            a, b, c = rng.sample(own, 3)
            question = typed(capital(rng.choice(ABOUT).format(a=a, b=b, c=c)), rng, (a, b, c))
            pairs.append((question + ("" if question.endswith("?") else rng.choice(("?", "?", ".", ""))), sentence))
    if not pairs:
        return find(rng, size, prose)
    return _chat(" ".join(sentences), pairs, rng, pairs[0][1])


def _other(fact: Fact | Told | Related | Owned, rng: Random) -> str:
    from training.wide_facts import another

    return another(fact, rng)


def lined(rng: Random, size: int, prose: Prose) -> Chat:
    """Only facts: a table, a list, settings, in one form all through."""
    form = rng.choice(LISTED)
    count = max(2, min(400, int(size * rng.uniform(0.3, 1)) // 16))
    found: dict[tuple[str, str], Fact] = {}
    names = [wide.attribute(rng) for _ in range(rng.choice((1, 2, 5, 20)))]  # many of a kind, or few
    for _ in range(count):
        name, value = rng.choice(names)
        fact = Fact(_key(rng), name, value(rng))
        found.setdefault(fact.about, fact)
    listed = list(found.values())
    asked = rng.sample(listed, min(len(listed), rng.randint(1, 8)))
    text = "\n".join(fact.listed(form) for fact in listed)
    return _chat(text, [fact.asked(rng) for fact in asked], rng, asked[-1].value)


ALL = (
    """what are all the {a} of {k}|list all {a} of {k}|which {a} does {k} have|tell me all {a} for {k}|give me all {a} that {k} has|
name the {a} of {k}|{k} has several {a}. What are they|find all {a} for {k} in the text|what {a} were given for {k}""".replace(
        "|\n", "|"
    )
    .replace("\n", " ")
    .split("|")
)


def several(rng: Random, size: int, prose: Prose) -> Chat:
    """One key with several values; other keys with values of the same kind."""
    name, value = wide.attribute(rng)
    keys = list(dict.fromkeys(_key(rng) for _ in range(rng.randint(1, 4))))
    values = {one: [value(rng) for _ in range(rng.randint(2, 4))] for one in keys}
    found = [Fact(one, name, each) for one in keys for each in values[one]]
    rng.shuffle(found)
    chosen = rng.sample(keys, min(len(keys), rng.randint(1, 2)))
    pairs = []
    for one in chosen:
        own = [fact.value for fact in found if fact.key == one]
        question = capital(rng.choice(ALL).format(a=many(name), k=one)) + "?"
        pairs.append((typed(question, rng, (one, name)), f"The {many(name)} of {one} are {joined(own)}."))
    extra = ("one {a} of {k} is {v}", "a {a} of {k} is {v}", "{k} also has the {a} {v}", "another {a} for {k}: {v}",
             "{v} is a {a} of {k}, among others", "{v} is one {a} of {k}", "among other things, {k} has {v} as a {a}")  # fmt: skip
    told = [capital(rng.choice(extra).format(a=name, k=fact.key, v=fact.value)) + "." for fact in found]
    return _chat(_text(size, told, rng, prose), pairs, rng, values[chosen[-1]][0])


def together(rng: Random, size: int, prose: Prose) -> Chat:
    """Several facts asked for at once."""
    name, value = wide.attribute(rng)
    keys = list(dict.fromkeys(_key(rng) for _ in range(rng.randint(3, 8))))
    found = [Fact(one, name, value(rng)) for one in keys]
    asked = rng.sample(found, min(len(found), rng.randint(2, 4)))
    these = joined([fact.key for fact in asked])
    form = rng.choice(("what are the {a} of {k}", "give me the {a} for {k}", "tell me the {a} of each: {k}", "{a} of {k}",
                       "I need the {a} of {k}", "what {a} do {k} have", "which {a} belong to {k}"))  # fmt: skip
    question = capital(form.format(a=many(name), k=these)) + "?"
    told = {fact.about: fact.told(rng) for fact in found}
    answer = " ".join(_from_key(fact, told[fact.about]) for fact in asked)
    return _chat(_text(size, list(told.values()), rng, prose), [(question, answer)], rng, asked[0].value)


def chain(rng: Random, size: int, prose: Prose) -> Chat:
    """Names for values, and names for names."""
    forms = ("{y} := {x}", "set {y} to {x}", "{y} takes the value of {x}", "copy {x} to {y}", "{y} is the same as {x}",
             "let {y} equal {x}", "{y} <- {x}", "store {x} in {y}", "{y} gets {x}", "{y} now holds what {x} holds")  # fmt: skip
    first = ("let {y} be {x}", "{y} := {x}", "{y} is set to {x}", "{y} starts as {x}", "{y} <- {x}", "put {x} into {y}")
    style = rng.randrange(3)

    def name() -> str:
        if style == 0:
            return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randint(2, 5)))
        return wide.noun(rng) if style == 1 else f"{rng.choice('abcdxyz')}{rng.randint(1, 99)}"

    told, chains = [], []
    names: set[str] = set()
    one_form = rng.choice(forms) if rng.random() < 0.6 else ""
    for _ in range(rng.randint(1, 4)):
        value, own = str(rng.randint(100, 99999)), []
        for step in range(rng.randint(2, 6)):
            new = name()
            while new in names:
                new = name() + rng.choice("ABXZ")
            names.add(new)
            form = rng.choice(first) if step == 0 else one_form or rng.choice(forms)
            own.append((new, capital(form.format(y=new, x=own[-1][0] if own else value)) + rng.choice((".", "."))))
        chains.append((value, own))
    queues = [list(own) for _, own in chains]
    while any(queues):
        told.append(rng.choice([queue for queue in queues if queue]).pop(0)[1])
    value, own = rng.choice(chains)
    variables = [one for one, _ in own]
    if rng.random() < 0.5:
        question = rng.choice(("Which names have the value {}?", "List all that equal {}.", "What holds {} in the end?",
                               "Which variables are {}?", "Name everything that is set to {}, directly or not.")).format(value)  # fmt: skip
        answer = f"{joined(variables)}."
    else:
        asked = rng.choice(variables)
        question = rng.choice(("What is the value of {}?", "What is {} in the end?", "Which number does {} hold?", "{} = ?",
                               "How much is {}?")).format(asked)  # fmt: skip
        answer = f"The value of {asked} is {value}."
    return _chat(_text(size, told, rng, prose), [(question, answer)], rng, value)


def _key(rng: Random) -> str:
    from training.wide_facts import key

    return key(rng)


def many(name: str) -> str:
    return " ".join([*name.split()[:-1], facts.plural(name.split()[-1])])


def joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def told_before(rng: Random) -> Chat:
    """Facts told by the user in passing, among other talk, and asked for later."""
    from training import wide_talk

    turns: list[Turn] = []
    found = some(rng, rng.randint(1, 5))
    told = {fact.about: fact.told(rng) for fact in found}
    for fact in found:
        turns += [Turn("user", told[fact.about]), Turn("assistant", "OK, I will remember that.")]
        if rng.random() < 0.5:
            exchange = wide_talk.exchange(rng)
            turns += [Turn("user", exchange.user), Turn("assistant", exchange.answer)]
    for fact in rng.sample(found, rng.randint(1, len(found))):
        question, answer = _quoted(fact.asked(rng), fact, told[fact.about])
        turns += [Turn("user", question), Turn("assistant", answer)]
    return Chat(turns, "wide", (fact.key,), system(rng) if rng.random() < 0.3 else "", expect=fact.value)


def missing(rng: Random, prose: Prose) -> Chat:
    """A short text that does not say it, beside questions that it answers."""
    found = some(rng, rng.randint(2, 6))
    there, absent = found[:-1], found[-1]
    told = {fact.about: fact.told(rng) for fact in there}
    pairs = [_quoted(fact.asked(rng), fact, told[fact.about]) for fact in there[:2]] + [(absent.asked(rng)[0], UNKNOWN)]
    rng.shuffle(pairs)
    return _chat(_text(rng.randint(40, 400), list(told.values()), rng, prose), pairs, rng, "know")


def draw(rng: Random, length: int, prose: Prose) -> Chat:
    """For rows of `length` tokens."""
    room = int(length * 0.86) - 90
    least = {1024: 60, 4096: 700}.get(length, length // 8)  # shorter ones are another stage's
    full = 0.15 if length == 4096 else 0.35  # most are of one or two thousand tokens
    size = room if rng.random() < full else int(math.exp(rng.uniform(math.log(least), math.log(room))))
    form = rng.random()
    if form < 0.63:
        return find(rng, size, prose)
    if form < 0.69:
        return mentioned(rng, size, prose)
    if form < 0.77:
        return lined(rng, size, prose)
    if form < 0.83:
        return several(rng, size, prose)
    if form < 0.9:
        return together(rng, size, prose)
    if form < 0.95 or length > 2048:
        return chain(rng, size, prose)
    return told_before(rng) if form < 0.98 else missing(rng, prose)
