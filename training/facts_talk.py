"""Everyday questions and their answers: one function for every kind of exchange.

A function draws what it is about, and gives an `Exchange` whose `combination` decides on which side of the split it
is; `draw` asks again until the side is the one that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training import facts
from training.data_chat import Chat, Phrases, Split, Turn, held


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


# -- words

_repeat = Phrases(
    'Repeat after me: "{}"', "Repeat this: {}", "Say exactly this: {}", "Copy this text: {}", "Please repeat: {}",
    'Write "{}" again.', "Echo the following: {}", "Give me back these words: {}", "Type this again, word for word: {}",
)  # fmt: skip


def _words(rng: Random) -> str:
    form = rng.randrange(4)
    if form == 0:
        return " ".join(rng.choices(facts.THINGS + facts.RICH_COLOURS, k=rng.randint(2, 12)))
    if form == 1:
        return " ".join(str(rng.randint(0, 999)) for _ in range(rng.randint(1, 5)))
    if form == 2:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789-", k=rng.randint(4, 12)))
    name, thing, place = rng.choice(facts.NAMES), rng.choice(facts.THINGS), rng.choice(facts.CITIES)
    did, look = rng.choice(("took", "found", "sold", "painted")), rng.choice(facts.RICH_COLOURS)
    return f"{name} {did} the {look} {thing} in {place}"


def repeat(rng: Random, split: Split) -> Exchange:
    text = _words(rng)
    return Exchange(_repeat.pick(rng, split).format(text), text, (text,), short=text)


_bullets = Phrases(
    "Write these as a list: {}", "Make a bullet list of: {}", "Put each on its own line: {}",
    "Turn this into a list: {}",
    "Give me bullets for: {}", "List these line by line: {}",
)  # fmt: skip


def bullets(rng: Random, split: Split) -> Exchange:
    words = rng.sample(facts.THINGS + facts.FOODS + facts.ANIMALS, rng.randint(2, 6))
    answer = "\n".join("- " + word for word in words)
    return Exchange(_bullets.pick(rng, split).format(", ".join(words)), answer, tuple(words), short=answer)


_pick_word = Phrases(
    "What is the {} word in: {}?", "Which word is {} in this list: {}?", "Give me the {} word of: {}",
    "In '{1}', what is the {0} word?",
    "Find the {} word: {}", "Tell me the {} one of these: {}",
)  # fmt: skip


def pick_word(rng: Random, split: Split) -> Exchange:
    words = rng.sample(facts.THINGS, rng.randint(3, 6))
    place = rng.choice((0, 1, 2, -1))
    order = {0: "first", 1: "second", 2: "third", -1: "last"}[place]
    user = _pick_word.pick(rng, split).format(order, " ".join(words))
    return Exchange(user, f"The {order} word is {words[place]}.", (*words, place), short=words[place])


_spell = Phrases("Spell {}.", "How do you spell '{}'?", "Spell the word {} for me.", "Can you spell {}?",
"Please spell {}.",
                 "What letters make up {}?")  # fmt: skip


def spell(rng: Random, split: Split) -> Exchange:
    word = rng.choice(facts.THINGS + facts.ANIMALS + facts.FRUITS)
    return Exchange(
        _spell.pick(rng, split).format(word), "-".join(word).upper(), (rng.random(),), short="-".join(word).upper()
    )


# -- small talk

_greeting = Phrases(
    "Hello!", "Hi", "Hi there!", "Good morning!", "Hey", "Good evening.", "hello", "Hello there", "hi!", "Good day!",
    "Greetings!", "Hey there!",
)  # fmt: skip
_how = Phrases("How are you?", "How are you doing?", "How do you do?", "How is it going?", "Are you well?",
"How are things?",
               "How do you feel today?")  # fmt: skip
_who = Phrases(
    "Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Are you a person?",
    "What model are you?",
    "who are you", "What's your name?", "Are you a robot?", "Introduce yourself.",
)  # fmt: skip
_can = Phrases("What can you do?", "How can you help me?", "What are you good at?", "What can I ask you?",
"Can you help me?",
               "What do you know?", "In what ways can you help?")  # fmt: skip
_thanks = Phrases(
    "Thanks!", "Thank you.", "Thanks a lot!", "Thank you very much.", "thanks", "Great, thanks.", "Many thanks!"
)
_bye = Phrases(
    "Goodbye!", "Bye", "See you later.", "Good night!", "I have to go.", "bye bye", "See you soon!", "That is all, bye."
)
_joke = Phrases("Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny.", "A joke, please.",
                "Can you tell a joke?", "I could use a joke.")  # fmt: skip
_made = Phrases("Who made you?", "Where do you come from?", "Who built you?", "Who trained you?", "How were you made?",
                "Who created you?")  # fmt: skip
WHO = "I am Paceline mini, a very small language model that comes with the Paceline server."
CAN = (
    "I can chat a little, answer questions about a text, find facts, call tools, write JSON, "
    "and look at simple pictures."
)


def small_talk(rng: Random, split: Split) -> Exchange:
    choices = (
        (_greeting, ("Hello! How can I help you?",)),
        (_how, ("I am fine, thank you. How can I help you?",)),
        (_who, (WHO,)),
        (_can, (CAN,)),
        (_thanks, ("You are welcome!",)),
        (_bye, ("Goodbye! Have a nice day.",)),
        (_joke, facts.JOKES),
        (_made, ("I was trained for the Paceline project, as a small model to try the server with.",)),
    )
    phrases, answers = rng.choice(choices)
    return Exchange(phrases.pick(rng, split), rng.choice(answers), (rng.random(),))


_feel = Phrases(
    "I am {} today.", "I feel {}.", "Today I am very {}.", "I'm so {} right now.", "It was a long day and I am {}.",
    "Honestly, I feel {} today.",
)  # fmt: skip
_feelings = {
    "happy": "That is good to hear! What made you happy?",
    "sad": "I am sorry to hear that. Do you want to talk about it?",
    "tired": "Then take some rest. A short walk or a nap can help.",
    "hungry": "Then it is time to eat something. What do you like?",
    "bored": "Maybe read a book, call a friend, or go for a walk.",
    "angry": "I am sorry that you are angry. What happened?",
    "excited": "How nice! What are you excited about?",
    "nervous": "That is normal. Breathe slowly and take one step at a time.",
    "cold": "Put on a warm sweater and have some hot tea.",
    "sick": "I am sorry. Rest, drink water, and see a doctor if it gets worse.",
    "lonely": "I am sorry. Maybe call a friend or someone in your family.",
    "proud": "You can be! What did you do?",
}


def feeling(rng: Random, split: Split) -> Exchange:
    mood, answer = rng.choice(list(_feelings.items()))
    return Exchange(_feel.pick(rng, split).format(mood), answer, (rng.random(),))


_like = Phrases(
    "I like {}.", "I love {}.", "My hobby is {}.", "I enjoy {} a lot.", "{} is my favorite thing.", "I am fond of {}."
)


def liking(rng: Random, split: Split) -> Exchange:
    kind = rng.choice((facts.SPORTS, facts.SUBJECTS, facts.FOODS, facts.INSTRUMENTS))
    word = rng.choice(kind)
    noun = "the " + word if kind is facts.INSTRUMENTS else word
    answer = f"{noun[0].upper()}{noun[1:]} is a nice thing to like! What do you like most about it?"
    return Exchange(_like.pick(rng, split).format(noun), answer, (rng.random(),))


_name_is = Phrases("My name is {}.", "I am {}.", "Hi, I'm {}.", "Call me {}.", "You can call me {}.", "{} is my name.",
                   "People call me {}.")  # fmt: skip


def introduction(rng: Random, split: Split) -> Exchange:
    name = f"{rng.choice(facts.NAMES)} {rng.choice(facts.SURNAMES)}" if rng.random() < 0.5 else rng.choice(facts.NAMES)
    answer = f"Nice to meet you, {name}! How can I help you?"
    return Exchange(_name_is.pick(rng, split).format(name), answer, (name,), short=name)


_story = Phrases(
    "Tell me a story about a {}.", "Write a short story about a {}.", "I want to hear a story with a {} in it.",
    "Please tell a little tale about a {}.", "Make up a story about a {}.", "Can you write a story about a {}?",
    "A story about a {}, please.", "Give me a bedtime story with a {}.",
)  # fmt: skip


def story(rng: Random, split: Split) -> Exchange:
    hero, friend = rng.sample(facts.ANIMALS, 2)
    thing, place = rng.choice(facts.THINGS), rng.choice(("forest", "village", "meadow", "valley", "harbor", "garden"))
    beast, found, other = facts.an(hero), facts.an(thing), facts.an(friend).capitalize()
    answer = (
        f"Once upon a time there was {beast} who lived near a {place}. One day the {hero} found {found} under a tree. "
        f'"Whose {thing} is this?" asked the {hero}. {other} came by and said, "It is mine. Thank you for finding it!" '
        f"From that day on, the {hero} and the {friend} were good friends."
    )
    return Exchange(_story.pick(rng, split).format(hero), answer, (hero, friend, thing, place), short=hero)


TALKS: dict[Talk, float] = {
    capital: 3, region: 1, money: 1, opposite: 2, colour: 1.5, animal: 2, define: 3, explain: 4, category: 2,
    name_some: 1,
    small_sum: 2, difference: 1.5, product: 2, thought_sum: 3, thought_count: 2.5, larger: 2.5, story_sum: 2.5,
    count_up: 2,
    after: 1.5, sort: 1.5, repeat: 4, bullets: 2, pick_word: 2.5, spell: 1, small_talk: 5, feeling: 1, liking: 0.7,
    introduction: 1.2, story: 1.5,
}  # fmt: skip

SYSTEMS = Phrases(
    "You are a helpful assistant.", "You are Paceline mini.", "Answer the user's questions.",
    "You are a friendly assistant.",
    "Be brief.", "You are a helpful assistant. Answer in one or two sentences.", "Help the user.",
    "You are an AI assistant.",
    "Answer politely.", "You answer short questions.", "You are a small and helpful model.",
)  # fmt: skip
SHORT = Phrases("Answer with one word or number only.", "Give only the answer, no sentence.",
"Answer as shortly as possible.",
                "Reply with the bare answer.", "Only the answer, please: no full sentence.",
                "Say just the answer.")  # fmt: skip


NOTHING_TO_THINK = "This is simple. I can answer at once."


def persona(rng: Random, split: Split) -> Chat:
    """The system turn says who speaks; the answer repeats it."""
    while True:
        name, job = rng.choice(facts.NAMES), rng.choice(facts.JOBS)
        if held("persona", name, job) == (split == "held"):
            break
    place = rng.choice(facts.CITIES)
    system = rng.choice(
        (
            f"You are {name}, {facts.an(job)} in {place}.",
            f"Your name is {name}. You work as {facts.an(job)} in {place}.",
        )
    )
    asked = rng.randrange(3)
    user = (_who.pick(rng, split), "What is your job?", "Where do you live?")[asked]
    answer = (f"I am {name}, {facts.an(job)} in {place}.", f"I am {facts.an(job)}.", f"I live in {place}.")[asked]
    turns = [Turn("user", user), Turn("assistant", answer)]
    return Chat(turns, "persona", (name, job), system, expect=(name, job, place)[asked])


def rough(text: str, rng: Random) -> str:
    """As people type: now and then without capitals, without the last mark, or with a please."""
    draw = rng.random()
    if draw < 0.08:
        return text.lower()
    if draw < 0.16:
        return text.rstrip(".?!")
    if draw < 0.2:
        return "Please: " + text
    return text


def dialogue(rng: Random) -> Chat:
    """One of chatterbot-corpus's, as it is."""
    lines = rng.choice(facts.dialogues())
    turns = [Turn("user" if place % 2 == 0 else "assistant", line) for place, line in enumerate(lines)]
    return Chat(turns, "dialogue", (lines[0],), SYSTEMS.pick(rng, "train") if rng.random() < 0.3 else "")


