"""Small things of every day: counting, what comes next, sorting, even and odd, letters and words."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

from training import facts, wide_doubts, wide_more, wide_talk, wide_words
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.held_words import fresh
from training.wide_common import known
from training.wide_facts import capital
from training.wide_long import system
from training.wide_own import own, own_turns, reason, short
from training.wide_talk import lines, spelled

ALPHABET = string.ascii_uppercase
ORDINALS = lines("first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth")
SEASONS = lines("spring|summer|autumn|winter")
ROWS = {"day": facts.DAYS, "month": facts.MONTHS, "season": SEASONS}


def said(text: str, rng: Random, ends: Sequence[str] = ("?", "?", "", ".")) -> str:
    """With what people put around it, but no slip: the words and numbers are what it is about."""
    draw = rng.random()
    if draw < 0.15:
        text = f"{rng.choice(wide_more.BEFORE)} {text}"
    elif draw < 0.24 and text[-1].isalnum():
        text = f"{text} {rng.choice(('please', 'for me', 'now', 'quickly', 'if you can', 'thanks', 'then', 'again'))}"
    text = capital(text) if rng.random() < 0.65 else text
    return text + (rng.choice(ends) if text[-1] not in "?!.:" else "")


ORDER = (".", ".", "", "!")


def joined(words: Sequence[object]) -> str:
    return ", ".join(map(str, words))


# -- counting

TO = lines("""count to {n}|count to {n}|count up to {n}|can you count to {n}|count to {n} for me|please count until {n}|let me hear you count to {n}|count till {n}|I want you to count to {n}|could you count to {n}|say the numbers up to {n}|list the numbers up to {n}|write the numbers 1 to {n}|start counting and stop at {n}|show me that you can count to
{n}|numbers up to {n}|all numbers until {n}|count for me until you reach {n}|hide and seek: count to {n}|do you know how to count to {n}|teach my son to count to {n}|give me the numbers one to {n}""")
DOWN = lines("""count down from {n}|count backwards from {n}|count down from {n} to 1|start at {n} and count down|countdown from {n}|do a countdown from {n}|count from {n} down to one|count in reverse from {n}|can you count backward from {n}|the rocket starts: count down from {n}|give me a countdown, starting at {n}|numbers from {n} to 1, backwards|go down from
{n} to one""")
BETWEEN = lines(
    "count from {m} to {n}|count from {m} up to {n}|list all numbers from {m} to {n}|what numbers come between {m} and {n}, both included|count on from {m} until {n}|numbers {m} to {n}|start at {m}, stop at {n}, count|begin with {m} and count to {n}|write down the numbers from {m} to {n}|which numbers are there from {m} to {n}"
)
WORDED = lines("in words|spelled out|as words|written in words|with words, not digits")
STEPS = lines(
    "count to {n} by {k}s|count by {k}s up to {n}|count in steps of {k} to {n}|count to {n} in {k}s|skip count by {k} to {n}"
)


def count(rng: Random) -> Exchange:
    n, form = rng.randint(3, 20), rng.random()
    shown = spelled(n) if rng.random() < 0.45 else str(n)
    if form < 0.5:
        text, numbers = rng.choice(TO).format(n=shown), list(range(1, n + 1))
    elif form < 0.75:
        text, numbers = rng.choice(DOWN).format(n=shown), list(range(n, 0, -1))
    elif form < 0.92:
        m, n = sorted(rng.sample(range(21), 2))
        words = rng.random() < 0.3
        text, numbers = (
            rng.choice(BETWEEN).format(m=spelled(m) if words else m, n=spelled(n) if words else n),
            list(range(m, n + 1)),
        )
    else:
        k = rng.choice((2, 5, 10))
        n = k * rng.randint(3, 10)
        text, numbers = (
            rng.choice(STEPS).format(n=n, k={2: "two", 5: "five", 10: "ten"}[k] if rng.random() < 0.5 else k),
            list(range(k, n + 1, k)),
        )
        return Exchange(said(text, rng, ORDER), joined(numbers) + ".", ())
    if rng.random() < 0.18:
        return Exchange(
            said(f"{text} {rng.choice(WORDED)}", rng, ORDER), joined([spelled(one) for one in numbers]) + ".", ()
        )
    return Exchange(said(text, rng, ORDER), joined(numbers) + ".", ())


# -- in order

WHOLE = {
    "day": lines("name the days of the week|what are the days of the week|list the days of the week in order|say all days of the week|the seven days of the week|which days does a week have|tell me the weekdays in order, with the weekend|days of the week"),
    "month": lines("name the months of the year|what are the months|list all twelve months|say the months in order|the months of the year|which months does a year have|tell me the twelve months|months in order"),
    "season": lines("name the four seasons|what are the seasons of the year|list the seasons|say the seasons in order|which seasons are there|the four seasons in order"),
    "letter": lines("say the alphabet|recite the alphabet|what is the alphabet|write down the alphabet|list the letters of the alphabet|the ABC|tell me all letters in order|can you say your ABC|give me the whole alphabet|which letters does the alphabet have"),
}  # fmt: skip
NEXT = lines(
    "what comes {w} {x}|what comes right {w} {x}|which {k} comes {w} {x}|what {k} is {w} {x}|{w} {x} comes what|what is the {k} {w} {x}|which {k} stands {w} {x}|tell me the {k} {w} {x}|say the {k} that comes {w} {x}|what do we have {w} {x}"
)
PLACE = lines(
    "what is the {o} {k}|which {k} is the {o} one|name the {o} {k}|the {o} {k} is|tell me the {o} {k}|which {k} comes in {o} place|say the {o} {k}"
)
OF = {"day": " of the week", "month": " of the year", "letter": " of the alphabet", "season": " of the year"}
TODAY = lines(
    "today is {x}. What day is {y}|it is {x} today, so what day is {y}|if today is {x}, what day is {y}|today it's {x}. {Y} is what day|suppose today is {x}. Which day is {y}|my calendar says {x} today. And {y}"
)


def order(rng: Random) -> Exchange:
    kind, form = rng.choice(("day", "day", "month", "month", "letter", "letter", "letter", "season")), rng.random()
    row: Sequence[str] = ALPHABET if kind == "letter" else ROWS[kind]
    if form < 0.15:
        return Exchange(said(rng.choice(WHOLE[kind]), rng), capital(joined(row)) + ".", ())
    if form < 0.3:
        at = rng.randrange(min(len(row), 12))
        if kind == "season":
            return order(rng)
        name = "last" if at == len(row) - 1 and rng.random() < 0.5 else ORDINALS[at]
        return Exchange(
            said(rng.choice(PLACE).format(o=name, k=kind + OF[kind]), rng), f"The {name} {kind} is {row[at]}.", ()
        )
    if form < 0.42:
        day, shift, name = (
            rng.randrange(7),
            *rng.choice(((1, "tomorrow"), (-1, "yesterday"), (2, "the day after tomorrow"), (1, "tomorrow"))),
        )
        asked = rng.choice(TODAY).format(x=facts.DAYS[day], y=name, Y=capital(name))
        found = facts.DAYS[(day + shift) % 7]
        return Exchange(said(asked, rng), f"{capital(name)} {'was' if shift < 0 else 'is'} {found}.", ())
    if form < 0.52:
        one = rng.randrange(1, 99)
        after = rng.random() < 0.6
        shown = spelled(one) if rng.random() < 0.3 else str(one)
        other = one + 1 if after else one - 1
        asked = rng.choice(NEXT).format(w="after" if after else "before", x=shown, k="number")
        return Exchange(
            said(asked, rng),
            f"{capital(spelled(other)) if shown.isalpha() or '-' in shown else other} comes {'after' if after else 'before'} {shown}.",
            (),
        )
    at = rng.randrange(len(row))
    after = rng.random() < 0.6
    if kind == "letter" and not 0 <= at + (1 if after else -1) < 26:
        return order(rng)
    found = row[(at + (1 if after else -1)) % len(row)]
    name = row[at].lower() if kind == "letter" and rng.random() < 0.2 else row[at]
    named = f"the letter {name}" if kind == "letter" and rng.random() < 0.4 else name
    word = "after" if after else "before"
    return Exchange(
        said(rng.choice(NEXT).format(w=word, x=named, k=kind), rng), f"{capital(found)} comes {word} {row[at]}.", ()
    )


# -- sorting and choosing

UP = lines("""sort these numbers: {l}|sort {l}|sort: {l}|sort the numbers {l}|put these numbers in order: {l}|order these numbers: {l}|sort from smallest to largest: {l}|sort in ascending order: {l}|{l} - sort them|{l}. Sort these|put {l} in ascending order|which order do {l} have, smallest first|list these from low to high: {l}|rank these, lowest first: {l}|can you
sort {l}|please sort the following numbers: {l}|sort this list: {l}|[{l}] sorted|sort these values from small to big: {l}|smallest to largest: {l}|I have the numbers {l}. Sort them|help me sort {l}""")
FALL = lines("""sort in descending order: {l}|sort these from largest to smallest: {l}|largest to smallest: {l}|sort {l} from high to low|put {l} in descending order|sort these numbers, biggest first: {l}|order {l} from big to small|reverse order please, largest first: {l}|rank these from highest to lowest: {l}|list {l}, the largest first|sort downward: {l}|sort the numbers
{l} in falling order""")
MOST = lines(
    """which is the largest number: {l}|what is the biggest of {l}|the largest of {l}|find the largest: {l}|find the maximum of {l}|max of {l}|which of {l} is the biggest|what's the highest number in {l}|pick the largest number from {l}|{l}: which is the greatest|largest number in this list: {l}|of the numbers {l}, which is the largest"""
)
LEAST = lines(
    """which is the smallest number: {l}|what is the smallest of {l}|the smallest of {l}|find the smallest: {l}|find the minimum of {l}|min of {l}|which of {l} is the smallest|what's the lowest number in {l}|pick the smallest number from {l}|{l}: which is the least|smallest number in this list: {l}|of the numbers {l}, which is the smallest"""
)
EVEN = lines(
    "is {n} even or odd|is {n} odd or even|{n}: even or odd|is the number {n} even or odd|tell me whether {n} is even or odd|even or odd: {n}|what is {n}, even or odd|would you say {n} is odd or even"
)
IS_EVEN = lines(
    "is {n} {e}|is {n} an {e} number|is the number {n} {e}|tell me if {n} is {e}|{n} is {e}, right|would you call {n} {e}"
)
ALL_EVEN = lines(
    "which of these are {e}: {l}|find the {e} numbers: {l}|pick the {e} numbers from {l}|list the {e} ones: {l}|which numbers are {e} in {l}|give me only the {e} numbers of {l}|what are the {e} numbers among {l}"
)
UP_TO = lines(
    "list the {e} numbers up to {n}|the {e} numbers until {n}|name the {e} numbers up to {n}|which {e} numbers are there up to {n}|count to {n}, only {e} numbers|say all {e} numbers to {n}"
)


