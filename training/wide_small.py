"""Small talk that must be right: yes or no about two small numbers, letters of common words, words for colors, stories with one thing throughout."""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from training import facts, wide_hues, wide_more, wide_talk
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.held_words import fresh
from training.wide_daily import ORDER, dashed, said, words
from training.wide_facts import capital
from training.wide_long import system
from training.wide_own import own, own_turns
from training.wide_talk import lines, spelled

# -- two numbers

MORE = lines("bigger|larger|greater|higher|more")
LESS = lines("smaller|less|lower")
IS_MORE = lines("""is {a} {w} than {b}|is {a} {w} than {b}|is the number {a} {w} than {b}|is {a} really {w} than {b}|tell me, is {a} {w} than {b}|{a} is {w} than {b}, right|{a} is {w} than {b}, true or false|would you say that {a} is {w} than {b}|yes or no: {a} is {w} than {b}|is it true that {a} is {w} than {b}|do you agree that {a} is {w} than {b}|my
son says {a} is {w} than {b}, is he right|{a} {w} than {b}, yes or no|check this: {a} is {w} than {b}""")
SIGNED = lines(
    "is {a} {s} {b}|{a} {s} {b}, true or false|is it true that {a} {s} {b}|{a} {s} {b}, yes or no|does {a} {s} {b} hold|{a} {s} {b}, right"
)
COMES = lines(
    "does {a} come {w} {b}|is {a} {w} {b} when you count|when counting, does {a} come {w} {b}|counting up, is {a} {w} {b}"
)
EQUAL = lines(
    "is {a} the same as {b}|is {a} equal to {b}|are {a} and {b} the same number|{a} equals {b}, true or false|does {a} equal {b}"
)
WHICH = lines(
    """which is {w}, {a} or {b}|which number is {w}, {a} or {b}|what is {w}: {a} or {b}|{a} or {b}, which is {w}|{w}: {a} or {b}|is {a} or {b} {w}|tell me which is {w}, {a} or {b}|of {a} and {b}, which is the {w} number"""
)
BETWEEN = lines(
    "is {c} between {a} and {b}|does {c} lie between {a} and {b}|{c} is between {a} and {b}, true or false|is the number {c} somewhere between {a} and {b}"
)
THINGS = lines("apples|eggs|chairs|books|coins|pencils|cats|stamps|cookies|keys|marbles|cups")
OWNED = lines(
    """I have {a} {t} and my sister has {b}. Do I have more|I have {a} {t}, you have {b}. Do you have more|there are {a} {t} here and {b} there. Are there more here|we need {a} {t} and have {b}. Is that enough|{p} has {a} {t}, {q} has {b}. Does {p} have more|{p} has {a} {t}, {q} has {b}. Does {q} have more"""
)


def _two(rng: Random) -> tuple[int, int]:
    high = rng.choice((10, 10, 12, 20, 20, 50, 100))
    one, other = rng.sample(range(high + 1), 2)
    return one, other


