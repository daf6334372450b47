"""What nobody can know, and yes or no about what was said."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from functools import cache
from random import Random

from training import facts, wide, wide_members, wide_more, wide_talk
from training.facts_questions import Exchange
from training.wide_facts import capital
from training.wide_more import put
from training.wide_talk import UNKNOWN, lines, spelled

MASS = frozenset("sport language planet continent dance herb grain metal drink cheese dessert fabric illness".split())
CLEAR = frozenset(
    "fish bird animal insect tree flower herb fruit vegetable grain metal tool instrument vehicle boat aircraft furniture garment hat weapon toy sport dance language illness profession planet continent currency drink cheese dessert fabric gem building body_part mushroom nut".split()
)


@cache
def members() -> dict[str, list[str]]:
    """Plain kinds, and what belongs to them."""
    found = {}
    for line in wide_members.KINDS.strip().splitlines():
        names, _, words, *_ = line.split("|")
        if names.split()[0] in CLEAR:
            found[names.split()[0].replace("_", " ")] = words.split(",")
    return found


def one_of(member: str, kind: str) -> str:
    return member if kind in MASS or member.startswith(("a ", "the ")) else facts.an(member)


# -- what nobody can know

OWN = lines(
    "birthday|phone number|favorite color|address|shoe size|middle name|password|salary|favorite song|bank balance|star sign|wedding day|favorite dish|lucky number|blood type|height|weight|nickname|best friend|license plate|first job|e-mail address|plan for tomorrow|opinion of me|hair color|bedtime|room number|seat number|secret|age|favorite book|dentist"
)
ASK_OWN = lines(
    "what is {p}'s {o}|tell me {p}'s {o}|do you know {p}'s {o}|{p}'s {o}|I need the {o} of {p}|what would {p}'s {o} be|can you tell me the {o} of {p}|who knows {p}'s {o}|give me {p}'s {o}|look up {p}'s {o}|which is {p}'s {o}"
)
SECRET = lines("""when was {p} born|when does {p} turn forty|when is {p}'s birthday|what did {p} eat {w}|where did {p} park {w}|why is {p} late|what is {p} doing right now|who is sitting next to {p}|what did {p} whisper to {q}|how much did {p} pay for the {n}|how many {n}s are in {p}'s {room}|what is in {p}'s pocket|which {n} does {p} like best|when will {p} come
home|what will {p} say {l}|is {p} married|how old is {p}|where does {p} live|what does {p} do for a living|does {p} have a brother|what color are {p}'s eyes|who called {p} {w}|what did {p} dream of|how did {p} meet {q}|where did {p} lose the {n}|what is the name of {p}'s {r}|what is the name of my {r}|how old is my {r}|what does my {r} want for Christmas|where did I
put my {n}|what is the code of my {n}|what was in the letter from {p}|what number am I thinking of|which card did I draw|what is under my bed|who rang my bell {w}|what did I say to {p} {w}|how many emails did I get {w}|what will the price of {n}s be {l}|who will win the game {l}|will it rain {l}|how many people will come {l}|what will happen {l}|when will I get
married|which bus did my {r} take {w}|what's the temperature in my {room}|how full is my {n}|what did the neighbor buy {w}|is my {r} asleep|is anybody in the {room}|what time did {p} leave {w}|which train does {p} take|how long did {p} sleep {w}|what is {p} wearing|what does {p} keep in the {n}|who gave {p} the {n}|why did {p} sell the {n}|what is written on {p}'s
{n}|how far did {p} run {w}|what did {p} and {q} talk about {w}""")


def secret(rng: Random) -> Exchange:
    p, q = wide.person(rng) if rng.random() < 0.5 else wide.first_name(rng), wide.first_name(rng)
    if rng.random() < 0.4:
        who = rng.choice((p, p, p, f"my {rng.choice(wide_talk.KIN)}"))
        text = rng.choice(ASK_OWN).format(p=who, o=rng.choice(OWN))
    else:
        text = rng.choice(SECRET).format(
            p=p,
            q=q,
            n=wide.noun(rng),
            r=rng.choice(wide_talk.KIN),
            l=rng.choice(wide_talk.LATER),
            w=rng.choice(wide_talk.WHEN),
            room=rng.choice(facts.ROOMS),
        )
    return Exchange(put(text, rng), UNKNOWN, ())


# -- yes or no about what was said

OPPOSITES = lines(
    "older/younger|taller/shorter|faster/slower|heavier/lighter|richer/poorer|stronger/weaker|happier/sadder|earlier/later"
)
GOT = lines("bought|found|saw|painted|sold|lost|drew|wanted|ordered|borrowed")
BASE = dict(zip(GOT, lines("buy|find|see|paint|sell|lose|draw|want|order|borrow"), strict=True))


def _yes(told: str, asked: str, right: bool, plain: str, rng: Random) -> Exchange:
    text = f"{capital(told)}. {capital(rng.choice(('{q}?', '{q}?', '{q}?', 'so {q}?', 'tell me, {q}?', '{q}, yes or no?', 'yes or no: {q}?', 'question: {q}?')).format(q=asked))}"
    return Exchange(
        text if rng.random() < 0.8 else wide_more.rushed(text, rng), f"{'Yes' if right else 'No'}, {plain}.", ()
    )


def checked(rng: Random) -> Exchange:
    p, q = wide.first_name(rng), wide.first_name(rng)
    if p == q:
        return checked(rng)
    right, form = rng.random() < 0.5, rng.randrange(9)
    if form == 0:  # a member of the kind
        kind = rng.choice(
            (
                "fish",
                "bird",
                "tree",
                "flower",
                "fruit",
                "vegetable",
                "tool",
                "instrument",
                "vehicle",
                "boat",
                "garment",
                "weapon",
                "toy",
                "insect",
                "animal",
                "cheese",
                "dance",
                "sport",
            )
        )
        member, got = rng.choice(members()[kind]), rng.choice(GOT)
        asked = (
            kind
            if right
            else rng.choice(
                [
                    each
                    for each in ("fish", "bird", "tree", "tool", "vehicle", "garment", "vegetable", "toy")
                    if each != kind and member not in members()[each]
                ]
            )
        )
        one = one_of(member, kind)
        if kind in ("dance", "sport", "cheese"):
            got = rng.choice(("wanted", "saw"))
        return _yes(f"{p} {got} {one}", f"did {p} {BASE[got]} {facts.an(asked)}", right, f"{p} {got} {one}", rng)
    if form == 1:  # the other way round
        more, less = rng.sample(rng.choice(OPPOSITES).split("/"), 2)
        pair = rng.choice(
            (
                (f"is {q} {less} than {p}", True),
                (f"is {p} {more} than {q}", True),
                (f"is {q} {more} than {p}", False),
                (f"is {p} {less} than {q}", False),
            )
        )
        return _yes(f"{p} is {more} than {q}", pair[0], pair[1], f"{p} is {more} than {q}", rng)
    if form == 2:  # open and closed by the clock
        opens, closes = rng.randint(6, 11), rng.randint(13, 22)
        hour = rng.choice(
            [each for each in range(5, 24) if (opens <= each < closes) == right and each not in (opens, closes)]
            or [opens + 1]
        )
        right = opens <= hour < closes
        place = f"the {rng.choice(('bakery', 'library', 'museum', 'shop', 'pool', 'bank', 'office', 'cafe'))}"
        return _yes(
            f"{place} is open from {opens} to {closes}",
            rng.choice((f"is {place} open at {hour}", f"can I go in at {hour}", f"will it be open at {hour}")),
            right,
            f"{place} is {'open' if right else 'closed'} at {hour}",
            rng,
        )
    if form == 3:  # more or fewer than
        n, things = rng.randint(3, 60), rng.choice(wide_more.GOODS)
        limit = rng.randint(1, 70)
        if limit == n:
            limit += 1
        up = rng.random() < 0.5
        return _yes(
            f"{p} has {n if rng.random() < 0.7 else spelled(n)} {things}",
            f"does {p} have {'more' if up else 'fewer'} than {limit} {things}",
            (n > limit) == up,
            f"{p} has {n} {things}",
            rng,
        )
    if form == 4:  # who did it to whom
        done, base = rng.choice(
            (
                ("helped", "help"),
                ("called", "call"),
                ("paid", "pay"),
                ("visited", "visit"),
                ("beat", "beat"),
                ("thanked", "thank"),
                ("followed", "follow"),
                ("taught", "teach"),
            )
        )
        one, other = (p, q) if right else (q, p)
        return _yes(
            f"{p} {done} {q}",
            rng.choice(
                (
                    f"did {one} {base} {other}",
                    f"was it {one} who {done} {other}",
                    f"was {other} the one that {one} {done}",
                )
            ),
            right,
            f"{p} {done} {q}",
            rng,
        )
    if form == 5:  # before or after
        first, second = rng.sample(
            [
                f"the {each}"
                for each in (
                    "concert",
                    "dinner",
                    "speech",
                    "race",
                    "exam",
                    "tour",
                    "parade",
                    "film",
                    "wedding",
                    "meeting",
                )
            ],
            2,
        )
        pair = rng.choice(
            (
                (f"was {first} before {second}", True),
                (f"did {second} come after {first}", True),
                (f"was {second} before {first}", False),
                (f"did {first} come after {second}", False),
            )
        )
        return _yes(
            rng.choice(
                (
                    f"{first} came before {second}",
                    f"{second} came after {first}",
                    f"first there was {first}, then {second}",
                )
            ),
            pair[0],
            pair[1],
            f"{first} came before {second}",
            rng,
        )
    if form == 6:  # one of several
        kind = rng.choice(("fruit", "vegetable", "tool", "flower", "toy", "fish", "garment"))
        some = rng.sample(members()[kind], 4)
        asked = rng.choice(some[:3]) if right else some[3]
        shown = f"{facts.plural(some[0])}, {facts.plural(some[1])} and {facts.plural(some[2])}"
        return _yes(
            f"{p} {rng.choice(('brought', 'sells', 'collects', 'packed'))} {shown}",
            rng.choice(
                (
                    f"are there {facts.plural(asked)}",
                    f"are {facts.plural(asked)} among them",
                    f"does that include {facts.plural(asked)}",
                )
            ),
            right,
            f"there are {shown}" if right else f"there are no {facts.plural(asked)}",
            rng,
        )
    if form == 7:  # told by its contrary
        one, other = rng.choice(
            (
                ("empty", "full"),
                ("closed", "open"),
                ("asleep", "awake"),
                ("broken", "in order"),
                ("dark", "light"),
                ("cheap", "expensive"),
                ("wet", "dry"),
                ("dirty", "clean"),
                ("loud", "quiet"),
                ("hot", "cold"),
                ("absent", "there"),
                ("late", "on time"),
            )
        )
        thing = p if one in ("asleep", "absent", "late") else f"the {wide.noun(rng)}"
        return _yes(
            rng.choice(
                (
                    f"{thing} is {one}",
                    f"{thing} is anything but {other}",
                    f"{thing} is not {other} at all",
                    f"nobody would call {thing} {other}, it is {one}" if thing != p else f"{thing} is {one} again",
                )
            ),
            f"is {thing} {one if right else other}",
            right,
            f"{thing} is {one}",
            rng,
        )
    place, wrong = wide.town(rng), wide.town(rng)
    if place == wrong:
        return checked(rng)
    told = rng.choice(
        (
            f"{p} moved from {wrong} to {place}",
            f"{p} used to live in {wrong} but is in {place} now",
            f"{p} left {wrong} and went to {place}",
        )
    )
    return _yes(
        told,
        rng.choice(("is {p} in {t} now", "is {t} where {p} is now", "does {p} live in {t} these days")).format(
            p=p, t=place if right else wrong
        ),
        right,
        f"{p} is in {place} now",
        rng,
    )
