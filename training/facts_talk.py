"""Words, small talk and whole conversations: one function for every kind of exchange (`facts_questions`)."""

from __future__ import annotations

from random import Random

from training import facts
from training.data_chat import Chat, Phrases, Split, Turn, held
from training.facts_questions import (
    Exchange,
    Talk,
    after,
    animal,
    capital,
    category,
    colour,
    count_up,
    define,
    difference,
    draw,
    explain,
    larger,
    money,
    name_some,
    opposite,
    product,
    region,
    small_sum,
    sort,
    story_sum,
    thought_count,
    thought_sum,
)

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
    thing = facts.carried(rng.choice(facts.THINGS))
    place = rng.choice(("forest", "village", "meadow", "valley", "harbor", "garden"))
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