def compare(rng: Random) -> Exchange:
    one, other = _two(rng)
    worded = rng.random() < 0.25
    a, b = (spelled(each) if worded else str(each) for each in (one, other))
    draw, up = rng.random(), rng.random() < 0.5
    if draw < 0.42:
        word = rng.choice(MORE if up else LESS)
        right = (one > other) == up
        return Exchange(
            said(rng.choice(IS_MORE).format(a=a, b=b, w=word), rng),
            f"{_yes(right)}, {a} is {word} than {b}." if right else f"No, {a} is {_opposite(word)} than {b}.",
            (),
        )
    if draw < 0.5:
        sign = rng.choice("<>")
        right = one > other if sign == ">" else one < other
        return Exchange(
            said(rng.choice(SIGNED).format(a=one, b=other, s=sign), rng),
            f"{_yes(right)}, {one} is {'greater' if one > other else 'less'} than {other}.",
            (),
        )
    if draw < 0.58:
        word = rng.choice(("before", "after"))
        right = (one < other) == (word == "before")
        return Exchange(
            said(rng.choice(COMES).format(a=a, b=b, w=word), rng),
            f"{_yes(right)}, {a} comes {'before' if one < other else 'after'} {b}.",
            (),
        )
    if draw < 0.66:
        if rng.random() < 0.5:
            return Exchange(
                said(rng.choice(EQUAL).format(a=one, b=spelled(one)), rng), f"Yes, {one} is {spelled(one)}.", ()
            )
        return Exchange(said(rng.choice(EQUAL).format(a=a, b=b), rng), f"No, {a} is not {b}.", ())
    if draw < 0.82:
        word = rng.choice(MORE[:4] if up else LESS[:3])
        best = a if (one > other) == up else b
        return Exchange(said(rng.choice(WHICH).format(a=a, b=b, w=word), rng), f"{capital(best)} is {word}.", ())
    if draw < 0.9:
        low, high = sorted((one, other))
        if high - low < 3:
            low, high = low, low + 5
        inside = rng.random() < 0.5
        third = (
            rng.randint(low + 1, high - 1)
            if inside
            else rng.choice((high + rng.randint(1, 9), max(0, low - rng.randint(1, 9))))
        )
        inside = low < third < high
        if third in (low, high):
            return compare(rng)
        text = rng.choice(BETWEEN).format(a=low, b=high, c=third)
        return Exchange(
            said(text, rng),
            f"Yes, {third} is between {low} and {high}."
            if inside
            else f"No, {third} is {'more' if third > high else 'less'} than {high if third > high else low}.",
            (),
        )
    return _owned(one, other, rng)


def _owned(one: int, other: int, rng: Random) -> Exchange:
    one, other = one + 2, other + 2
    text, (p, q), things = rng.choice(OWNED), rng.sample(facts.NAMES, 2), rng.choice(THINGS)
    enough = "enough" in text
    mine = other if text.startswith("I have {a} {t}, you") or "Does {q}" in text or enough else one
    yours = one if mine == other else other
    right = mine >= yours if enough else mine > yours
    sign = "more" if mine > yours else "less"
    return Exchange(
        said(text.format(a=one, b=other, t=things, p=p, q=q), rng, ("?", "?", "")),
        f"{_yes(right)}, {mine} is {sign} than {yours}.",
        (),
    )


def _yes(right: bool) -> str:
    return "Yes" if right else "No"


def _opposite(word: str) -> str:
    return {
        "bigger": "smaller",
        "larger": "smaller",
        "greater": "less",
        "higher": "lower",
        "more": "less",
        "smaller": "bigger",
        "less": "more",
        "lower": "higher",
    }[word]


# -- letters of common words

SPELL = lines(
    """spell {w}|how do you spell {w}|how do I write {w}|{w}, letter by letter|spell it out: {w}|what are the letters of {w}|which letters are in {w}, in order|break {w} into letters|the word {w} letter by letter, please|write {w} with dashes between the letters|spell {w} for my daughter|how is {w} spelled again"""
)
LETTERS = lines(
    """how many letters does {w} have|how many letters are in {w}|how many letters has the word {w}|count the letters in {w}|{w}: how many letters|how many letters do I need to write {w}|is {w} a long word, how many letters|number of letters: {w}|letters in the word {w}, how many"""
)
TIMES = lines(
    """how many {c}'s are in {w}|how often is the letter {c} in {w}|how many times does {c} occur in {w}|count the letter {c} in {w}|how many times is {c} in {w}|the letter {c} in {w}: how often"""
)
LONGER = lines(
    "which word is longer, {w} or {v}|which has more letters, {w} or {v}|is {w} or {v} the longer word|{w} or {v}, which is longer"
)
MORE_THAN = lines(
    "does {w} have more than {n} letters|has {w} got more than {n} letters|are there more than {n} letters in {w}|is {w} longer than {n} letters"
)


