"""Retrieval tasks that others published, in their words, with facts of our own.

- RULER (Hsieh et al., 2024): needles among noise, essays or other needles; keys and values that are words, numbers or
  uuids; single, multi-key, multi-value, multi-query; and variable tracking over four hops. Essays are public-domain
  prose in place of Paul Graham's. Half of the prompts begin the answer with RULER's answer prefix, half do not.
- passkey retrieval (Mohtashami and Jaggi, 2023).
- needle in a haystack (Kamradt, 2023): the sandwich in San Francisco, and for half of the prompts the same sentence
  about another city.

The rule: every expected string is in the answer, whatever the case. RULER itself gives part marks for a task with
several strings; here such an answer is wrong, and the log says how many it had. A needle in a haystack needs both
its parts: what to do, and where.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_filler import Filler, hidden
from training.strangers_voices import terms

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
ONE = (
    "A special magic {type} is hidden within the following text. Make sure to memorize it. I will quiz you about the "
    "{type} afterwards.\n{context}\nWhat is the special magic {type} for {query} mentioned in the provided text?"
)
ONE_PREFIX = "The special magic {type} for {query} mentioned in the provided text is"
MANY = (
    "Some special magic {type}s are hidden within the following text. Make sure to memorize it. I will quiz you about "
    "the {type}s afterwards.\n{context}\nWhat are all the special magic {type}s for {query} mentioned in the provided "
    "text?"
)
MANY_PREFIX = "The special magic {type}s for {query} mentioned in the provided text are"
NEEDLE = "One of the special magic {type}s for {key} is: {value}."
TRACK = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\nQuestion: Find "
    "all variables that are assigned the value {query} in the text above."
)
TRACK_PREFIX = (
    "Answer: According to the chain(s) of variable assignment in the text above, {count} variables are assgined the "
    "value {query}, they are: "
)
PASS_TASK = (
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz you "
    "about the important information there."
)
BOT = "You are a helpful AI bot that answers questions for a user. Keep your response short and direct"
OUTSIDE = "Don't give information outside the document or repeat your findings"
SANDWICH = ("San Francisco", "eat a sandwich", "Dolores Park")
CITIES = ("Lisbon", "Wellington", "Oslo", "Nairobi", "Quebec", "Seville", "Hanoi", "Antwerp", "Gdansk", "Cork")
DEEDS = ("fly a kite", "drink lemonade", "read a novel", "play chess", "feed the pigeons", "sketch the boats")
PARKS = ("Harrow Park", "Linden Garden", "Castle Meadow", "Willow Square", "Quarry Park", "Mariner Green")
ADJECTIVES = terms(
    """abrasive, dusty, fretful, gleaming, hollow, jaded, lyrical, mellow, noisy, ornate, placid, quaint, ruddy,
    swanky, tacit, upbeat, vagrant, wistful, zany, brash, crisp, drab, earnest, frugal"""
)
NOUNS = terms(
    """anvil, barley, cymbal, dowry, estuary, flagon, gazebo, hammock, inkwell, jetty, kiln, locket, mitten, nectar,
    outpost, pulley, quiver, rafter, saddle, thicket, urn, visor, wicket, yoke"""
)
ESSAY, FROM_NEEDLES = "essay", "needles"


def word(rng: random.Random) -> str:
    return f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"


def number(rng: random.Random) -> str:
    return str(rng.randint(1_000_000, 9_999_999))


def uuid4(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


MAKE = {"word": word, "number": number, "uuid": uuid4}


def distinct(make: Callable[[random.Random], str], count: int, rng: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[make(rng)] = None
    return list(found)


def contains_all(expected: Sequence[str]) -> Verdict:
    def verdict(answer: Answer) -> str:
        lacking = [text for text in expected if text.lower() not in answer.text.lower()]
        return f"{len(expected) - len(lacking)} of {len(expected)}: lacks {', '.join(lacking)}" if lacking else ""

    return verdict


def context(rng: random.Random, filler: Filler, sort: str, tokens: int, needles: Sequence[str]) -> str:
    """A haystack of that sort with the needles in it, each at its own depth."""
    depths = [rng.random() for _ in needles]
    if sort == ESSAY:
        return hidden(filler.pieces("prose", rng, tokens - 100 - 30 * len(needles)), needles, depths, "prose")
    if sort == FROM_NEEDLES:
        kind = "uuid" if "uuid" in needles[0] else "number"
        key = uuid4 if kind == "uuid" else word
        budget = (tokens - 150) * filler.per_token.get("needles", 2.5)
        others: list[str] = []
        while budget > 0:
            name = key(rng)
            if any(f" for {name} is: " in needle for needle in needles):
                continue  # the key that is asked for has one value
            others.append(NEEDLE.format(type=kind, key=name, value=MAKE[kind](rng)))
            budget -= len(others[-1]) + 1
        return hidden(others, needles, depths, "list")
    count = int((tokens - 100) * filler.per_token.get("prose", 3.5) / (len(NOISE) + 1))
    return hidden([NOISE] * max(count, 1), needles, depths, "list")


def needle_samples(count: int) -> list[str]:
    """Numbers and uuids by turns, to measure their tokens."""
    rng = random.Random("needle samples")
    kinds = ("number", "uuid") * (count // 2)
    return [NEEDLE.format(type=kind, key=word(rng), value=MAKE[kind](rng)) for kind in kinds]


def needles(
    rng: random.Random,
    filler: Filler,
    tokens: int,
    *,
    sort: str,
    type_: str = "number",
    keys: int = 1,
    values: int = 1,
    queries: int = 1,
) -> tuple[str, str, list[str], str]:
    """Prompt, answer prefix, expected strings, the first needle."""
    uuid_keys = sort == FROM_NEEDLES and type_ == "uuid"
    names = distinct(uuid4 if uuid_keys else word, keys, rng)
    held = {name: distinct(MAKE[type_], values, rng) for name in names}
    said = [NEEDLE.format(type=type_, key=name, value=value) for name in names for value in held[name]]
    asked = names[:queries]
    expected = [value for name in asked for value in held[name]]
    shuffled = rng.sample(said, len(said))
    query = asked[0] if len(asked) == 1 else ", ".join(asked[:-1]) + ", and " + asked[-1]
    single = len(expected) == 1
    parts = {"type": type_, "query": query, "context": context(rng, filler, sort, tokens, shuffled)}
    return (
        (ONE if single else MANY).format(**parts),
        (ONE_PREFIX if single else MANY_PREFIX).format(**parts),
        expected,
        said[0],
    )


def single(rng: random.Random, filler: Filler, tokens: int) -> tuple[str, str, list[str], str]:
    sort, type_ = rng.choice(
        (("noise", "number"), (ESSAY, "number"), (ESSAY, "uuid"), (ESSAY, "word"), ("noise", "word"))
    )
    return needles(rng, filler, tokens, sort=sort, type_=type_)


def multi_key(rng: random.Random, filler: Filler, tokens: int) -> tuple[str, str, list[str], str]:
    sort, type_, keys = rng.choice(((ESSAY, "number", 4), (FROM_NEEDLES, "number", 1), (FROM_NEEDLES, "uuid", 1)))
    return needles(rng, filler, tokens, sort=sort, type_=type_, keys=keys)


def multi_value(rng: random.Random, filler: Filler, tokens: int) -> tuple[str, str, list[str], str]:
    return needles(rng, filler, tokens, sort=ESSAY, values=4)


def multi_query(rng: random.Random, filler: Filler, tokens: int) -> tuple[str, str, list[str], str]:
    return needles(rng, filler, tokens, sort=ESSAY, keys=4, queries=4)


def tracking(rng: random.Random, filler: Filler, tokens: int) -> tuple[str, str, list[str], str]:
    names = distinct(lambda r: "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(5)), 5, rng)
    value = str(rng.randint(10_000, 99_999))
    chain = [f"VAR {names[0]} = {value}", *(f"VAR {b} = VAR {a}" for a, b in zip(names, names[1:], strict=False))]
    depths = sorted(rng.random() for _ in chain)
    count = int((tokens - 200) * filler.per_token.get("prose", 3.5) / (len(NOISE) + 1))
    text = hidden([NOISE] * max(count, 8), chain, depths, "list")
    return TRACK.format(context=text, query=value), TRACK_PREFIX.format(count=5, query=value), names, chain[0]


RULER = {
    "ruler single": single,
    "ruler multi-key": multi_key,
    "ruler multi-value": multi_value,
    "ruler multi-query": multi_query,
    "ruler tracking": tracking,
}


def ruler(rng: random.Random, filler: Filler, tokens: int, task: str, figure: str, prefixed: bool) -> Question:
    prompt, prefix, expected, needle = RULER[task](rng, filler, tokens)
    messages = [{"role": "user", "content": prompt}]
    more = {}
    if prefixed:
        messages.append({"role": "assistant", "content": prefix.strip()})
        more = {"continue_final_message": True, "add_generation_prompt": False}
    facts = {"needle": needle, "prefixed": prefixed}
    return chat(figure, messages, contains_all(expected), max_tokens=128, expected=expected, facts=facts, **more)


def passkey(rng: random.Random, filler: Filler, tokens: int, figure: str) -> Question:
    key = str(rng.randint(10_000, 50_000))
    line = f"The pass key is {key}. Remember it. {key} is the pass key."
    count = int((tokens - 100) * filler.per_token.get("prose", 3.5) / (len(NOISE) + 1))
    text = hidden([NOISE] * count, [line], [rng.random()], "list")
    prompt = f"{PASS_TASK}\n{text}\nWhat is the pass key? The pass key is"
    return chat(figure, prompt, contains_all([key]), max_tokens=32, expected=key, facts={"needle": line})


def haystack(rng: random.Random, filler: Filler, tokens: int, figure: str, original: bool) -> Question:
    city, deed, park = SANDWICH if original else (rng.choice(CITIES), rng.choice(DEEDS), rng.choice(PARKS))
    line = f"The best thing to do in {city} is {deed} and sit in {park} on a sunny day."
    text = hidden(filler.pieces("prose", rng, tokens - 100), [line], [rng.random()], "prose")
    messages = [
        {"role": "system", "content": BOT},
        {"role": "user", "content": f"{text}\n\nWhat is the best thing to do in {city}? {OUTSIDE}"},
    ]
    expected = [deed.split()[-1], park]
    return chat(figure, messages, contains_all(expected), max_tokens=48, expected=expected, facts={"needle": line})


def questions(count: int, seed: int, filler: Filler, tokens: int, task: str, figure: str) -> list[Question]:
    made = []
    for index in range(count):
        rng = random.Random(f"{task} {tokens} {seed} {index}")
        if task == "passkey":
            made.append(passkey(rng, filler, tokens, figure))
        elif task == "haystack":
            made.append(haystack(rng, filler, tokens, figure, original=index % 2 == 0))
        else:
            made.append(ruler(rng, filler, tokens, task, figure, prefixed=index % 2 == 1))
    return made
