"""Talk: a greeting, thanks, who are you, what can you do, a story, three things, a definition, yes or no.

Every answer must be sound (strangers_rules). Beyond that:
- greeting: begins with a word of greeting, or has an offer of help or a word for how it is; at most 60 words;
- thanks: has a reply to thanks (welcome, pleasure, glad, no problem, any time, happy to help, ...); at most 40 words;
- who are you: says of itself its name (Paceline) or that it is a model, an assistant, a program or an AI; claims no
  human nature and no other maker's name;
- what can you do: names two or more things that it does;
- story: three sentences or more, 25 to 300 words, names the hero that was asked for, and ends with . ! ? or a quote;
- three things: names exactly three different members of the kind that was asked for (lists in strangers_words);
- definition: has one of the marks of the word (strangers_words), and three words or more;
- yes or no: the first clause says yes or no, and rightly. Half of the questions are true.
"""

from __future__ import annotations

import random
import re

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_pictures import yes_or_no
from training.strangers_rules import has_any, split_sentences, unsound
from training.strangers_stated import stated
from training.strangers_voices import terms, voiced
from training.strangers_words import DEFINITIONS, MEMBERS

HEROES = terms(
    """hedgehog, lighthouse keeper, tiny robot, lost umbrella, sleepy dragon, postman, snowman, blind mouse, pirate,
    old clock, brave snail, shy giant, princess, donkey, moon, little fox, baker, tortoise, scarecrow, wizard"""
)
ASKS = {
    "greeting": """Hello!|hi|Hey there, good to see you|Good evening to you.|yo|Greetings, machine!|Hiya, anyone home?|
        Good morning! How are you today?|hallo, how do you do|Hello hello|howdy|Morning.|Hi, I am new here.|
        hey whats up|
        Good afternoon, I hope you are well.|Well hello, it is nice to talk to you.|How's it going?|oi|hello bot""",
    "thanks": """Thank you so much!|thx|Much obliged.|cheers, that helped|Thanks a million, you saved my day.|ty!!|
        I am very grateful for your help.|ok thank you|That was kind of you, thanks.|Thanks, that is all I needed.|
        many thanks|You are a star, thank you.|I appreciate it.|Thank u my friend|Great answer, thanks again""",
    "who": """Who am I talking to?|What are you?|who r u|Tell me your name.|Are you a person or a machine?|
        What is your name, please?|Introduce yourself.|And you are...?|Could you say who you are?|May I know your name?|
        identify yourself|I don't think we have met. Who might you be?|What should I call you?|u a bot?|
        What sort of thing am I chatting with?""",
    "abilities": """What are you able to do?|What can I use you for?|how can you help me|List your skills.|
        What are you good at?|What is it you do, exactly?|what u can do for me|Which tasks can I give you?|
        In what ways might you be of use?|Show me what you can do.|What sort of questions may I put to you?|
        Tell me about your abilities.|help, what is possible here?|what are your features|Why would I need you?""",
    "story": """Tell me a short story about a {h}.|I cannot sleep. A little tale of a {h}, please?|
        write a story. hero: {h}. keep it short|Make up something about a {h} for my kids, just a few lines.|
        Once upon a time there was a {h}. Go on, tell it.|Can you invent a brief story in which a {h} plays a part?|
        short story, {h}, go|Narrate, in a handful of sentences, the adventure of a {h}.""",
    "three": """Name three {k}.|give me 3 {k}|List any three {k} you can think of.|I need three examples of {k}.|
        Three {k}, quickly!|Could you write down three {k}?|which three {k} come to your mind|3 {k} pls|
        For a quiz: three {k}.|My homework says: write three {k}.""",
    "definition": """What does "{w}" mean?|Define {w}.|what is the meaning of {w}|Explain the word {w} to a child.|
        How would a dictionary explain "{w}"?|{w} - definition?|My English is poor. What means {w}?|
        Tell me what the word {w} stands for.|I came across the word "{w}". What is that?|meaning of: {w}""",
}
# What people put around such sentences, so that 100 prompts are not 15.
BEFORE = {
    "who": ("", "", "Just curious: ", "Before we start. ", "By the way, ", "Sorry to ask. ", "One more thing: "),
    "abilities": ("", "", "I am new to this. ", "Somebody told me to try you. ", "So... ", "First things first. "),
}
AFTER = {
    "greeting": ("", "", " my friend", " computer", " :)", "!!", "...", ", lovely day", " Paceline", " again"),
    "thanks": (
        "",
        "",
        " :)",
        " It worked.",
        " You helped me a lot.",
        " My boss will be happy.",
        "!!!",
        " Have a good day.",
    ),
}
HELLO = terms(
    """hello, hi, hey, hiya, good morning, good evening, good afternoon, good day, morning, evening, welcome, greetings,
    nice to, good to see, good to meet, pleased to, howdy, well hello, hey there, oh hello"""
)
OFFERS = terms(
    """how can i help, how may i help, what can i do for you, i am well, i am fine, i'm well, i'm fine, i am good,
    i'm good, doing well, doing fine, very well, fine thank, fine thanks, well thank, well thanks, how are you,
    glad to meet, happy to help, what would you like, can i help, i am here, i'm here, here to help, nice to meet you"""
)
REPLIES = terms(
    """welcome, pleasure, glad, no problem, anytime, any time, happy to, happy that, don't mention it, not at all, of
    course, no worries,
    you too, you are most, my joy, cheers, here to help, good to hear, great to hear, nice to hear, i
    am happy, any other"""
)
KINDS_OF_THING = ["model", "assistant", "program", "ai", "bot", "chatbot", "computer", "machine", "software"]
NOT_ME = ["chatgpt", "openai", "claude", "anthropic", "gemini", "siri", "alexa", "llama", "qwen"] + [
    "i am a human",
    "i am human",
    "i'm human",
]
ABILITIES = {
    "answer": "answer answers question questions reply",
    "pictures": "picture pictures image images see look photo shapes shape colours colors describe",
    "find": "find search look up read text facts document remember notes summarise summarize",
    "talk": "talk chat greet conversation speak hello",
    "stories": "story stories tell poem write",
    "lists": "list lists",
    "tools": "tool tools function functions call calls",
    "json": "json data form structured",
    "sums": "add sum sums count arithmetic numbers calculate math maths subtract multiply",
    "words": "define definition definitions meaning explain words word translate",
}
FIRST = {"messages": [{"role": "user", "content": "Hello! Who are you?"}], "max_tokens": 100}