def _listed(numbers: list[int], rng: Random, forms: list[str]) -> str:
    form, draw = rng.choice(forms), rng.random()
    text = joined(numbers)
    if draw < 0.3 and "[" not in form:
        text = f"{joined(numbers[:-1])} and {numbers[-1]}"
    elif draw < 0.42 and "{l}." not in form:
        text = " ".join(map(str, numbers))
    return form.format(l=text)


def arrange(rng: Random) -> Exchange:
    high = rng.choice((9, 20, 20, 50, 99, 99))
    numbers = rng.sample(range(1, high + 1), rng.choice((3, 3, 4, 4, 5, 6)))
    draw = rng.random()
    if draw < 0.42:
        return Exchange(said(_listed(numbers, rng, UP), rng, ORDER), joined(sorted(numbers)), ())
    if draw < 0.6:
        return Exchange(said(_listed(numbers, rng, FALL), rng, ORDER), joined(sorted(numbers, reverse=True)), ())
    if draw < 0.8:
        up = rng.random() < 0.5
        best = max(numbers) if up else min(numbers)
        return Exchange(
            said(_listed(numbers, rng, MOST if up else LEAST), rng),
            f"The {'largest' if up else 'smallest'} number is {best}.",
            (),
        )
    return even(rng)


def even(rng: Random) -> Exchange:
    n, draw = rng.randint(1, 99), rng.random()
    what = "odd" if n % 2 else "even"
    shown = spelled(n) if rng.random() < 0.2 else str(n)
    if draw < 0.4:
        return Exchange(said(rng.choice(EVEN).format(n=shown), rng), f"{capital(shown)} is {what}.", ())
    asked = rng.choice(("even", "odd"))
    if draw < 0.65:
        return Exchange(
            said(rng.choice(IS_EVEN).format(n=shown, e=asked), rng),
            f"{'Yes' if asked == what else 'No'}, {shown} is {what}.",
            (),
        )
    rest = 0 if asked == "even" else 1
    if draw < 0.88:
        numbers = rng.sample(range(1, 31), rng.randint(3, 6))
        found = [one for one in numbers if one % 2 == rest]
        return Exchange(
            said(_listed(numbers, rng, [form.replace("{e}", asked) for form in ALL_EVEN]), rng),
            joined(found) if found else "None of them.",
            (),
        )
    last = rng.randint(4, 20)
    return Exchange(
        said(rng.choice(UP_TO).format(e=asked, n=last), rng, ORDER),
        joined([one for one in range(1, last + 1) if one % 2 == rest]) + ".",
        (),
    )