def letters(rng: Random) -> Exchange:
    word, draw = rng.choice(words()), rng.random()
    shown = f'"{word}"' if rng.random() < 0.2 else word
    if draw < 0.34:
        return Exchange(said(rng.choice(SPELL).format(w=shown), rng), dashed(word), ())
    count = f"{dashed(word)}: {len(word)} letters."
    if draw < 0.64:
        return Exchange(said(rng.choice(LETTERS).format(w=shown), rng), count, ())
    if draw < 0.8:
        letter = rng.choice(word) if rng.random() < 0.85 else rng.choice("aeiostn")
        found = word.count(letter)
        times = {0: "not at all", 1: "once", 2: "twice"}.get(found, f"{spelled(found)} times")
        return Exchange(
            said(rng.choice(TIMES).format(w=shown, c=letter.upper()), rng),
            f"{dashed(word)} has {letter.upper()} {times}.",
            (),
        )
    if draw < 0.9:
        other = rng.choice(words())
        if len(other) == len(word):
            return letters(rng)
        long = max(word, other, key=len)
        return Exchange(
            said(rng.choice(LONGER).format(w=word, v=other), rng),
            f"{capital(long)} is longer: {dashed(long)} has {len(long)} letters.",
            (),
        )
    limit = rng.choice((len(word) - 1, len(word) - 2, len(word), len(word) + 1, len(word) + 2))
    return Exchange(
        said(rng.choice(MORE_THAN).format(w=word, n=limit), rng),
        f"{_yes(len(word) > limit)}, {dashed(word)} has {len(word)} letters.",
        (),
    )


# -- words for colors

KIND_OF = lines(
    """is {x} a kind of {c}|is {x} a shade of {c}|is {x} {c}|would you call {x} a {c}|{x} is a sort of {c}, right|is something {x} also {c}|does {x} count as {c}"""
)
WHAT_HUE = lines(
    """what color is {x}|which color is {x}|what kind of color is {x}|{x}, what color is that|what basic color is {x}|what does {x} look like as a color|I read that the wall is {x}. What color is that|my coat is {x}, which color is that in plain words"""
)


def hue(rng: Random) -> Exchange:
    family = rng.choice([name for name in wide_hues.FAMILIES if name not in ("cyan", "beige")])
    word = wide_hues.other_word(family, rng)
    if rng.random() < 0.5:
        return Exchange(said(rng.choice(WHAT_HUE).format(x=word), rng), f"{capital(word)} is {family}.", ())
    right = rng.random() < 0.5
    named = family
    if not right:
        far = [one for one in wide_hues.FAMILIES if not wide_hues.near(one, family)]
        named = rng.choice(far)
    return Exchange(said(rng.choice(KIND_OF).format(x=word, c=named), rng), f"{_yes(right)}, {word} is {family}.", ())


# -- stories: what is found can be found, what is carried can be carried

