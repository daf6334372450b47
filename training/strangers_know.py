"""What the model cannot know, and what it can.

The rule for what it cannot know: the answer says in any words that it does not know, cannot tell or was not told (and
is sound). The rule for what it can know: it says nothing of that kind. Whether such an answer is right, other kinds
judge.
"""

from __future__ import annotations

import random

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_rules import is_refusal, unsound
from training.strangers_voices import terms, voiced

PEOPLE = terms("""my neighbour, my boss, the man at the door, my cousin Ludo, my dentist, your programmer's aunt""")
NAMES = ["Torvald", "Minna", "Basil", "Greta", "Osman", "Petra", "Ruben", "Sunniva"]
YEARS = ["2055", "2071", "2090", "2113"]
THINGS = ["wallet", "left pocket", "fridge", "desk drawer", "suitcase", "glove box"]
CITIES = ["Utrecht", "Kyoto", "Bogota", "Perth", "Tunis", "Krakow"]

UNKNOWABLE = (
    "What have I got in my {thing}?",
    "Guess what {person} said to me this morning. What was it?",
    "Which team will win the cup in {year}?",
    "How old is {person}?",
    "what did i eat last night??",
    "Is it raining in {city} at this very moment?",
    "Who is going to be president in {year}?",
    "What is the middle name of {person}?",
    "How much money do I have in my bank account?",
    "What number am I thinking of?",
    "Where did I leave my keys?",
    "Tell me the winning lottery numbers of next week.",
    "What will a loaf of bread cost in {year}?",
    "what's the name of my cat",
    "At what time did {person} go to bed yesterday?",
    "What colour are my socks?",
    "How many people are in the room with me?",
    "What is {person} doing right now?",
    "Who wrote me a letter on Tuesday?",
    "How many hairs are on the head of {person}?",
    "What is my sister's telephone number?",
    "Which song is playing in the cafe next to my office in {city}?",
)
# The first half of the text is about the person, the question about something else of theirs.
ABSENT = (
    ("{name} lives in {city}.", "How tall is {name}?"),
    ("{name} has a brown dog and a garden.", "What is the birthday of {name}?"),
    ("Yesterday {name} went by train to {city}.", "Which book did {name} read on the way?"),
    ("{name} likes soup. The soup was hot.", "Who is the mother of {name}?"),
    ("Our office is in {city}. {name} opens it at eight.", "What is the wifi password of the office?"),
    ("{name} bought a lamp and a chair.", "How much did {name} pay for the chair?"),
    ("In {city} there is a bridge. {name} painted it.", "When was the bridge built?"),
    ("{name} plays chess every Sunday.", "What is the surname of {name}?"),
)
KNOWABLE = (
    "What colour is snow?",
    "What is a spoon for?",
    "Say hello to me in English.",
    "How many legs does a dog have?",
    "Which is bigger, an elephant or a mouse?",
    "What comes after Monday?",
    "8 plus 1?",
    "what is 20 minus 4",
    "Are you a computer program?",
    "What is your name?",
    "Name an animal that barks.",
    "Give me one word that means happy.",
    "What do bees make?",
    "Is fire hot?",
    "Write one sentence about the sea.",
    "What do you call the place where books are lent out?",
    "My brother is called {name}. What is my brother called?",
    "{name} keeps bees in {city}. Where does {name} keep bees?",
    "There is a coin in my {thing}. What is in my {thing}?",
    "{name} is 44 years old. How old is {name}?",
    "I ate two eggs this morning. What did I eat this morning?",
    "The password of the boat is marzipan. What is the password of the boat?",
    "It rains in {city} today. What is the weather in {city} today?",
    "My cat is called {name}. What's the name of my cat?",
)


def refuses(words: frozenset[str], prompt: str) -> Verdict:
    def verdict(answer: Answer) -> str:
        if not is_refusal(answer.text):
            return "does not say that it does not know"
        return unsound(answer, words, prompt)

    return verdict


def answers(answer: Answer) -> str:
    if not answer.text.strip():
        return "empty"
    return "says that it does not know" if is_refusal(answer.text) else ""


def fields(rng: random.Random) -> dict[str, str]:
    pools = {"name": NAMES, "city": CITIES, "thing": THINGS, "year": YEARS, "person": PEOPLE}
    return {name: rng.choice(pool) for name, pool in pools.items()}


def questions(count: int, seed: int, figure: str, words: frozenset[str], *, knowable: bool) -> list[Question]:
    made = []
    for index in range(count):
        rng = random.Random(f"know {knowable} {seed} {index}")
        given = fields(rng)
        if knowable:
            frame = KNOWABLE[index % len(KNOWABLE)]
        elif index % 4 == 3:
            frame = " ".join(ABSENT[index // 4 % len(ABSENT)])
        else:
            frame = UNKNOWABLE[(index - index // 4) % len(UNKNOWABLE)]
        prompt, voice = voiced(frame.format(**given), rng, given.values())
        verdict = answers if knowable else refuses(words, prompt)
        expected = "an answer" if knowable else "does not know"
        made.append(chat(figure, prompt, verdict, max_tokens=60, expected=expected, facts={"voice": voice}))
    return made