# -- letters and words

SPELL = lines(
    "spell {w}|how do you spell {w}|spell the word {w}|can you spell {w}|how is {w} spelled|how do I spell '{w}'|spell '{w}' for me|spelling of {w}|the letters of {w}, one by one|how is the word \"{w}\" written, letter by letter|I forgot how to spell {w}|tell me how {w} is spelled"
)
COUNT = lines(
    "how many letters are in {w}|how many letters does {w} have|how many letters are in the word '{w}'|count the letters of {w}|number of letters in {w}|how long is the word {w}|the word {w} has how many letters|what is the number of letters in {w}|how many characters has {w}|length of the word '{w}'|tell me how many letters {w} has"
)
REVERSE = lines(
    "reverse {w}|reverse the word {w}|spell {w} backwards|write {w} backwards|what is {w} backwards|say '{w}' backwards|how do you write {w} in reverse|turn the word {w} around|'{w}' in reverse order|{w} spelled backwards"
)
FIRST = lines(
    "what is the {o} letter of {w}|what's the {o} letter in {w}|{o} letter of {w}|which letter is {o} in {w}|which is the {o} letter of the word '{w}'|tell me the {o} letter of {w}|give me the {o} letter of '{w}'|in the word {w}, what is the {o} letter"
)
STARTS = lines(
    "with which letter does {w} {b}|what letter does {w} {b} with|which letter does the word '{w}' {b} with|{w} {b}s with what letter"
)
UPPER = lines(
    "write {w} in capital letters|write {w} in upper case|{w} in uppercase|put {w} in capitals|make {w} all caps|convert '{w}' to upper case|uppercase: {w}|type {w} in capital letters|change {w} to upper case"
)
LOWER = lines(
    "write {w} in small letters|write {w} in lower case|{w} in lowercase|convert '{w}' to lower case|lowercase: {w}|make {w} all small letters|change {w} to lower case"
)
HAS = lines(
    "does {w} have the letter {c}|is there an {c} in {w}|does the word {w} contain {c}|is the letter {c} in {w}|has {w} got the letter {c}"
)


