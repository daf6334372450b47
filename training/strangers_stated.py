"""Yes or no about a fact that the message states: true and false questions in equal parts."""

from __future__ import annotations

import random

WHO = ["Aldous", "Bettina", "Clovis", "Dorota", "Ephraim", "Flora", "Guido", "Hester", "Inge", "Jasper"]
POOLS = {
    "colour": ["red", "green", "blue", "yellow", "white", "black", "brown"],
    "town": ["Cork", "Lyon", "Oslo", "Naples", "Kyiv", "Dakar"],
    "pet": ["dog", "cat", "parrot", "rabbit", "goat"],
    "job": ["nurse", "tailor", "pilot", "cook", "painter"],
    "fruit": ["plums", "pears", "cherries", "lemons", "figs"],
    "day": ["Monday", "Wednesday", "Friday", "Sunday"],
    "number": ["three", "five", "eight", "twelve"],
    "room": ["kitchen", "cellar", "garden", "attic"],
}
# Statement, question. {v} is what was stated; the question has it again where it is true, and another where it is not.
FORMS = (
    ("colour", "The boat of {n} is {v}.", "Is the boat of {n} {q}?"),
    ("colour", "{n} wears a {v} hat today.", "Does {n} wear a {q} hat?"),
    ("town", "{n} was born in {v}.", "Was {n} born in {q}?"),
    ("town", "Last spring {n} moved to {v} for good.", "So {n} lives in {q} now?"),
    ("pet", "{n} has one pet, a {v}.", "Has {n} got a {q}?"),
    ("pet", "The only animal in the house of {n} is a {v}.", "Would I meet a {q} in the house of {n}?"),
    ("job", "{n} works as a {v}.", "Is {n} a {q}?"),
    ("job", "By trade {n} is a {v}, nothing else.", "{n} is a {q}, yes or no?"),
    ("fruit", "At the market {n} bought only {v}.", "Did {n} buy {q}?"),
    ("day", "The shop of {n} is open on {v} and on no other day.", "Can I go to the shop of {n} on {q}?"),
    ("day", "{n} plays cards every {v}, never on another day.", "Does {n} play cards on {q}?"),
    ("number", "{n} has exactly {v} sheep.", "Are there {q} sheep at {n}'s?"),
    ("room", "You will find {n} in the {v}.", "Is {n} in the {q}?"),
    ("room", "The piano stands in the {v}, {n} plays it there.", "True or false: the piano is in the {q}."),
)
ORDERS = ("{s} {a}", "{s}\n{a}", "I was told this: {s} {a}", "{s} Now a question. {a}", "fact: {s}\nquestion: {a}")


def stated(rng: random.Random, index: int) -> tuple[str, bool, tuple[str, ...]]:
    """The prompt, whether yes is right, and the words that must stay."""
    truth = index % 2 == 0
    pool, says, asks = FORMS[index // 2 % len(FORMS)]
    name, value = rng.choice(WHO), rng.choice(POOLS[pool])
    asked = value if truth else rng.choice([other for other in POOLS[pool] if other != value])
    statement, question = says.format(n=name, v=value), asks.format(n=name, q=asked)
    return rng.choice(ORDERS).format(s=statement, a=question), truth, (name, value, asked)