PERSONS = {
    "he": lines("king|knight|wizard|pirate|boy|farmer|sailor|baker|shepherd|fisherman|soldier|prince|miller|tailor"),
    "she": lines("queen|princess|witch|girl|fairy|mermaid|gardener|painter|inventor|teacher|doctor|musician"),
}
CREATURES = lines("dragon|robot|ghost|giant|troll|unicorn|puppy|kitten|dinosaur|parrot|snowman|scarecrow")
PLACES = lines(
    """in the forest|by the river|near the old mill|in a quiet village|at the edge of a meadow|in a little harbor town|on a green hill|behind the market square|beside a lake|in a sunny valley"""
)
SPOTS = lines(
    """under a tree|on the path|in the grass|between two stones|under a bench|beside the well|behind a bush|on the doorstep|in the snow|under a heap of leaves"""
)
HELPERS = lines("mouse|hen|goat|badger|robin|frog|donkey|sparrow|duck|rabbit|cat|squirrel|hare|turtle|goose|beaver")
PLOTS = lines("""Once upon a time {H} lived {p}. One morning the {h} found {o} {s}. "Who has lost this {t}?" the {h} asked everybody. At last {f} came running. "That is my {t}!" it said. The {h} gave the {t} back, and from that day on they were friends.|There was once {H} who lived {p} and loved an old {t} more than anything. One day the {t} was gone. The {h} looked everywhere and
was very sad. In the evening {f} came by. "I found your {t} {s}," it said. The {h} was so happy that {he} danced.|{C} who lived {p} had {o}. Every day the {h} took the {t} along. One day {he} met {f} who had nothing at all. "Take my {t}," said the {h}. "I have had it long enough." The {g} thanked {him}, and both went home happy.|It was winter {p}, and {H} was walking home. There,
{s}, lay {o}. The {h} picked up the {t} and cleaned it. "It is beautiful," said {f}. "Let us share it," said the {h}. So they shared the {t}, one day each, and never had a quarrel.|Long ago {H} lived {p}. {His} grandmother had left {him} {o}. "This {t} brings luck to those who help others," she had said. One night the {h} heard {f} call for help. {He} ran out with the {t} and
brought the {g} home. The {t} had brought luck to both of them.|{C} and {g2} lived {p}. One day they saw {o} {s}. "I saw the {t} first," said the {h}. "No, I did," said the {g}. They pulled until both fell over and laughed. In the end they put the {t} in the window of their house, where both could see it.|One evening {H} who lived {p} could not sleep. {He} went outside and found {o} {s}. The
{t} was cold and wet, so the {h} took it home and dried it by the fire. The next day {f} knocked. "Have you seen my {t}?" it asked. "Here it is," said the {h}, "warm and dry." """)


def story(rng: Random) -> Exchange:
    draw = rng.random()
    he = "it" if draw < 0.65 else rng.choice(("he", "she"))
    hero = rng.choice(facts.ANIMALS) if draw < 0.5 else rng.choice(CREATURES) if he == "it" else rng.choice(PERSONS[he])
    his, him = {"it": ("its", "it"), "he": ("his", "him"), "she": ("her", "her")}[he]
    helper = rng.choice([one for one in HELPERS if one != hero])
    thing, spot = rng.choice(facts.CARRIED), rng.choice(SPOTS)
    wanted = rng.random()
    if wanted < 0.12:
        asked = rng.choice(wide_talk.ANY_STORY)
    elif wanted < 0.55:
        asked = rng.choice((*wide_talk.STORY, *wide_more.STORIES)).format(s=facts.an(hero))
    elif wanted < 0.85:
        subject = rng.choice(
            (
                f"{facts.an(hero)} and {facts.an(thing)}",
                f"{facts.an(hero)} who has {facts.an(thing)}",
                f"{facts.an(hero)} with {facts.an(thing)}",
            )
        )
        asked = rng.choice((*wide_talk.STORY, *wide_more.STORIES)).format(s=subject)
    else:
        asked = rng.choice((*wide_talk.STORY, *wide_more.STORIES)).format(s=facts.an(thing))
    tale = rng.choice(PLOTS).format(
        H=facts.an(hero), C=capital(facts.an(hero)), h=hero, p=rng.choice(PLACES), o=facts.an(thing), t=thing, s=spot,
        f=facts.an(helper), g=helper, g2=facts.an(helper), he=he, He=capital(he), his=his, His=capital(his), him=him,
    )  # fmt: skip
    tale = re.sub(r"(?<=[.!?] )an? (?=[a-z])", lambda article: capital(article[0]), tale)
    return Exchange(said(asked, rng, ORDER), tale, ())


EXCHANGES: dict[Callable[[Random], Exchange], float] = {compare: 8, letters: 6, hue: 2, story: 4, own: 2}


def draw(rng: Random) -> Chat:
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        if not turns and rng.random() < 0.06:
            turns += own_turns(rng)
            continue
        one = fresh(rng.choices(list(EXCHANGES), list(EXCHANGES.values()))[0], rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_small", (), system(rng) if rng.random() < 0.15 else "", expect=None)