@cache
def words() -> list[str]:
    """A few hundred that everybody uses: spelling is learned by heart, as tokens do not show their letters."""
    plain = [one.partition("=")[0] for one in wide_words.MEANINGS.split("|")]
    kinds = [word for members in wide_doubts.members().values() for word in members]
    some = [
        *plain,
        *facts.ANIMALS,
        *facts.FRUITS,
        *facts.VEGETABLES,
        *facts.COLOURS,
        *facts.JOBS,
        *facts.TOOLS,
        *facts.CLOTHES,
        *facts.FOODS,
        *facts.THINGS,
        *kinds,
    ]
    return list(dict.fromkeys(word for word in some if re.fullmatch(r"[a-z]{3,9}", word)))


def dashed(word: str) -> str:
    return "-".join(word).upper()


def letters(rng: Random) -> Exchange:
    word, draw = rng.choice(words()), rng.random()
    if draw < 0.24:
        return Exchange(said(rng.choice(SPELL).format(w=word), rng), dashed(word), ())
    if draw < 0.44:  # the letters first: what is spelled can be counted
        return Exchange(said(rng.choice(COUNT).format(w=word), rng), f"{dashed(word)}: {len(word)} letters.", ())
    if draw < 0.6:
        short_word = word if len(word) < 7 else rng.choice([one for one in words() if len(one) < 6])
        return Exchange(
            said(rng.choice(REVERSE).format(w=short_word), rng),
            f"{dashed(short_word)} backwards is {dashed(short_word[::-1])}: {short_word[::-1]}",
            (),
        )
    if draw < 0.78:
        at = rng.choice((0, 0, -1, -1, 1, 2))
        name = {0: "first", -1: "last", 1: "second", 2: "third"}[at]
        if at in (0, -1) and rng.random() < 0.3:
            asked = rng.choice(STARTS).format(w=word, b=rng.choice(("begin", "start")) if at == 0 else "end")
        else:
            asked = rng.choice(FIRST).format(w=word, o=name)
        return Exchange(said(asked, rng), f"The {name} letter of {word} is {word[at].upper()}.", ())
    if draw < 0.86:
        letter = (
            rng.choice(word)
            if rng.random() < 0.5
            else rng.choice([one for one in string.ascii_lowercase if one not in word])
        )
        right = letter in word
        text = rng.choice(HAS).format(w=word, c=letter.upper())
        text = text if letter in "aefhilmnorsx" else text.replace("there an", "there a")
        return Exchange(
            said(text, rng),
            f"{'Yes' if right else 'No'}, {dashed(word)} has {'the' if right else 'no'} {'letter ' if right else ''}{letter.upper()}.",
            (),
        )
    text = word if rng.random() < 0.6 else f"{word} {rng.choice(words())}"
    if rng.random() < 0.7:
        return Exchange(said(rng.choice(UPPER).format(w=text), rng, ORDER), text.upper(), ())
    return Exchange(said(rng.choice(LOWER).format(w=text.upper()), rng, ORDER), text, ())


