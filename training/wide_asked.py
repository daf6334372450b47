"""Yes or no about what was said, what can be known and what cannot; and all of the talk of `wide_more` together."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from training import facts, wide, wide_facts, wide_relations, wide_talk
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.wide_events import VERBS, past
from training.wide_facts import capital
from training.wide_kinds import kinds
from training.wide_long import system
from training.wide_more import GOODS, can, define, greet, put, rushed, story, thank, who, word_sum
from training.wide_talk import UNKNOWN, lines, spelled
from training.wide_words import KNOWN

# -- yes or no about what was said

PAIRS = lines(
    "open/closed|wet/dry|full/empty|clean/dirty|warm/cold|awake/asleep|alive/dead|heavy/light|old/new|loud/quiet|cheap/expensive|broken/whole|safe/dangerous|sweet/sour|rich/poor|happy/sad|early/late|locked/unlocked|lit/dark|ripe/unripe|sold/unsold|married/single"
)
MORE = lines("taller|older|younger|faster|stronger|richer|heavier|louder|smaller|smarter|happier|busier")
ASK_IF = lines(
    "{q}?|{q}?|{q}?|{q}|tell me, {q}?|yes or no: {q}?|{q}, yes or no?|so {q}?|now, {q}?|I ask you: {q}?|well, {q}?|quick check: {q}?|question: {q}?"
)


def _yes(rng: Random, told: str, question: str, right: bool, plain: str) -> Exchange:
    asked = rng.choice(ASK_IF).format(q=question)
    text = f"{capital(told)}. {capital(asked)}"
    if rng.random() < 0.12:
        text = f"{rng.choice(('Listen.', 'Here is a fact.', 'Suppose this:', 'Assume the following.', 'Given:', 'I tell you this:', 'If you do not mind:'))} {text}"
    return Exchange(text if rng.random() < 0.8 else rushed(text, rng), f"{'Yes' if right else 'No'}, {plain}.", ())


def yes_no(rng: Random) -> Exchange:
    p, q, t = wide.first_name(rng), wide.first_name(rng), wide.thing(rng)
    form, right = rng.randrange(9), rng.random() < 0.5
    if form == 0:  # a state and its opposite
        one, other = rng.sample(rng.choice(PAIRS).split("/"), 2)
        subject = rng.choice((t, t, f"{p}'s {wide.noun(rng)}"))
        told = rng.choice(
            (
                f"{subject} is {one}",
                f"{subject} is not {other}",
                f"{subject} is {one} today",
                f"as we know, {subject} is {one}",
                f"{subject} is by no means {other}",
                f"{subject} has been {one} since {rng.choice(facts.DAYS)}",
            )
        )
        return _yes(
            rng,
            told,
            rng.choice(
                (
                    f"is {subject} {one if right else other}",
                    f"would you call {subject} {one if right else other}",
                    f"is it {one if right else other}",
                )
            ),
            right,
            f"{subject} is {one}",
        )
    if form == 1:  # more than the other
        more = rng.choice(MORE)
        first, second = (p, q) if right else (q, p)
        return _yes(
            rng,
            rng.choice(
                (f"{p} is {more} than {q}", f"{p} is much {more} than {q}", f"of the two, {p} is {more}, not {q}")
            ),
            rng.choice((f"is {first} {more} than {second}", f"is it {first} who is {more}")),
            right,
            f"{p} is {more} than {q}",
        )
    if form == 2:  # not done
        verb = rng.choice(VERBS)
        done = past(verb)
        if right:
            return _yes(rng, f"{p} {done} {t}", f"did {p} {verb} {t}", True, f"{p} {done} {t}")
        told = rng.choice(
            (
                f"{p} did not {verb} {t}",
                f"{p} never {done} {t}",
                f"{p} refused to {verb} {t}",
                f"{p} forgot to {verb} {t}",
                f"{q} {done} {t}, but {p} did not",
            )
        )
        return _yes(rng, told, f"did {p} {verb} {t}", False, f"{p} did not {verb} {t}")
    if form == 3:  # only, all but
        deed, did = rng.choice(
            (
                ("pass the test", "passed the test"),
                ("come", "came"),
                ("win a prize", "won a prize"),
                ("see the film", "saw the film"),
                ("pay", "paid"),
                ("answer", "answered"),
                ("get a ticket", "got a ticket"),
                ("stay", "stayed"),
            )
        )
        if rng.random() < 0.5:
            told = rng.choice(
                (
                    f"only {p} {did}",
                    f"nobody but {p} {did}",
                    f"{p} was the only one who {did}",
                    f"{p} {did}, {q} did not",
                )
            )
            return _yes(
                rng, told, f"did {p if right else q} {deed}", right, f"{p} {did}" if right else f"{q} did not {deed}"
            )
        told = rng.choice((f"everybody {did} except {p}", f"all but {p} {did}", f"everyone {did}, only {p} did not"))
        return _yes(
            rng,
            f"{told}. {q} was among them" if right else told,
            f"did {q if right else p} {deed}",
            right,
            f"{q} {did}" if right else f"{p} did not {deed}",
        )
    if form == 4:  # how many
        n, things = rng.randint(2, 40), rng.choice(GOODS)
        other = n if right else rng.choice([one for one in range(1, 41) if one != n])
        say = (lambda number: spelled(number)) if rng.random() < 0.5 else str
        told = rng.choice(
            (
                f"{p} owns {say(n)} {things}",
                f"there are {say(n)} {things} in {p}'s room",
                f"{p} counted {say(n)} {things}",
                f"{say(n)} {things}, no more and no less, belong to {p}",
            )
        )
        question = rng.choice(
            (
                f"does {p} have {say(other)} {things}",
                f"are there {say(other)} {things}",
                f"is it {say(other)} {things}",
                f"has {p} got {say(other)} {things}",
                f"would {say(other)} be the number of {things}",
            )
        )
        return _yes(rng, told, question, right, f"there are {say(n)} {things}")
    if form == 5:  # none
        things = rng.choice(GOODS)
        if right:
            return _yes(
                rng,
                rng.choice((f"{p} has some {things}", f"there are {things} at {p}'s")),
                f"does {p} have any {things}",
                True,
                f"{p} has {things}",
            )
        return _yes(
            rng,
            rng.choice(
                (
                    f"{p} has no {things}",
                    f"{p} does not have any {things}",
                    f"{p} ran out of {things}",
                    f"all {things} of {p} are gone",
                    f"not one of the {things} is left at {p}'s",
                )
            ),
            rng.choice((f"does {p} have any {things}", f"has {p} got {things}", f"does {p} still have {things}")),
            False,
            f"{p} has no {things}",
        )
    if form == 6:  # where or who, another one
        place, wrong = wide.town(rng), wide.town(rng)
        verb = rng.choice(("lives in", "works in", "was born in", "is on holiday in", "studies in", "waits in"))
        aux, base = (
            ("was", "born in")
            if verb.startswith("was")
            else ("is", verb[3:])
            if verb.startswith("is")
            else (
                "does",
                {"lives in": "live in", "works in": "work in", "studies in": "study in", "waits in": "wait in"}[verb],
            )
        )
        asked = place if right else wrong
        if place == wrong:
            right = True
        return _yes(
            rng,
            rng.choice((f"{p} {verb} {place}", f"{p} {verb} {place}, not in {q}ville")),
            f"{aux} {p} {base} {asked}",
            right,
            f"{p} {verb} {place}",
        )
    if form == 7:  # a color, a kind
        one, other = rng.sample(facts.COLOURS, 2)
        noun = wide.noun(rng)
        told = rng.choice(
            (
                f"{p} bought a {one} {noun}",
                f"all {facts.plural(noun)} of {p} are {one}",
                f"the {noun} is {one}",
                f"{p} painted the {noun} {one}",
            )
        )
        return _yes(
            rng,
            told,
            rng.choice(
                (
                    f"is the {noun} {one if right else other}",
                    f"is {p}'s {noun} {one if right else other}",
                    f"was it a {one if right else other} {noun}",
                )
            ),
            right,
            f"the {noun} is {one}",
        )
    fact = rng.choice(wide_facts.some(rng, 1))
    question, answer, _ = fact.yes_or_no(rng, wide_facts.another(fact, rng))
    return Exchange(f"{fact.told(rng)} {question}", answer, ())


# -- what can be known and what cannot


def told_or_not(rng: Random) -> Exchange:
    """Something about somebody, and a question: about that, or about something else, which nobody can know."""
    fact = wide_relations.draw(rng)
    while wide_relations.relations()[fact.number][0] == "":
        fact = wide_relations.draw(rng)
    kind, value, _, _ = wide_relations.relations()[fact.number]
    told = fact.told(rng)
    if rng.random() < 0.5:
        question, answer = fact.asked(rng)
        return Exchange(f"{told} {question}", answer, ())
    others = [
        at
        for at, one in enumerate(wide_relations.relations())
        if one[0] == kind
        and one[1] != value
        and {one[1], value} not in ({"T", "S"}, {"Y", "K"}, {"N", "L"}, {"R", "E"}, {"R", "Y"}, {"C", "D"}, {"J", "S"})
    ]
    question = rng.choice(wide_relations.relations()[rng.choice(others)][3]).format(k=fact.key)
    extra = (
        rng.choice(
            (
                "how tall is {k}",
                "how much does {k} weigh",
                "what did {k} say this morning",
                "what is {k} thinking",
                "what will {k} do tomorrow",
            )
        )
        if kind == "who" and rng.random() < 0.3
        else ""
    )
    return Exchange(f"{told} {capital(extra.format(k=fact.key) or question)}?", UNKNOWN, ())


ALONE = lines("""what did I have for {m}|which {n} did I choose|what is the {n} of my {r}|how many {n}s has my {r}|what will the {r} of {p} say {l}|who sat next to me {w}|what is the name of {p}'s {r}|where did {p} go {w}|what does {p} think of me|how much money does {p}
have|what is in {p}'s bag|when will {p} call me|what is {p}'s password|what did {p} dream {w}|which seat did I take {w}|what song did I hear {w}|what have I got in my {room}|what did the {r} next door do {w}|how tall is {p}|where is {p} right now|what
number is on my door|what color is my {n}|what did I write in my diary {w}|how many steps did I walk {w}|what is my {r} cooking|who will knock at my door {l}|what will the weather be {l}|who is going to win {l}|what will I eat {l}|how long will I live|what is
behind me|what am I holding|how many coins are in my pocket|what is my account number|what grade did I get {w}|what is the score in the game right now|how is the traffic now|who is the tallest person in my town|what did my {r} buy {w}|what is my {r} wearing|is {p} at
home|does {p} like me|did my {r} call {w}|am I hungry|will I be happy {l}|is it snowing at my place|did {p} find the {n}|what happened at my {r}'s party|what is the next lottery number|which horse will win {l}|guess what I saw {w}|what is the name of my street|how
much did my {n} cost|who painted the picture in my {room}|what time is it now|what is the date today|how many people are in my {room} now|how hot is it outside|what is my favorite {n}|who am I|what was my first word|what is written on my shirt""")


def unknown(rng: Random) -> Exchange:
    text = rng.choice(ALONE).format(
        m=rng.choice(("breakfast", "lunch", "dinner")),
        n=wide.noun(rng),
        r=rng.choice(wide_talk.KIN),
        p=wide.person(rng),
        l=rng.choice(wide_talk.LATER),
        w=rng.choice(wide_talk.WHEN),
        room=rng.choice(facts.ROOMS),
    )
    return Exchange(put(text, rng), UNKNOWN, ())


@cache
def _known() -> list[tuple[str, str]]:
    return [(question, answer) for question, _, answer in (one.partition("=") for one in KNOWN.split("|"))]


def knowable(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.6:
        question, answer = rng.choice(_known())
        return Exchange(put(question, rng), answer, ())
    common = [
        kind
        for kind in (
            "bird",
            "fish",
            "tree",
            "fruit",
            "vegetable",
            "insect",
            "flower",
            "tool",
            "vehicle",
            "mammal",
            "furniture",
            "garment",
            "drug",
            "metal",
            "dog",
            "weapon",
        )
        if kind in kinds()
    ] or list(kinds())
    kind = rng.choice(common)
    member = rng.choice(kinds()[kind][:12])
    right = rng.random() < 0.5
    other = rng.choice([one for one in common if member not in kinds()[one]] or ["cloud"])
    question = rng.choice(
        ("is {m} {k}", "would you call {m} {k}", "is {m} {k} or not", "tell me if {m} is {k}")
    ).format(m=facts.an(member), k=facts.an(kind if right else other))
    return Exchange(
        put(question, rng),
        f"Yes, {facts.an(member)} is {facts.an(kind)}."
        if right
        else f"No, {facts.an(member)} is not {facts.an(other)}.",
        (),
    )


EXCHANGES: dict[Callable[[Random], Exchange], float] = {
    greet: 2.2, thank: 1.6, who: 1.6, can: 1.6, story: 3.5, define: 4, word_sum: 5, yes_no: 6, told_or_not: 3, unknown: 3, knowable: 3,
}  # fmt: skip


def exchange(rng: Random) -> Exchange:
    return rng.choices(list(EXCHANGES), list(EXCHANGES.values()))[0](rng)


def draw(rng: Random) -> Chat:
    """One to five exchanges; some of the other talk among them."""
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 5))):
        one = exchange(rng) if rng.random() < 0.75 else wide_talk.exchange(rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_talk", (), system(rng) if rng.random() < 0.2 else "", expect=None)
