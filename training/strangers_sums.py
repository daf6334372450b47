"""Arithmetic with numbers of one or two digits, asked in many ways.

Sums and differences of 0 to 99 (40% and 30%, no difference below zero), products of 1 to 12 (20%), quotients of that
table (10%). The result is never one of the two numbers, so that repeating the question is never right. The rule: the
answer's result is the right one, in digits or in words. The result is the number after the last "=" where there is
one, otherwise the first or the last number; every other number must be one of the two asked about.
"""

from __future__ import annotations

import random
import re

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_voices import terms, voiced

ONES = terms(
    """zero, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen,
    sixteen, seventeen, eighteen, nineteen"""
)
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ASKS = {
    "+": (
        "{a}+{b}",
        "{a} + {b} =",
        "{a} plus {b}?",
        "what do i get when i put {a} and {b} together",
        "Sum of {a} and {b}, please.",
        "If you have {a} apples and somebody hands you {b} more, how many apples is that?",
        "print({a} + {b})",
        "Compute {a} added to {b}.",
        "I paid {a} yesterday and {b} today. What is the total?",
        "total = {a} + {b}; total is?",
        "add up: {a}, {b}",
        "How much is {a} and {b}?",
    ),
    "-": (
        "{a}-{b}",
        "{a} - {b} = ?",
        "{a} minus {b}",
        "Take {b} away from {a}.",
        "what is left of {a} when you remove {b}",
        "There were {a} birds and {b} flew off. How many stayed?",
        "By how much is {a} more than {b}?",
        "print({a} - {b})",
        "subtract {b} from {a}",
        "Difference between {a} and {b}?",
        "I had {a} coins, I spent {b}. How many have I got now?",
    ),
    "*": (
        "{a}*{b}",
        "{a} x {b}",
        "{a} times {b} is what?",
        "Multiply {a} by {b}.",
        "product of {a} and {b}",
        "{a} boxes with {b} eggs in each. How many eggs?",
        "print({a} * {b})",
        "how many are {a} lots of {b}",
    ),
    "/": (
        "{a}/{b}",
        "{a} divided by {b}",
        "Divide {a} by {b} for me.",
        "Share {a} sweets fairly among {b} children. How many for each?",
        "how often does {b} go into {a}",
        "{a} : {b} = ?",
    ),
}


def in_words(number: int) -> str:
    if number < 20:
        return ONES[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")


def numbers(text: str) -> list[int]:
    """All numbers of a text in order: digits, and words below a thousand."""
    found: list[int] = []
    low = text.lower().replace(",", "").replace("-", " - ")
    tokens = re.findall(r"\d+(?:\.\d+)?|[a-z]+|-", low)
    running: int | None = None
    for token in [*tokens, "end"]:
        if token in ONES or token in TENS:
            value = ONES.index(token) if token in ONES else 20 + 10 * TENS.index(token)
            joined = running is not None and (
                (running % 10 == 0 and running % 100 >= 20 and value < 10) or running % 100 == 0
            )
            if running is not None and not (joined and running):
                found.append(running)
                running = None
            running = value if running is None else running + value
        elif token == "hundred" and running is not None:
            running *= 100
        elif token in ("-", "and") and running is not None:
            continue
        else:
            if running is not None:
                found.append(running)
                running = None
            if token[0].isdigit() and float(token) == int(float(token)):
                found.append(int(float(token)))
            elif token[0].isdigit():
                found.append(-1)  # a fraction is never right here
    return found


def results_in(result: int, operands: tuple[int, int]) -> Verdict:
    def verdict(answer: Answer) -> str:
        said = numbers(answer.text)
        if not said:
            return "no number"
        after = numbers(answer.text.rsplit("=", 1)[1]) if "=" in answer.text else []
        got = {after[-1]} if after else {said[0], said[-1]}
        if result not in got:
            return f"says {sorted(got)}, not {result}"
        strange = set(said) - {result, *operands}
        return f"also says {sorted(strange)}" if strange else ""

    return verdict


def task(rng: random.Random, index: int) -> tuple[str, int, int, int]:
    sign = "++++---**/"[index % 10]
    if sign in "+-":
        top = rng.choice((9, 99, 99))
        a, b = rng.randint(0, top), rng.randint(0, top)
        a, b = (max(a, b), min(a, b)) if sign == "-" else (a, b)
        result = a + b if sign == "+" else a - b
        # An answer that repeats a number of the question must not be right by chance.
        return task(rng, index) if result in (a, b) else (sign, a, b, result)
    a, b = rng.randint(0, 12), rng.randint(2, 12)
    if a * b in (a, b) or a == 0 or (sign == "/" and a * b > 99):
        return task(rng, index)
    return (sign, a, b, a * b) if sign == "*" else (sign, a * b, b, a)


def questions(count: int, seed: int, figure: str) -> list[Question]:
    made = []
    for index in range(count):
        rng = random.Random(f"sums {seed} {index}")
        sign, a, b, result = task(rng, index)
        frame = rng.choice(ASKS[sign])
        spelled = rng.random() < 0.15 and re.search(r"\w ", frame) and "print" not in frame and "=" not in frame
        text = frame.format(a=in_words(a) if spelled else a, b=in_words(b) if spelled else b)
        prompt, voice = voiced(text, rng, (in_words(a), in_words(b)))
        verdict = results_in(result, (a, b))
        facts = {"sign": sign, "voice": voice}
        made.append(chat(figure, prompt, verdict, max_tokens=40, expected=result, facts=facts))
    return made
