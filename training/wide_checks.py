"""Yes or no with negation, numbers and both of two; two-digit sums in more words; questions that go on from the turn before."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from random import Random

from training import facts, wide
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.wide_facts import capital
from training.wide_long import system
from training.wide_more import GOODS, rushed
from training.wide_talk import lines, spelled

# -- yes or no

BEFORE = lines(
    "||||||||please check:|one thing I know:|I was told that|fact:|it is like this:|mind this:|note:|from the diary:|we read:|if it helps:|good to know:"
)
IF = lines(
    "{q}?|{q}?|{q}?|{q}?|{q}|answer yes or no. {Q}?|{q}, yes or no?|so, {q}?|is that so: {q}?|what do you say, {q}?|then {q}?|just yes or no: {q}?|{q}, would you say?|my question: {q}?"
)


def _put(told: str, question: str, right: bool, plain: str, rng: Random) -> Exchange:
    before = rng.choice(BEFORE)
    told = f"{before} {told}" if before else told
    asked = capital(rng.choice(IF).format(q=question, Q=capital(question)))
    if rng.random() < 0.08:  # the question first
        text = f"{asked} {capital(told)}."
    else:
        text = f"{capital(told)}{rng.choice(('.', '.', '.', '!', ';'))} {asked}"
    return Exchange(text if rng.random() < 0.85 else rushed(text, rng), f"{'Yes' if right else 'No'}, {plain}.", ())


ADJECTIVES = lines("""open|closed|wet|dry|full|empty|clean|dirty|warm|cold|heavy|old|new|loud|cheap|broken|safe|sweet|ripe|ready|sold|locked|painted|sharp|round|wooden|hungry|tired|late|famous|
guilty|married|rich|asleep|alone|ill|free|busy|visible|frozen|real|green|tall""")
DEEDS = lines("""sing/sings/sang/sung|swim/swims/swam/swum|eat meat/eats meat/ate meat/eaten meat|drink coffee/drinks coffee/drank coffee/drunk coffee|drive a car/drives a car/drove a car/driven a car|play
the piano/plays the piano/played the piano/played the piano|speak French/speaks French/spoke French/spoken French|work on Sundays/works on Sundays/worked on Sundays/worked on Sundays|like
cats/likes cats/liked cats/liked cats|own a boat/owns a boat/owned a boat/owned a boat|smoke/smokes/smoked/smoked|pay the rent/pays the rent/paid the rent/paid the rent|wear a hat/wears a hat/wore a
hat/worn a hat|sell bread/sells bread/sold bread/sold bread|read novels/reads novels/read novels/read novels|dance/dances/danced/danced|sleep well/sleeps well/slept well/slept well|keep
bees/keeps bees/kept bees/kept bees|trust the map/trusts the map/trusted the map/trusted the map|write letters/writes letters/wrote letters/written letters|cook/cooks/cooked/cooked|visit
the museum/visits the museum/visited the museum/visited the museum|feed the horse/feeds the horse/fed the horse/fed the horse|fear the dark/fears the dark/feared the dark/feared the dark""")


def state(rng: Random) -> Exchange:
    """Something is so or is not, said plainly or with a not, asked plainly or with a not."""
    subject = rng.choice((wide.thing(rng), f"{wide.first_name(rng)}'s {wide.noun(rng)}", wide.person(rng)))
    word, so = rng.choice(ADJECTIVES), rng.random() < 0.5
    told = rng.choice((f"{subject} is {word}", f"{subject} is {word}", f"{subject} is still {word}", f"{subject} really is {word}", f"there is no doubt that {subject} is {word}")) if so else rng.choice(
        (f"{subject} is not {word}", f"{subject} isn't {word}", f"{subject} is no longer {word}", f"{subject} is anything but {word}", f"{subject} is not {word} at all", f"nobody would call {subject} {word}",
         f"it is wrong that {subject} is {word}", f"{subject} has never been {word}"))  # fmt: skip
    question = rng.choice(
        (
            f"is {subject} {word}",
            f"is {subject} {word}",
            f"is it {word}",
            f"is it true that {subject} is {word}",
            f"can we say that {subject} is {word}",
            f"do we call {subject} {word}",
        )
    )
    return _put(told, question, so, f"{subject} is {'' if so else 'not '}{word}", rng)


def deed(rng: Random) -> Exchange:
    """Somebody does something, or does not, or another one does."""
    p, q = (
        rng.sample([wide.first_name(rng) + end for end in ("", f" {wide.last_name(rng)}")], 2)
        if rng.random() < 0.1
        else (wide.first_name(rng), wide.first_name(rng))
    )
    if p == q:
        return state(rng)
    base, does, did, _ = rng.choice(DEEDS).split("/")
    form = rng.randrange(6)
    if form == 0:
        so = rng.random() < 0.5
        told = (
            rng.choice((f"{p} {does}", f"{p} often {does}", f"as a rule {p} {does}"))
            if so
            else rng.choice(
                (
                    f"{p} does not {base}",
                    f"{p} doesn't {base}",
                    f"{p} never {does}",
                    f"{p} would not {base}",
                    f"{p} refuses to {base}",
                    f"{p} is unable to {base}",
                )
            )
        )
        return _put(
            told,
            rng.choice((f"does {p} {base}", f"is it true that {p} {does}", f"would {p} {base}")),
            so,
            f"{p} {does}" if so else f"{p} does not {base}",
            rng,
        )
    if form == 1:
        so = rng.random() < 0.5
        told = (
            rng.choice((f"{p} {did} yesterday", f"{p} {did}", f"at last {p} {did}"))
            if so
            else rng.choice(
                (
                    f"{p} did not {base}",
                    f"{p} didn't {base}",
                    f"{p} wanted to {base} but could not",
                    f"{p} forgot to {base}",
                    f"{p} failed to {base}",
                    f"{p} went home and did not {base}",
                )
            )
        )
        return _put(
            told,
            rng.choice((f"did {p} {base}", f"is it right that {p} {did}", f"did {p} really {base}")),
            so,
            f"{p} {did}" if so else f"{p} did not {base}",
            rng,
        )
    if form == 2:  # one does, the other does not
        who = rng.choice((p, q))
        told = rng.choice(
            (
                f"{p} {does}, {q} does not",
                f"{p} {does} but {q} doesn't",
                f"{q} does not {base}, but {p} does",
                f"unlike {q}, {p} {does}",
                f"of {p} and {q} only {p} {does}",
                f"not {q} but {p} {does}",
            )
        )
        return _put(told, f"does {who} {base}", who == p, f"{p} {does}" if who == p else f"{q} does not {base}", rng)
    if form == 3:  # both, neither
        so = rng.random() < 0.5
        who = rng.choice((p, q))
        told = (
            rng.choice((f"both {p} and {q} {base}", f"{p} and {q} {base}", f"{p} {does}, and so does {q}"))
            if so
            else rng.choice(
                (
                    f"neither {p} nor {q} {does}",
                    f"{p} does not {base}, nor does {q}",
                    f"none of the two, {p} and {q}, {does}",
                )
            )
        )
        return _put(told, f"does {who} {base}", so, f"{who} {does}" if so else f"{who} does not {base}", rng)
    if form == 4:  # all, none
        so, group = (
            rng.random() < 0.5,
            rng.choice(
                lines(
                    "the children|the guests|the sailors|the nurses|the players|the neighbors|the students|my cousins"
                )
            ),
        )
        told = (
            rng.choice(
                (f"all of {group} {base}, and {p} is one of them", f"every one of {group} {does}. {p} belongs to them")
            )
            if so
            else rng.choice(
                (f"none of {group} {does}, and {p} is one of them", f"not one of {group} {does}. {p} belongs to them")
            )
        )
        return _put(told, f"does {p} {base}", so, f"{p} {does}" if so else f"{p} does not {base}", rng)
    told = rng.choice(
        (
            f"it was {p} who {did}, not {q}",
            f"{q} was ill, so {p} {did}",
            f"{p} {did} instead of {q}",
            f"nobody but {p} {did}. {q} watched",
        )
    )
    who = rng.choice((p, q))
    return _put(told, f"did {who} {base}", who == p, f"{p} {did}" if who == p else f"{q} did not {base}", rng)


def number(rng: Random) -> Exchange:
    """How many there are, and whether they are so many, more or fewer."""
    p, things, n = wide.first_name(rng), rng.choice(GOODS), rng.randint(2, rng.choice((12, 12, 99)))
    say = spelled if rng.random() < 0.4 else str
    told = rng.choice((f"{p} has {say(n)} {things}", f"{p} has precisely {say(n)} {things}", f"in {p}'s house we counted {say(n)} {things}", f"{p} keeps {say(n)} {things}",
                       f"{say(n)} {things} are what {p} has", f"{p} got {say(n)} {things} for the birthday", f"the {things} of {p} are {say(n)} in number", f"{p} carries {say(n)} {things}", f"{p} does not own more than {say(n)} {things}, and not fewer"))  # fmt: skip
    form = rng.randrange(4)
    if form < 2:
        right = rng.random() < 0.45
        other = n if right else rng.choice([one for one in range(1, 100 if n > 12 else 14) if one != n])
        question = rng.choice((f"does {p} have {say(other)} {things}", f"are there {say(other)} {things}", f"has {p} got {say(other)} {things}", f"is {say(other)} the number of {things}",
                               f"is it true that {p} has {say(other)} {things}", f"did I say {say(other)} {things}", f"do {say(other)} {things} belong to {p}"))  # fmt: skip
        return _put(told, question, right, f"{p} has {say(n)} {things}", rng)
    other = rng.choice([one for one in range(1, 100 if n > 12 else 14) if one != n])
    more = rng.random() < 0.5
    right = n > other if more else n < other
    question = rng.choice(
        (
            f"does {p} have {'more' if more else 'fewer'} than {say(other)} {things}",
            f"are there {'more' if more else 'fewer'} than {say(other)} {things}",
            f"is the number of {things} {'above' if more else 'below'} {say(other)}",
        )
    )
    return _put(told, question, right, f"{p} has {say(n)} {things}", rng)


def place(rng: Random) -> Exchange:
    """Where somebody is, or a color, or a day: that one or another."""
    p, form = wide.first_name(rng), rng.randrange(3)
    draw = (wide.town, lambda rng: rng.choice(facts.DAYS), wide.colour)[form]
    one, other = draw(rng), draw(rng)
    if one == other:
        return place(rng)
    right = rng.random() < 0.5
    asked = one if right else other
    if form == 0:
        told = rng.choice(
            (
                f"{p} lives in {one}",
                f"{p} left {other} and lives in {one}",
                f"{p} does not live in {other} but in {one}",
                f"{one} is where {p} lives",
                f"{p} has a house in {one}, not in {other}",
            )
        )
        return _put(
            told,
            rng.choice((f"does {p} live in {asked}", f"is {p} at home in {asked}", f"is {asked} where {p} lives")),
            right,
            f"{p} lives in {one}",
            rng,
        )
    if form == 1:
        told = rng.choice(
            (
                f"{p} comes on {one}",
                f"{p} does not come on {other} but on {one}",
                f"the visit of {p} was moved from {other} to {one}",
                f"on {one} {p} comes, not on {other}",
            )
        )
        return _put(
            told,
            rng.choice(
                (f"does {p} come on {asked}", f"is {asked} the day when {p} comes", f"will {p} be here on {asked}")
            ),
            right,
            f"{p} comes on {one}",
            rng,
        )
    noun = wide.noun(rng)
    told = rng.choice(
        (
            f"the {noun} of {p} is {one}",
            f"{p}'s {noun} is {one}, not {other}",
            f"{p} painted the {noun} {one}; it was {other} before",
            f"{p} has a {one} {noun}",
        )
    )
    return _put(
        told,
        rng.choice((f"is {p}'s {noun} {asked}", f"is the {noun} {asked}", f"is the {noun} of {p} {asked} now")),
        right,
        f"{p}'s {noun} is {one}",
        rng,
    )


def yes_no(rng: Random) -> Exchange:
    return rng.choices((state, deed, number, place), (3, 4, 4, 2))[0](rng)


# -- sums

SUMS = {
    "plus": lines("""one shop took {x} from me and another {y}, what did they take in all|{x} now and {y} later, how much altogether|the bill says {x} and the tip is {y}, what do I pay|first {x}, then {y}: total|we drove {x} km on one day and {y} on
    the next, how far was it|{p} scored {x} points, then another {y}. Total score|my shelf has {x} {t}, the new box {y}. How many have I|{x} guests came, {y} more came later. How many came|what number is {y} bigger than {x}|{x} grams and {y} grams, what
    does it weigh|{y} added to {x}|when I add {y} to {x} I get|what's the total if one costs {x} and the other {y}|raise {x} by {y}|how many are {x} {t} and {y} {t}|{x} up by {y}|sum up {x} and {y}|sum: {x}, {y}|{p} is {x}, {q} is {y}. How old are they together|I
    am {x} today. How old am I in {y} years|after {x} minutes we waited {y} more. How long did we wait|a {x} euro hat and a {y} euro coat cost how much|{x} in the left pocket, {y} in the right. And together|if {x} birds sit there and {y} more land, how many sit
    there then|take {x}, add {y}, what comes out|count on {y} from {x}|two numbers, {x} and {y}: their sum|altogether, {x} {t} plus {y} {t}|I read {x} pages on Monday and {y} on Tuesday, how many in total|what will {x} and {y} come to|could you total {x} and
    {y} for me|do the math: {x} plus {y}|{x} apples and {y} pears are how many pieces of fruit|the sum of the numbers {x} and {y} please|ten fingers aside, what is {x} plus {y}|give me {x} plus {y}"""),
    "minus": lines("""{y} out of {x} {t} got lost at sea, how many arrived|my purse held {x} euros before {y} went out, what is in it|from {x} {t} we sold {y}. What is left|{x} people sat there, {y} stood up and went. How many sit there now|{p} owes {x} and paid {y} back. How much is
    still owed|a tank of {x} liters lost {y}. How many liters are in it|{y} of the {x} {t} broke. How many are whole|what is {x} reduced by {y}|lower {x} by {y}|{x} down by {y}|how far is it from {y} to {x}|what is missing from {y} to {x}|{x} days in all, {y} are
    over. How many are to come|{p} is {x}, {q} is {y}. How many years are between them|if you take {y} {t} out of {x}, how many remain|{y} fewer than {x}|{x} without {y}|what is left of {x} after {y}|{x} were on the bus and {y} got off, how many are on it|subtract: {x} and
    then {y}|the price was {x} and I got {y} off. What did I pay|{x} eggs, {y} are eaten. How many are there still|remove {y} from {x}|how much more is {x} than {y}|we need {x} {t} and have {y}. How many are missing|do the math: {x} minus {y}|give me {x} minus {y}|{y}
    of {x} trees fell. How many stand|of my {x} {t} I lost {y}, how many have I got now|{x} steps, {y} done, how many to go"""),
    "times": lines("""{x} packs of {y} {t} are how many|{x} days with {y} hours of work, how many hours|{p} has {x} bags with {y} {t} in each. How many {t} has {p}|{y} euros a ticket, {x} tickets, what do I pay|{x} by {y}|{x} rows of {y} {t}|take {y} {x} times|what are {x} sets
    of {y}|{x} shelves hold {y} books each, how many books|do the math: {x} times {y}|give me {x} times {y}|{x} spiders with {y} legs each have how many legs"""),
}  # fmt: skip


def two_digits(rng: Random) -> Exchange:
    kind = rng.choices(list(SUMS), (5, 5, 2))[0]
    low = rng.choice((1, 2, 10, 10))
    x, y = rng.randint(low, 99), rng.randint(low, 99)
    if kind == "minus":
        x, y = max(x, y), min(x, y)
    if kind == "times":
        x, y = rng.randint(2, 12), rng.randint(2, 12)
    result = {"plus": x + y, "minus": x - y, "times": x * y}[kind]
    words = rng.random() < 0.15
    text = rng.choice(SUMS[kind]).format(
        x=spelled(x) if words else x,
        y=spelled(y) if words else y,
        p=wide.first_name(rng),
        q=wide.first_name(rng),
        t=rng.choice(GOODS),
    )
    text = (capital(text) if rng.random() < 0.75 else text) + rng.choice(("?", "?", "?", "", "."))
    if rng.random() < 0.2:
        changed = rushed(text, rng)
        digits = [part for part in changed if part.isdigit()]
        text = changed if digits == [part for part in text if part.isdigit()] else text
    return Exchange(text, f"{x} {kind} {y} is {result}.", ())


# -- what goes on from the turn before

AND = {
    "plus": lines(
        "and plus {y}|now add {y}|add {y} to that|and {y} more|plus {y}|{y} on top of that|and with {y} added"
    ),
    "minus": lines(
        "and minus {y}|now take away {y}|subtract {y} from that|less {y}|minus {y}|and without {y}|now {y} less"
    ),
}


def following(rng: Random) -> list[Turn]:
    """A sum that goes on with its result, or another question about what was told two turns before."""
    if rng.random() < 0.5:
        one = two_digits(rng)
        turns = [Turn("user", one.user), Turn("assistant", one.answer)]
        result = int(one.answer.rstrip(".").split(" ")[-1])
        for _ in range(rng.choice((1, 1, 2))):
            kind = rng.choice([kind for kind in AND if kind == "plus" or result > 1])
            y = rng.randint(1, max(1, min(99, result if kind == "minus" else 99)))
            text = rng.choice(AND[kind]).format(y=y)
            text = (capital(text) if rng.random() < 0.7 else text) + rng.choice(("?", "", ".", "?"))
            new = result + y if kind == "plus" else result - y
            turns += [Turn("user", text), Turn("assistant", f"{result} {kind} {y} is {new}.")]
            result = new
        return turns
    names = list(dict.fromkeys(wide.first_name(rng) for _ in range(rng.randint(2, 4))))
    form = rng.randrange(3)
    draw = (
        wide.town,
        lambda rng: facts.an(rng.choice(facts.JOBS)),
        lambda rng: f"{rng.randint(2, 99)} {rng.choice(GOODS)}",
    )[form]
    verb = ("lives in {}", "works as {}", "has {}")[form]
    known = {name: draw(rng) for name in names}
    told = rng.choice((", ", ". ", " and ")).join(f"{name} {verb.format(value)}" for name, value in known.items())
    turns = []
    for at, name in enumerate(rng.sample(names, len(names))):
        first = (f"where does {name} live", f"what is {name}'s job", f"what does {name} have")[form]
        text = (
            capital(first)
            if at == 0
            else rng.choice(
                (f"And {name}", f"what about {name}", f"And what about {name}", f"Now {name}", capital(first))
            )
        )
        text = f"{told}. {text}?" if at == 0 else f"{text}?"
        turns += [Turn("user", text), Turn("assistant", f"{name} {verb.format(known[name])}.")]
    return turns


def draw(rng: Random) -> Chat:
    """One to three exchanges."""
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.2:
            turns += following(rng)
            continue
        one = yes_no(rng) if kind < 0.6 else two_digits(rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_talk", (), system(rng) if rng.random() < 0.15 else "", expect=None)