# -- a choice, a fact

CHOOSE = lines(
    "choose: {a} or {b}|{a} or {b}, you decide|pick one: {a} or {b}|which one shall I take, {a} or {b}? Just pick one|decide for me: {a} or {b}|{a} or {b}? Choose|please choose between {a} and {b}|pick {a} or {b} at random"
)
NUMBER = lines(
    "pick a number between {a} and {b}|choose a number from {a} to {b}|give me a random number between {a} and {b}|think of a number between {a} and {b} and tell me|a random number from {a} to {b}|say any number between {a} and {b}"
)
COIN = lines("flip a coin|toss a coin|heads or tails|flip a coin for me|throw a coin|coin flip")
DIE = lines("roll a die|roll a dice|throw a die|roll the dice for me|give me a dice roll")
FUN = lines(
    "tell me something interesting|tell me a fun fact|a fun fact please|teach me something|tell me a fact|give me a fact|do you know a fun fact|surprise me with a fact|say something smart|tell me something I might not know|any interesting facts|share a fact with me|tell me something|what is something interesting"
)
TRUE = lines(
    "The blue whale is the largest animal.|Saturn has big rings.|The cheetah is the fastest land animal.|Caterpillars turn into butterflies.|A spider has eight legs.|Mercury is liquid at room temperature.|Ice floats because it is lighter than water.|The moon makes no light of its own.|An octopus has eight arms.|Glass is made of sand."
)


def pick(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.3:
        kind = rng.choice(("color", "fruit", "animal", "city", "food", "sport"))
        one, other = rng.sample(facts.CATEGORIES[kind], 2)
        return Exchange(
            said(rng.choice(CHOOSE).format(a=one, b=other), rng), f"I choose {rng.choice((one, other))}.", ()
        )
    if draw < 0.55:
        low = rng.choice((0, 1, 1, 1, 5, 10))
        high = low + rng.choice((4, 9, 10, 20, 99))
        return Exchange(said(rng.choice(NUMBER).format(a=low, b=high), rng), f"I pick {rng.randint(low, high)}.", ())
    if draw < 0.68:
        return Exchange(said(rng.choice(COIN), rng, ORDER), rng.choice(("Heads.", "Tails.")), ())
    if draw < 0.76:
        return Exchange(said(rng.choice(DIE), rng, ORDER), f"I rolled {facts.NUMBERS[rng.randint(1, 6)]}.", ())
    return Exchange(said(rng.choice(FUN), rng), rng.choice(TRUE), ())


# -- all of it

EXCHANGES: dict[Callable[[Random], Exchange], float] = {
    count: 3,
    order: 4,
    arrange: 6,
    letters: 5,
    pick: 1,
    reason: 5,
    own: 7,
    short: 4,
    known: 2,
}


def exchange(rng: Random) -> Exchange:
    return rng.choices(list(EXCHANGES), list(EXCHANGES.values()))[0](rng)


def draw(rng: Random) -> Chat:
    """One to four exchanges; some of the other talk among them."""
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        if not turns and rng.random() < 0.14:
            turns += own_turns(rng)
            continue
        one = fresh(exchange if rng.random() < 0.88 else wide_talk.exchange, rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_daily", (), system(rng) if rng.random() < 0.2 else "", expect=None)