def options(kind: str) -> list[str]:
    return [option.strip() for option in ASKS[kind].split("|")]


def greets(answer: Answer) -> str:
    if len(answer.text.split()) > 60:
        return "too long for a greeting"
    if has_any(answer.text, OFFERS):
        return ""
    start = " ".join(re.findall(r"[a-z']+", answer.text.lower())[:5])
    greeting = next((word for word in HELLO if re.match(rf"{word}\b(?! (?:is|are|means|was)\b)", start)), "")
    return "" if greeting else "no greeting"


def replies(answer: Answer) -> str:
    if len(answer.text.split()) > 40:
        return "too long for a reply to thanks"
    return "" if has_any(answer.text, REPLIES) else "no reply to thanks"


def says_who(answer: Answer) -> str:
    if has_any(answer.text, NOT_ME):
        return "claims to be another"
    known = "paceline" in answer.text.lower() or has_any(answer.text, KINDS_OF_THING)
    of_itself = has_any(answer.text, ("i", "i'm", "my", "me", "paceline")) or len(answer.text.split()) <= 8
    return "" if known and of_itself else "says neither a name nor what it is"


def says_abilities(answer: Answer) -> str:
    named = [name for name, words in ABILITIES.items() if has_any(answer.text, words.split())]
    return "" if len(named) >= 2 else f"names {len(named)} abilities"


def tells_of(hero: str) -> Verdict:
    def verdict(answer: Answer) -> str:
        text = answer.text.strip()
        noun = hero.split()[-1]
        if not re.search(rf"\b{noun}s?\b", text.lower()):
            return f"no {noun} in it"
        if len(split_sentences(text)) < 3:
            return "fewer than three sentences"
        if not 25 <= len(text.split()) <= 300:
            return f"{len(text.split())} words"
        return "" if re.search(r"[.!?][\"')]*$", text) else "stops in a sentence"

    return verdict


