"""Everyday questions of knowledge and numbers, and their answers: one function for every kind of exchange.

A function draws a subject and returns an `Exchange`, whose `combination` decides the side of the split. `draw` repeats
until the side is the wanted one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training import facts
from training.data_chat import Phrases, Split, held


@dataclass
class Exchange:
    user: str
    answer: str
    combination: tuple[object, ...]
    thought: str = ""
    short: str = ""  # the bare answer, where there is one: what a checker looks for
    kind: str = ""


Talk = Callable[[Random, Split], Exchange]


def draw(talk: Talk, rng: Random, split: Split) -> Exchange:
    for _ in range(1000):
        exchange = talk(rng, split)
        if held(talk.__name__, *exchange.combination) == (split == "held"):
            exchange.kind = talk.__name__
            return exchange
    raise RuntimeError(f"{talk.__name__} has no combination for {split}")


# -- knowledge

_capital = Phrases(
    "What is the capital of {}?", "Which city is the capital of {}?", "Name the capital of {}.",
    "{}: what is its capital?",
    "Tell me the capital city of {}.", "Do you know the capital of {}?", "I need the capital of {}.", "capital of {}?",
    "Please give me the capital of {}.", "What's the capital city of {}?",
)  # fmt: skip


def capital(rng: Random, split: Split) -> Exchange:
    # Facts cannot be guessed: every country is trained on, and the split is by phrase and by order of words alone.
    name, city, *_ = rng.choice(facts.countries())
    return Exchange(
        _capital.pick(rng, split).format(name), f"The capital of {name} is {city}.", (rng.random(),), short=city
    )


_region = Phrases(
    "In which part of the world is {}?", "Where is {}?", "Which continent is {} on?", "Where in the world is {}?",
    "What region is {} in?", "Tell me where {} is.", "Where can I find {} on a map?", "On what continent is {}?",
)  # fmt: skip


def region(rng: Random, split: Split) -> Exchange:
    name, _, place, _ = rng.choice(facts.countries())
    return Exchange(_region.pick(rng, split).format(name), f"{name} is in {place}.", (rng.random(),), short=place)


_money = Phrases(
    "What is the currency of {}?", "What money do they use in {}?", "Which currency is used in {}?",
    "How do people pay in {}?", "Name the currency of {}.", "What currency does {} use?",
    "What is the money of {} called?",
)  # fmt: skip


def money(rng: Random, split: Split) -> Exchange:
    name, _, _, coin = rng.choice(facts.countries())
    return Exchange(
        _money.pick(rng, split).format(name), f"The currency of {name} is the {coin}.", (rng.random(),), short=coin
    )


_opposite = Phrases(
    "What is the opposite of {}?", "Give me the opposite of {}.", "What's the opposite of '{}'?", "Opposite of {}?",
    "Which word means the opposite of {}?", "Name an antonym of {}.", "Tell me the opposite of {}.",
    "What is the reverse of {}?",
    "Can you give the opposite of {}?",
)  # fmt: skip


def opposite(rng: Random, split: Split) -> Exchange:
    one, other = rng.choice(list(facts.OPPOSITES.items()))
    if rng.random() < 0.5 and other not in facts.OPPOSITES:
        one, other = other, one
    return Exchange(
        _opposite.pick(rng, split).format(one), f"The opposite of {one} is {other}.", (rng.random(),), short=other
    )


_colour = Phrases(
    "What color is {}?", "Which color does {} have?", "Tell me the color of {}.", "What is the color of {}?",
    "What colour is {}?", "Do you know what color {} is?", "Name the color of {}.", "{} - what color is that?",
)  # fmt: skip


def colour(rng: Random, split: Split) -> Exchange:
    thing, shade = rng.choice(list(facts.THING_COLOURS.items()))
    answer = f"{thing[0].upper()}{thing[1:]} is {shade}."
    return Exchange(_colour.pick(rng, split).format(thing), answer, (rng.random(),), short=shade)


_animal = {
    0: Phrases("What sound does {} make?", "What does {} do when it makes a sound?", "What noise does {} make?",
               "Tell me the sound of {}.", "How does {} sound?", "Which sound does {} make?"),
    1: Phrases("What is the young of {} called?", "What do you call a baby of {}?", "Name the baby of {}.",
               "What is a young one of {} called?", "How is the baby of {} called?",
               "What's the name for the young of {}?"),
    2: Phrases("Where does {} live?", "What is the home of {}?", "Where can you find {}?", "Tell me where {} lives.",
               "In what place does {} live?", "Where would {} live?"),
    3: Phrases("How many legs does {} have?", "On how many legs does {} walk?", "Count the legs of {}.",
               "What number of legs does {} have?", "How many legs has {}?", "Tell me how many legs {} has."),
}  # fmt: skip


def animal(rng: Random, split: Split) -> Exchange:
    name = rng.choice(list(facts.ANIMAL_FACTS))
    which = rng.randrange(4)
    value = facts.ANIMAL_FACTS[name][which]
    beast = facts.an(name)
    title = beast[0].upper() + beast[1:]
    answer = (
        f"{title} {value}.",
        f"The young of {beast} is called a {value}.",
        f"{title} lives in {value}.",
        f"{title} has {facts.NUMBERS[int(value)] if which == 3 else ''} legs.",
    )[which]
    short = facts.NUMBERS[int(value)] if which == 3 else str(value)
    return Exchange(_animal[which].pick(rng, split).format(beast), answer, (rng.random(),), short=short)


_define = Phrases(
    "What does '{}' mean?", "What does {} mean?", "Define {}.", "What is the meaning of {}?",
    "Give me a definition of '{}'.",
    "Explain the word {}.", "What is meant by {}?", "Please define the word '{}'.", "meaning of {}?",
    "Tell me what {} means.", "How would you define {}?",
)  # fmt: skip


def define(rng: Random, split: Split) -> Exchange:
    words = facts.definitions()
    word, part, meaning = words[int(len(words) * rng.random() ** 2)]  # the frequent ones more often
    answer = f"'{word}' is {facts.an(part)} that means: {meaning}."
    return Exchange(_define.pick(rng, split).format(word), answer, (rng.random(),))


_explain = Phrases(
    "What can you say about this: {}?",
    "I never understood {}.",
    "Give a short explanation of {}.",
    "Teach me {}.",
    "Say in simple words {}.",
    "{}?",
    "Please tell me {}.",
    "Can you tell me {}?",
    "I would like to know {}.",
    "Explain {}.", "Can you explain {}?", "Tell me {}.", "Please explain {} in simple words.", "I want to know {}.",
    "Could you tell me {}?", "Do you know {}?", "I wonder {}. Can you help?", "Help me understand {}.",
    "Describe {} briefly.",
    "In a sentence or two: {}?", "My child asks {}. What do I say?",
)  # fmt: skip


def explain(rng: Random, split: Split) -> Exchange:
    topic, answer = rng.choice(list(facts.EXPLANATIONS.items()))
    return Exchange(_explain.pick(rng, split).format(topic), answer, (rng.random(),))


_which = Phrases(
    "Is {} a kind of {}?", "Would you call {} a {}?", "Is {} an example of a {}?", "{}: is that a {}?",
    "Does {} count as a {}?",
    "Can {} be called a {}?",
)  # fmt: skip


def category(rng: Random, split: Split) -> Exchange:
    word_of, asked = rng.choice(list(facts.CATEGORIES)), rng.choice(list(facts.CATEGORIES))
    if rng.random() < 0.4:
        asked = word_of
    word = rng.choice(facts.CATEGORIES[word_of])
    right = word in facts.CATEGORIES[asked]
    kinds = f"{facts.an(asked)}"
    answer = f"Yes, {word} is {kinds}." if right else f"No, {word} is {facts.an(word_of)}, not {kinds}."
    user = _which.pick(rng, split).format(word, asked)
    return Exchange(user, answer, (word, asked), short="Yes" if right else "No")


_name_some = Phrases(
    "Name {} {}.", "Give me {} {}.", "List {} {}.", "Can you name {} {}?", "Tell me {} {}.", "I need {} {}.",
    "Please list {} {} for me.", "Which {} {} can you think of?",
)  # fmt: skip


def name_some(rng: Random, split: Split) -> Exchange:
    kind = rng.choice(list(facts.CATEGORIES))
    count = rng.randint(2, 5)
    # The same first members in alphabetical order: an answer that can be learned.
    chosen = facts.CATEGORIES[kind][:count]
    user = _name_some.pick(rng, split).format(facts.NUMBERS[count], facts.plural(kind))
    listed = f"{', '.join(chosen[:-1])} and {chosen[-1]}"
    return Exchange(user, f"Here are {facts.NUMBERS[count]} {facts.plural(kind)}: {listed}.", (kind, count))


# -- numbers

_add = Phrases(
    "What is {} plus {}?", "{} + {} = ?", "Add {} and {}.", "How much is {} plus {}?",
    "What do you get if you add {} and {}?",
    "Calculate {} + {}.", "Please add {} to {}.", "What is the sum of {} and {}?", "Tell me the sum of {} and {}.",
    "Work out {} + {}.",
)  # fmt: skip
_subtract = Phrases(
    "What is {} minus {}?", "{} - {} = ?", "How much is {} minus {}?", "Calculate {} - {}.",
    "Take the second from the first: {}, {}.",
    "What is left of {} when {} is taken away?", "Work out {} - {}.", "Find {} minus {}.",
)  # fmt: skip
_multiply = Phrases(
    "What is {} times {}?", "{} x {} = ?", "Multiply {} by {}.", "How much is {} times {}?", "Calculate {} * {}.",
    "What is the product of {} and {}?", "Work out {} times {}.",
)  # fmt: skip


def small_sum(rng: Random, split: Split) -> Exchange:
    one, other = rng.randint(0, 20), rng.randint(0, 20)
    answer = f"{one} plus {other} is {one + other}."
    return Exchange(_add.pick(rng, split).format(one, other), answer, (one, other), short=str(one + other))


def difference(rng: Random, split: Split) -> Exchange:
    other, rest = rng.randint(0, 15), rng.randint(0, 15)
    one = other + rest
    return Exchange(
        _subtract.pick(rng, split).format(one, other), f"{one} minus {other} is {rest}.", (one, other), short=str(rest)
    )


def product(rng: Random, split: Split) -> Exchange:
    one, other = rng.randint(1, 10), rng.randint(1, 10)
    answer = f"{one} times {other} is {one * other}."
    return Exchange(_multiply.pick(rng, split).format(one, other), answer, (one, other), short=str(one * other))


def thought_sum(rng: Random, split: Split) -> Exchange:
    """Two numbers of two digits, added in a think block: tens, ones, together."""
    one, other = rng.randint(11, 99), rng.randint(11, 99)
    tens, ones = one // 10 * 10 + other // 10 * 10, one % 10 + other % 10
    thought = (
        f"The tens: {one // 10 * 10} + {other // 10 * 10} = {tens}. The ones: {one % 10} + {other % 10} = {ones}. "
        f"Together: {tens} + {ones} = {tens + ones}."
    )
    answer = f"{one} plus {other} is {one + other}."
    return Exchange(_add.pick(rng, split).format(one, other), answer, (one, other), thought, str(one + other))


_count = Phrases(
    "How many words are in this list: {}?", "Count the items: {}.", "How many things are listed here: {}?",
    "I have {}. How many is that?", "Count these for me: {}.", "How many are there: {}?",
    "Give me the number of items in: {}.",
)  # fmt: skip


def thought_count(rng: Random, split: Split) -> Exchange:
    words = rng.sample(facts.THINGS + facts.FRUITS, rng.randint(2, 9))
    thought = (
        ", ".join(f"{place} {word}" for place, word in enumerate(words, 1)) + f". The last number is {len(words)}."
    )
    listed = ", ".join(words)
    answer = f"There are {len(words)}."
    return Exchange(_count.pick(rng, split).format(listed), answer, tuple(sorted(words)), thought, str(len(words)))


_larger = Phrases(
    "Which is larger, {} or {}?", "Which number is bigger: {} or {}?", "Is {} or {} the larger number?",
    "{} or {}: which is more?", "Compare {} and {}: which is greater?", "Of {} and {}, which is larger?",
    "Tell me the bigger one of {} and {}.", "Which of {} and {} is the larger?",
)  # fmt: skip


def larger(rng: Random, split: Split) -> Exchange:
    one, other = rng.sample(range(1, 100), 2)
    most, least = max(one, other), min(one, other)
    thought = ""
    if rng.random() < 0.5:
        thought = f"{one} has {one // 10} tens and {other} has {other // 10} tens. "
        thought += (
            f"So {most} is more."
            if one // 10 != other // 10
            else f"The ones decide: {one % 10} and {other % 10}. So {most} is more."
        )
    user = _larger.pick(rng, split).format(one, other)
    return Exchange(user, f"{most} is larger than {least}.", (one, other), thought, str(most))


_story_sum = Phrases(
    "{name} has {one} {things} and gets {other} more. How many {things} does {name} have now?",
    "{name} buys {one} {things} on {day} and {other} {things} the day after. How many in all?",
    "There are {one} {things} on the table. {name} puts {other} more beside them. How many {things} are there?",
    "{name} found {one} {things}, then {other} more. How many {things} did {name} find?",
    "If {name} has {one} {things} and a friend brings {other}, how many {things} are there together?",
    "In the morning {name} picked {one} {things}, in the evening {other}. What is the total?",
)


def story_sum(rng: Random, split: Split) -> Exchange:
    one, other = rng.randint(1, 15), rng.randint(1, 15)
    name, things = rng.choice(facts.NAMES), facts.plural(rng.choice(facts.FRUITS))
    user = _story_sum.pick(rng, split).format(
        name=name, one=one, other=other, things=things, day=rng.choice(facts.DAYS)
    )
    thought = f"{one} and {other} more: {one} + {other} = {one + other}."
    answer = f"{one + other} {things}."
    return Exchange(user, answer, (one, other, name), thought, str(one + other))


_range = Phrases(
    "Count from {} to {}.", "Please count from {} up to {}.", "List the numbers from {} to {}.",
    "Write the numbers {} to {}.",
    "Say the numbers from {} to {}.", "Can you count from {} to {}?",
)  # fmt: skip


def count_up(rng: Random, split: Split) -> Exchange:
    first = rng.randint(0, 60)
    last = first + rng.randint(2, 12)
    answer = ", ".join(map(str, range(first, last + 1)))
    return Exchange(_range.pick(rng, split).format(first, last), answer + ".", (first, last), short=answer)


_after = Phrases(
    "What comes after {}?", "Which {kind} follows {}?", "What {kind} is after {}?", "After {} comes which {kind}?",
    "Name the {kind} after {}.", "Tell me which {kind} comes after {}.",
)  # fmt: skip


def after(rng: Random, split: Split) -> Exchange:
    kind, order = rng.choice((("day", facts.DAYS), ("month", facts.MONTHS)))
    place = rng.randrange(len(order))
    following = order[(place + 1) % len(order)]
    user = _after.pick(rng, split).format(order[place], kind=kind)
    return Exchange(user, f"After {order[place]} comes {following}.", (rng.random(),), short=following)


_sort = Phrases(
    "Sort these numbers: {}.", "Put these in order: {}.", "Order these from small to large: {}.",
    "Sort {} from low to high.",
    "Arrange these numbers: {}.", "Please bring {} into rising order.",
)  # fmt: skip


def sort(rng: Random, split: Split) -> Exchange:
    numbers = rng.sample(range(1, 100), rng.randint(3, 5))
    answer = ", ".join(map(str, sorted(numbers)))
    return Exchange(_sort.pick(rng, split).format(", ".join(map(str, numbers))), answer, tuple(numbers), short=answer)