def talk(rng: Random, split: Split, turns: int | None = None) -> Chat:
    """A few exchanges on different things; sometimes the system asks for bare answers."""
    kinds, weights = list(TALKS), list(TALKS.values())
    count = turns or rng.choice((1, 1, 2, 2, 3, 4, 5))
    exchanges = [draw(kind, rng, split) for kind in rng.choices(kinds, weights, k=count)]
    brief = rng.random() < 0.12
    if brief:
        exchanges = [one for one in exchanges if one.short and one.kind not in ("repeat", "bullets")] or [
            draw(capital, rng, split)
        ]
    told: list[Turn] = []
    for one in exchanges:
        told.append(Turn("user", one.user if split == "held" or one.kind == "repeat" else rough(one.user, rng)))
        told.append(Turn("assistant", one.short if brief else one.answer, "" if brief else one.thought))
    # Whether it thinks is the caller's switch; some kinds think, others have nothing to say.
    if rng.random() < 0.5 and split == "train":
        for turn in told[1::2]:
            turn.thought = turn.thought if rng.random() < 0.8 else ""
    elif rng.random() < 0.15 and not brief:
        for turn in told[1::2]:
            turn.thought = turn.thought or NOTHING_TO_THINK
    system = SHORT.pick(rng, split) if brief else SYSTEMS.pick(rng, split) if rng.random() < 0.5 else ""
    last = exchanges[-1]
    return Chat(told, "talk", last.combination, system, expect=last.short or None)