def plural(word: str) -> list[str]:
    ends = [word, word + "s", word + "es"]
    return (
        [*ends, word[:-1] + "ies"] if word.endswith("y") else [*ends, word[:-1] + "ves", word.removesuffix("e") + "en"]
    )


def lists_three(kind: str) -> Verdict:
    def verdict(answer: Answer) -> str:
        members = [name for name in MEMBERS[kind].split() if has_any(answer.text, plural(name))]
        if len(members) != 3:
            return f"{len(members)} {kind}: {', '.join(members)}"
        # A list of single words must have no fourth item that is none of them.
        items = [
            part for part in re.split(r"[,;\n]|\band\b|\d[.)]", answer.text.split(":")[-1]) if re.search(r"\w", part)
        ]
        return "" if len(items) <= 3 or len(split_sentences(answer.text)) > 1 else f"{len(items)} items"

    return verdict


def defines(word: str) -> Verdict:
    marks = DEFINITIONS[word].split()

    def verdict(answer: Answer) -> str:
        said = re.findall(r"[a-z]+", answer.text.lower())
        if len(said) < 3:
            return "too short to define anything"
        said = [one for one in said if one not in (word, word + "s")]
        found = any(one in plural(mark) or (len(mark) > 3 and one.startswith(mark)) for one in said for mark in marks)
        return "" if found else f"none of: {', '.join(marks)}"

    return verdict


def agrees(truth: bool) -> Verdict:
    wanted = "yes" if truth else "no"

    def verdict(answer: Answer) -> str:
        said = yes_or_no(answer.text)
        return "" if said == wanted else f"says {said or 'neither'}, not {wanted}"

    return verdict


def soundly(rule: Verdict, words: frozenset[str], prompt: str) -> Verdict:
    return lambda answer: unsound(answer, words, prompt) or rule(answer)


def make(kind: str, index: int, seed: int, words: frozenset[str], figure: str) -> Question:
    rng = random.Random(f"talk {kind} {seed} {index}")
    keep: tuple[str, ...] = ()
    expected: object = None
    if kind == "yes or no":
        text, truth, keep = stated(rng, index)
        rule, expected = agrees(truth), truth
    else:
        text = options(kind)[index % len(options(kind))]
        if kind == "story":
            expected = HEROES[(index // len(options(kind)) + index) % len(HEROES)]
            rule, keep, text = tells_of(expected), (expected,), text.format(h=expected)
        elif kind == "three":
            expected = list(MEMBERS)[index % len(MEMBERS)]
            rule, keep, text = lists_three(expected), (expected,), text.format(k=expected)
        elif kind == "definition":
            expected = list(DEFINITIONS)[index % len(DEFINITIONS)]
            rule, keep, text = defines(expected), (expected,), text.format(w=expected)
        else:
            rule = {"greeting": greets, "thanks": replies, "who": says_who, "abilities": says_abilities}[kind]
    text = rng.choice(BEFORE.get(kind, ("",))) + text
    tail = rng.choice(AFTER.get(kind, ("",)))
    text = text.rstrip(".!?" if tail[:1] in "!., " and kind == "greeting" and tail else "") + tail
    # A greeting in a grumpy or chatty wrapping would ask for something else.
    only: tuple[str, ...] = ("plain", "lower", "capitals", "typos") if kind in ("greeting", "thanks") else ()
    if kind == "story":
        only = ("plain", "lower", "capitals", "typos", "no articles", "polite")
    prompt, voice = voiced(text, rng, keep, only=only)
    most = 400 if kind == "story" else 120
    verdict = soundly(rule, words, prompt)
    return chat(figure, prompt, verdict, max_tokens=most, expected=expected, facts={"kind": kind, "voice": voice})


def questions(count: int, seed: int, figure: str, words: frozenset[str], kind: str) -> list[Question]:
    return [make(kind, index, seed, words, figure) for index in range(count)]


def first_requests(count: int, figure: str, words: frozenset[str]) -> list[Question]:
    """The README's first request, as it is there: with the model's own sampling."""
    verdict = soundly(says_who, words, "Hello! Who are you?")
    return [Question(figure, FIRST, verdict, "who it is") for _ in range(count)]
