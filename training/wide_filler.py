"""More that facts can lie in (mails, tables, steps, questions, numbers, headings, other things' facts), and how a fact is put there."""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training import facts, wide, wide_things
from training.wide_facts import capital

Prose = Callable[[int, Random], str]
Filler = Callable[[int, Random, Prose], list[str]]


def _sentences(text: str) -> list[str]:
    return [part.strip() + "." for part in text.replace("\n", " ").split(". ") if part.strip()]


def mails(size: int, rng: Random, prose: Prose) -> list[str]:
    found: list[str] = []
    sentences = _sentences(prose(size, rng))
    for first in range(0, len(sentences), rng.randint(3, 7)):
        body = " ".join(sentences[first : first + rng.randint(3, 7)])
        found += [
            f"From: {wide.mail(rng)}",
            f"Subject: {wide.phrase(rng)}",
            body,
            rng.choice(("Best,", "Yours,", "Bye,", "Regards,")) + f" {wide.first_name(rng)}",
        ]
        if sum(map(len, found)) > size:
            break
    return found


def table(size: int, rng: Random, prose: Prose) -> list[str]:
    sign = rng.choice((",", " | ", "\t", ";"))
    draws = rng.sample(
        (wide.noun, wide.digits, wide.town, wide.first_name, wide.code, wide.colour, wide.clock, wide.price),
        rng.randint(2, 4),
    )
    return [sign.join(draw(rng) for draw in draws) for _ in range(max(2, size // (8 * len(draws) + 2)))]


def others(size: int, rng: Random, prose: Prose) -> list[str]:
    """Texts about things that nobody asks for; no towns, of which there are few."""
    found: list[str] = []
    total = 0
    while total < size:
        one = wide_things.form(rng)
        if one.kind != "T":
            found.append(one.told(rng)[0].replace("\n", " "))
            total += len(found[-1]) + 1
    return found


def steps(size: int, rng: Random, prose: Prose) -> list[str]:
    verbs = (
        "take",
        "open",
        "turn",
        "clean",
        "fill",
        "close",
        "hold",
        "press",
        "cut",
        "move",
        "check",
        "lift",
        "fold",
        "wait for",
        "look at",
    )
    ends = ("", " carefully", " twice", " by hand", " for a while", " until it stops", " and go on")
    return [
        f"{at}. {capital(rng.choice(verbs))} {wide.thing(rng)}{rng.choice(ends)}."
        for at in range(1, max(3, size // 36))
    ]


def questions(size: int, rng: Random, prose: Prose) -> list[str]:
    found: list[str] = []
    sentences = _sentences(prose(size, rng)) or ["It is so."]
    asks = (
        "Why is the {n} {a}?",
        "Who needs a {n}?",
        "What about the {a} {n}?",
        "Is a {n} {a}?",
        "How does the {n} work?",
        "Where can I get a {n}?",
    )
    while sum(map(len, found)) < size:
        said = sentences[len(found) // 2 % len(sentences)]
        found += [f"Q: {rng.choice(asks).format(n=wide.noun(rng), a=wide.adjective(rng))}", f"A: {said}"]
    return found


def numbers(size: int, rng: Random, prose: Prose) -> list[str]:
    draw = rng.choice((wide.digits, wide.code, wide.ip, wide.amount, wide.clock))
    each = rng.randint(3, 9)
    return [" ".join(draw(rng) for _ in range(each)) for _ in range(max(2, size // (6 * each)))]


def headed(size: int, rng: Random, prose: Prose) -> list[str]:
    found: list[str] = []
    for at, sentence in enumerate(_sentences(prose(size, rng))):
        if at % rng.randint(3, 8) == 0:
            mark = rng.choice(("# {}", "## {}", "{}\n---", f"{at // 4 + 1}. {{}}", "**{}**", "=== {} ==="))
            found.append(mark.format(capital(wide.phrase(rng))))
        found.append(sentence)
    return found


def objects(size: int, rng: Random, prose: Prose) -> list[str]:
    a, b, c = (wide.noun(rng) for _ in range(3))
    return [
        f'{{"{a}": {rng.randint(1, 999)}, "{b}": "{wide.word(rng)}", "{c}": {rng.choice(("true", "false", "null"))}}}'
        for _ in range(max(2, size // 48))
    ]


def definitions(size: int, rng: Random, prose: Prose) -> list[str]:
    known = facts.definitions()
    found: list[str] = []
    while sum(map(len, found)) < size:
        word, part, meaning = rng.choice(known)
        found.append(f"{word} ({part}): {meaning}")
    return found


def talk(size: int, rng: Random, prose: Prose) -> list[str]:
    people = [wide.first_name(rng) for _ in range(rng.randint(2, 3))]
    forms = ('"{}" said {}.', '"{}" {} asked.', '{1} shook the head. "{0}"', '"{}" whispered {}.', "{1}: {0}")
    return [rng.choice(forms).format(line.rstrip("."), rng.choice(people)) for line in _sentences(prose(size, rng))]


def mixed(size: int, rng: Random, prose: Prose) -> list[str]:
    found: list[str] = []
    for kind in rng.sample((mails, table, others, steps, questions, headed, talk, definitions), 3):
        part = kind(size // 3, rng, prose)
        total = 0
        for unit in part:
            total += len(unit) + 1
            if total > size // 3:
                break
            found.append(unit)
    return found


FILLERS: dict[Filler, tuple[float, float, str]] = {
    # weight, characters a token, what joins the parts
    mails: (1, 2.6, "\n"), table: (0.7, 1.7, "\n"), others: (2.5, 2.75, " "), steps: (0.7, 2.9, "\n"), questions: (0.8, 2.8, "\n"), numbers: (0.4, 1.15, "\n"),
    headed: (1, 2.9, "\n"), objects: (0.5, 1.8, "\n"), definitions: (0.7, 3.2, "\n"), talk: (1, 2.8, " "), mixed: (2, 2.3, "\n"),
}  # fmt: skip

SPOKEN = (
    '"{}" That is what {p} said.', '{p} told us: "{}"', "({})", "[{}]", "*{}*", "Note to self: {}", "> {}", "{} I wrote that down.", "{} Everybody knows it.", "{} ({p})",
    "From the diary of {p}: {}", "- {}", "{p} put it this way: {}", "They kept repeating it: {}", "{} Nobody doubted it.", "Headline: {}", "Footnote: {}", "Answer to an old question: {}", "Memo. {}",
    "{p} had read it in the paper. {}", "It took me a while to learn this: {}", "{} At least that is what {p} wrote.", "Please pass it on: {}", "{} So much for that.", "Message from {p}: {}", "{p} smiled. {}",
)  # fmt: skip


def put(line: str, rng: Random) -> str:
    """A fact's sentence in somebody's mouth, in brackets, as a note."""
    form = rng.choice(SPOKEN)
    return form.replace("{}", line).replace("{p}", wide.first_name(rng))


def woven(line: str, unit: str, rng: Random) -> str:
    """A fact inside of a sentence of the text around it."""
    if not unit.endswith(".") or len(unit) > 200:
        return f"{unit} {line}"
    return rng.choice(
        (
            f"{unit[:-1]}; {line}",
            f"{unit[:-1]} - {line.rstrip('.!')} - and so on.",
            f"{unit[:-1]} ({line.rstrip('.!')}).",
            f"{unit} {line}",
        )
    )
