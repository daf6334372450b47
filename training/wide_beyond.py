"""Requests that so small a model cannot fulfil, in many words, and beside them what it can do, asked for in much the same words.

A request's answer is settled by what is asked for, never drawn: what is beyond it, a translation, large numbers, a tool that is missing.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from training import (
    facts,
    facts_questions,
    facts_talk,
    wide,
    wide_common,
    wide_members,
    wide_more,
    wide_plain,
    wide_talk,
)
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.held_words import fresh
from training.wide_daily import exchange as daily
from training.wide_facts import capital
from training.wide_kinds import kinds
from training.wide_long import system
from training.wide_more import put
from training.wide_own import aside, event, reason, thing
from training.wide_talk import UNKNOWN, lines

ME = "That is beyond me: I am a very small model."
BEYOND = f"{ME} {facts_talk.CAN}"
TALES = f"{ME} I can tell you a short story or a joke."
CODE = f"{ME} I can write JSON and call tools, but no code."
WORDS = f"{ME} I can tell you what a word means."
ENGLISH = "That is beyond me: I am a very small model and know only English."
LARGE = "That is beyond me: I can only do sums with small numbers."
LONG = "That is beyond me: the text is too long. I can look for a fact in it, if you ask me for one."
UNREAD = "That is beyond me: I cannot open it. Give me a few sentences, and I say them in short."
TOOL = "I have no tool for that. If you give me one, I can call it."
DOCTOR, LAWYER, BANK = (f"{ME} Please ask {who}." for who in ("a doctor", "a lawyer", "somebody who knows about money"))
AGAIN = "That is beyond me, too."


@cache
def _members() -> dict[str, list[str]]:
    """All kinds: members as one says them behind a verb."""
    found = {}
    for line in wide_members.KINDS.strip().splitlines():
        names, form, words, *_ = line.split("|")
        plain = [word for word in words.split(",") if not word.startswith(("a ", "the ", "Sign"))]
        found[names.split()[0]] = [facts.an(word) if form == "c" else word for word in plain]
    return found


def _bare(name: str) -> str:
    return name.removeprefix("a ").removeprefix("an ")


def topic(rng: Random) -> str:
    """What something is written about: anything."""
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(TOPICS)
    if draw < 0.5:
        one = rng.choice(_members()[rng.choice(list(_members()))])
        return one if one == _bare(one) else rng.choice((one, facts.plural(_bare(one)), f"my {_bare(one)}"))
    if draw < 0.65:
        return f"the {rng.choice(kinds()[rng.choice(list(kinds()))])}"
    return rng.choice(
        (
            lambda one: f"the {wide.noun(one)}",
            lambda one: facts.an(thing(one)),
            lambda one: facts.plural(thing(one)),
            wide.town,
        )
    )(rng)


TOPICS = lines("""the sea|autumn|love|friendship|the moon|my cat|spring rain|the future|climate change|my mother|winter|the city at night|freedom|a lost key|the first day of school|space travel|the ocean|old age|courage|mountains|coffee|my grandmother|the
French Revolution|hope|summer holidays|a broken heart|dogs|the stars|time|peace|a rainy day|football|robots|the desert|my home town|the Roman Empire|social media|healthy food|recycling|the importance of sleep|remote work|trees|music|being alone""")

# -- how to

DO = {
    "dish": "make|cook|prepare|season|cook enough of", "dessert": "make|bake|decorate|serve", "bread": "bake|make|keep", "cheese": "make|store|melt", "sauce": "make|thicken",
    "vegetable": "grow|peel|roast|cut|keep", "fruit": "peel|grow|store|cut", "flower": "grow|water|press|draw|care for", "tree": "prune|cut down|draw|move",
    "tool": "sharpen|repair|clean|hold|choose", "instrument": "tune|play|learn to play|repair|buy", "vehicle": "repair|drive|park|sell|insure|start", "boat": "sail|build|repair|steer|launch",
    "aircraft": "fly|build|land|draw", "furniture": "build|assemble|paint|repair|move", "garment": "sew|iron|wash|fold|mend", "shoe": "clean|mend|stretch", "toy": "make|build|repair|wrap",
    "appliance": "repair|install|clean|connect|sell", "gadget": "set up|reset|repair|connect|update|turn off", "sport": "get better at|train for|get into", "dance": "learn|teach", "game": "win at|get good at|teach my son",
    "hobby": "get started with|earn money with|get better at", "building": "build|rent out|draw|restore|heat", "component": "replace|clean|test|remove", "fastener": "remove|cut off", "artwork": "make|frame|sell|restore",
    "pet": "train|wash|calm down|travel with", "event": "organize|plan|pay for", "insect": "get rid of|catch|keep away", "hat": "knit|clean|wear", "bag": "pack|mend|clean", "weapon": "clean|draw", 
    "subject": "study|get better at|pass my exam in", "science": "study|get a job in", "language": "get fluent in|write in|type in",
}  # fmt: skip
TASKS = lines("""change a tire|tie a tie|fix a leaking tap|get a red wine stain out|lose weight|get a visa|write a resume|fold a paper plane|unclog a drain|paint a wall|start a business|find a flat|meet new people|make friends|quit smoking|run a marathon|get rid of ants|patch a hole
in the wall|pack for a long trip|get a driving license|change a light bulb|jump start a car|open a bank account|register a company|learn the piano|swim faster|build a bookshelf|cut my own hair|remove a splinter|clean a carpet|cook for ten people|bake without eggs|make pancakes|bake a
birthday cake|roast a chicken|make sushi|fry an egg|cook rice|make pizza dough|poach an egg|make ice cream|brew beer|make jam|knit a sweater|sew a button on|iron a shirt|shine my shoes|start a fire|put up a tent|read a map|survive in the desert|catch a fish|ride a unicycle|do a
handstand|juggle|do a card trick|whistle|beatbox|play chess well|solve a Rubik's cube|draw a face|take better photos|edit a video|start a podcast|write a novel|get over a breakup|talk to my boss|ask for a raise|prepare for a job interview|become a pilot|become rich|get famous|speak in
public|stop being nervous|concentrate better|remember names|get up early|exit vim|install Python|reset my password|undo a git commit|center a div|connect a printer|free up disk space|set up a web server|speed up my laptop|recover a deleted file|block a caller|update my phone|host a
website|train a neural network|deploy a docker container|make a backup|write a shell script|make a spreadsheet|merge two branches|encrypt a file|set up two monitors|raise a puppy|toilet train a toddler|calm a baby|help my son with math|move to another country|buy a house|rent a car in
{t}|get from {t} to {u}|find work in {t}|spend a weekend in {t}|get to the airport in {t}|sell my car|write a will|file my taxes|return a parcel|complain about a bill|cancel a contract|find my lost luggage|grow tomatoes|keep bees|build a treehouse|make soap|make candles|dye a shirt|get
rid of mice|remove rust|sharpen a knife|clean an oven|descale a kettle|get gum out of hair|fold a fitted sheet|wrap a present|tie a bowline|braid hair|shave with a razor|apply makeup|walk in high heels|dance at a wedding|give a toast|plan a funeral|impress a date|write a love letter""")
HOW = lines("""how do I {x}|how do I {x}|how do I {x}|how do I {x}|{x} - how|{x}, how|best way to {x}|tips to {x}|I do not know how to {x}|I cannot {x}, help|please tell me how I can {x}|have you got instructions to {x}|what do people do to {x}|I wonder how to {x}|do you know how to {x}|how can I {x}|how do you {x}|how to {x}|how would I {x}|how should I {x}|how does one {x}|how do people {x}|what is the best way to {x}|what's the easiest way to {x}|explain how to {x}|tell me how to {x}|teach me how to {x}|show me how to {x}|give me instructions to
{x}|step by step, how do I {x}|I want to {x}. What do I do first|steps to {x}|what are the steps to {x}|can you help me {x}|help me {x}|could you teach me to {x}|guide me: I have to {x}|I never learned to {x}, how does it go|any tips to {x}|is there a trick to {x}|write a tutorial on how to {x}|a guide to
{x}|can you show me how to {x}|I would like to {x}, how do I begin|what should I do to {x}|how would you {x}|how do I go about it if I want to {x}|instructions, please: how to {x}|what's the secret if you want to {x}|walk me through how to {x}|how exactly do I {x}|I need advice on how to {x}""")


def _act(rng: Random) -> str:
    if rng.random() < 0.45:
        return rng.choice(TASKS).format(t=wide.town(rng), u=wide.town(rng))
    kind = rng.choice(list(DO))
    return f"{rng.choice(DO[kind].split('|'))} {rng.choice(_members()[kind])}"


def how_to(rng: Random) -> Exchange:
    return Exchange(rng.choice(HOW).format(x=_act(rng)), BEYOND, ())


RECIPES = lines("""give me a recipe for {d}|recipe for {d}|{d} recipe|I need a recipe for {d}|do you have a recipe for {d}|what is a good recipe for {d}|share your best recipe for {d}|how is {d} prepared|ingredients for {d}|list the ingredients of {d}|how long does {d} take in the oven|write down a recipe for {d}|how much sugar goes
into {d}|what can I cook with {v} and {w}|I have {v} and {w}, what can I cook|a quick dinner with {v}|what should I cook tonight|suggest a dinner for {n} people|find me a vegan version of {d}|what goes well with {d}|how many calories are in {d}|plan my meals for the week|an easy {d} recipe|how does my grandma make {d}|I'd like to make {d}, which ingredients do I take|my oven is broken, can I make {d} in a pan|how do I make {d}|how do you make {d} at home|can you give me a simple recipe for {d}|tell me the recipe of {d}|help me cook {d}|cook me {d}""")
DISHES = lines("""pancakes|waffles|apple pie|banana bread|pizza|spaghetti|tomato soup|chicken curry|fried rice|meatballs|potato salad|pumpkin soup|chocolate cake|brownies|muffins|scrambled eggs|an omelette|hummus|guacamole|tacos|burgers|mashed potatoes|onion soup|french fries|cookies|sushi|dumplings|chili|fish
pie|a birthday cake|lentil soup|beef stew|crepes|pad thai|falafel|a roast|bread rolls|cupcakes|granola|lemon cake""")


def recipe(rng: Random) -> Exchange:
    dish = rng.choice(DISHES) if rng.random() < 0.5 else rng.choice(_members()[rng.choice(("dish", "dessert"))])
    one, other = (
        facts.plural(word)
        for word in rng.sample(
            lines("carrot|leek|turnip|cabbage|pumpkin|onion|egg|mushroom|bean|apple|pepper|lentil|beet|lemon|nut"), 2
        )
    )
    return Exchange(
        rng.choice(RECIPES).format(d=dish, v=one, w=other, n=rng.choice(("two", "four", "six", "12"))), BEYOND, ()
    )


# -- code

CODES = lines("""{l} {y}|{y} {l}|{y} in {l}|{l} code that {x}|{l} function that {x}|write a {l} function that {x}|write {l} code that {x}|write a {l} program that {x}|a {l} script that {x}|can you write a function in {l} which {x}|implement {y} in {l}|code {y} in {l}|show me {y} in {l}|how do I write {y} in {l}|I need {l} code for {y}|give me a {l} example of {y}|fix my {l} code|debug this
{l} program|why does my {l} code not work|what does this code do: {s}|explain this code: {s}|fix this: {s}|there is a bug in {s}|refactor this {l} function|translate this from {l} to {m}: {s}|write unit tests for {y}|write a SQL query that selects all {n}s|a regex that matches {r}|write a regular expression for {r}|make a web
page with a {n} in HTML|build an app for {n}s|create a website for my {n} shop|write a bash script that {x}|program {y}|write a class {N} in {l}|convert this {l} code to {m}|how do I sort a list in {l}|how do I read a file in {l}|write me a small {l} game|generate a Dockerfile for a {l} project|write a Makefile|how can I
parse JSON in {l}|please code a {n} in {l}|what is wrong with {s}|optimize {s}|review my {l} code|set up my {l} project|write a for loop in {l}|hello world in {l}|print the numbers up to ten in {l}""")
LANGUAGES = lines("python|Python|Java|JavaScript|C|C++|Rust|Go|TypeScript|Ruby|PHP|Swift|Kotlin|Haskell|bash|R|Perl|C#")
PROGRAMS = lines("""adds two numbers|reverses a string|counts the words of a text|sorts a list|finds the largest number|reads a CSV file|renames all files in a folder|downloads a web page|checks if a number is prime|computes factorials|prints the Fibonacci numbers|removes duplicates|sends an email|connects to a database|draws a
circle|converts Celsius to Fahrenheit|plays tic-tac-toe|parses a date|finds a word in a file|returns the sum of a list|multiplies two matrices|merges two lists|guesses a number|counts vowels|makes a backup|logs in to a server|shuffles cards|checks a password|swaps two variables|resizes an image""")
ALGORITHMS = lines(
    """quicksort|bubble sort|binary search|a linked list|a hash map|a calculator|a to-do list|a web server|a stopwatch|Dijkstra's algorithm|a binary tree|a chat program|snake|Tetris|a login page|a REST API|merge sort|a priority queue|fizzbuzz|a decorator|a neural network|an LRU cache|a parser|a timer|a web scraper"""
)
SNIPPETS = lines(
    """for i in range(10) print(i)|def f(x): return x * x|x = [i for i in items if i]|while True: pass|int main() {{ return 0; }}|console.log(a + b)|SELECT * FROM users|if x = 3: print(x)|let y = x ?? 0;|print('hello' + 5)|a, b = b, a|fn main() {{ println!("hi"); }}|import os; os.listdir('.')|lambda x: x + 1|return foo(bar"""
)
MATCHED = lines(
    "an email address|a phone number|a date|a postal code|a URL|an IP address|words in capitals|a hex color"
)


def code(rng: Random) -> Exchange:
    one, other = rng.sample(LANGUAGES, 2)
    text = rng.choice(CODES).format(
        l=one, m=other, x=rng.choice(PROGRAMS), y=rng.choice(ALGORITHMS), s=rng.choice(SNIPPETS).replace("{{", "{").replace("}}", "}"),
        n=thing(rng), N=capital(_bare(rng.choice(_members()["animal"]))), r=rng.choice(MATCHED),
    )  # fmt: skip
    return Exchange(text, CODE, ())


# -- texts

FORMS = lines("""a poem|a poem|a short poem|a haiku|a haiku|a sonnet|a limerick|a song|a rap|an essay|an essay|a short essay|an article|a blog post|a speech|a report|a rhyme|a ballad|lyrics|a newspaper article|a rhyming poem|a love poem|an ode|a screenplay|a term paper|a thesis|a presentation|a sermon|a tweet|a product description|a press
release|a 500 word essay|two pages|a book|a chapter|a review|a slogan|an advertisement|a monologue|a lullaby|a poem of four lines|five paragraphs""")
WRITE = lines("""write {f} about {t}|write {f} about {t}|write {f} about {t}|write {f} on {t}|write me {f} about {t}|{f} about {t}|{f} about {t}, please|can you write {f} about {t}|compose {f} about {t}|I need {f} about {t}|could you compose {f} on {t}|give me {f} about {t}|please write {f} about {t}|make {f} about {t}|I want {f} about {t}|help me write {f} about {t}|my homework is
{f} about {t}|I have to write {f} about {t}, please do it|create {f} on the subject of {t}|would you write {f} for my class about {t}|draft {f} about {t}|think up {f} about {t}|produce {f} on {t}|let me have {f} about {t}""")
LETTERS = lines("""write an email to my {k} about {t}|write a letter to {p}|write a cover letter for a job as {j}|draft a reply to my {k}|write an apology to my {k}|write a birthday card for {p}|write a complaint about my {n}|write a wedding speech for my {k}|improve my text|rewrite this more politely: I want my {n} back|make this sound better: the {n} is
not good|correct my essay|proofread my letter|check my grammar: she go to {u} yesterday|rephrase this: {p} sold the {n}|write a job ad for {j}|write my resume|write a reference for {p}|write an invitation to my party|write a thank you note to {p}|finish my novel|continue my text|paraphrase: the {n} was found in {u}|write a dialogue between {p}
and {q}|write a letter of resignation|write a post for my blog|make my sentence longer: the {n} fell|write a eulogy for my {k}|write a toast for {p}|write a text message to my {k}|write a bio for me""")


def text(rng: Random) -> Exchange:
    if rng.random() < 0.7:
        return Exchange(rng.choice(WRITE).format(f=rng.choice(FORMS), t=topic(rng)), TALES, ())
    asked = rng.choice(LETTERS).format(
        k=rng.choice(wide_talk.KIN), t=topic(rng), p=wide.first_name(rng), q=wide.first_name(rng), j=facts.an(rng.choice(facts.JOBS)), n=thing(rng), u=wide.town(rng)
    )  # fmt: skip
    return Exchange(asked, BEYOND, ())


# -- other languages

TONGUES = lines(
    "French|French|German|German|Spanish|Spanish|Italian|Portuguese|Japanese|Chinese|Russian|Arabic|Dutch|Polish|Korean|Turkish|Greek|Latin|Swedish|Hindi|Finnish|Czech|Norwegian|Hungarian|Welsh|Swahili"
)
TRANSLATE = lines("""{x} in {l}|{l} for {x}|{l} for {n}|translate '{x}' to {l}|translate "{x}" into {l}|translate {x} to {l}|translate into {l}: {x}|translate to {l}: {x}|how do you say '{x}' in {l}|how do I say {x} in {l}|what is '{x}' in {l}|what's "{x}" in {l}|'{x}' in {l}|say '{x}' in {l}|say {x} in {l}|what is the {l} word for {n}|what does one call a {n} in {l}|can you translate this
to {l}: {x}|please translate the sentence '{x}' into {l}|I need this in {l}: {x}|the {l} for '{x}'|{l} translation of '{x}'|put this into {l}: {x}|how do people say {x} in {l}|give me the {l} word for {n}|speak {l} with me|answer in {l}|can you speak {l}|do you speak {l}|teach me some {l}|translate my letter to {l}|write that in {l}|what is
{n} in {l}|translate the word {n} into {l}|render '{x}' in {l}|{x} - now in {l}, please""")
SAID = lines("""good morning|good night|thank you|I love you|where is the station|how are you|the book is on the table|my name is {p}|see you tomorrow|happy birthday|I am hungry|how much is it|I do not understand|a cup of coffee, please|nice to meet you|the cat sleeps|excuse me|hello|goodbye|yes|no|the weather is nice|I live in {t}|help me|one
beer, please|I would like to pay|the {n} is broken|we need a {n}|I lost my {n}|where can I buy a {n}|{p} is my friend|the train is late|have a nice day|I am from {t}|do you speak English|what time is it|merry Christmas|good luck|the {n} of {p}|my {k} is ill|the dog barks""")


def translation(rng: Random) -> Exchange:
    said = rng.choice(SAID).format(p=wide.first_name(rng), t=wide.town(rng), n=thing(rng), k=rng.choice(wide_talk.KIN))
    return Exchange(rng.choice(TRANSLATE).format(x=said, l=rng.choice(TONGUES), n=thing(rng)), ENGLISH, ())


# -- hard subjects

HARD = lines("""quantum computing|quantum mechanics|general relativity|string theory|blockchain|machine learning|deep learning|neural networks|the theory of relativity|black holes|dark matter|the big bang|evolution|natural selection|DNA replication|CRISPR|the immune system|nuclear fusion|nuclear power|thermodynamics|entropy|the stock
market|inflation|game theory|calculus|linear algebra|differential equations|topology|number theory|Bayes' theorem|statistics|cryptography|public key encryption|operating systems|compilers|garbage collection|distributed systems|the CAP theorem|transformers in machine learning|the attention mechanism|large language
models|backpropagation|reinforcement learning|recursion|object-oriented programming|functional programming|microservices|Kubernetes|TCP/IP|the French Revolution|the First World War|the Cold War|the fall of Rome|the Renaissance|the causes of World War II|the American Civil War|colonialism|capitalism|communism|Marxism|existentialism|Kant's
philosophy|Plato's Republic|Stoicism|utilitarianism|the meaning of life|consciousness|free will|psychoanalysis|Freud|cognitive biases|macroeconomics|supply and demand|monetary policy|the European Union|the US constitution|the history of {c}|the politics of {c}|the economy of {c}|climate change|the greenhouse
effect|plate tectonics|the carbon cycle|organic chemistry|the periodic table|chemical bonds|enzymes|the Krebs cycle|mitosis|genetics|the nervous system|music theory|counterpoint|impressionism|Shakespeare's sonnets|Hamlet|the rules of cricket|the offside rule|chess openings|the tax system|mortgages|insurance|
cryptocurrency|bitcoin mining|the Higgs boson|superconductors|semiconductors|lasers|radio waves|relativity|wave functions|Fourier transforms|the Riemann hypothesis|Godel's theorem|the halting problem|P versus NP""")
EXPLAIN = lines("""explain {h}|explain {h}|explain {h} to me|explain {h} in detail|can you explain {h}|please explain {h}|teach me {h}|give me an introduction to {h}|give me an overview of {h}|tell me everything about {h}|I have an exam on {h}, help me|help me understand {h}|what are the main ideas of {h}|compare {h} and {g}|what is the difference
between {h} and {g}|discuss {h}|I don't get {h}|lecture me on {h}|explain {h} like I am five|explain {h} in simple terms|break down {h} for me|tell me why people study {h}|write about {h}|talk about {h}|what do you think about {h}|let us discuss {h}|summarize {h}|the basics of {h}|how are {h} and {g} related|I want to learn about {h}|could you
describe {h}|analyze {h}|what should I read about {h}|prove to me that you understand {h}|quiz me on {h}|give me a lesson on {h}""")
WORKS = lines(
    "vaccines work|the internet works|elections work in {c}|the brain works|a jet engine works|a microwave works|GPS works|a transistor works|a car engine works|money is made|the stock market works|memory works|a computer chip is made|a nuclear reactor works|languages change|stars are born|a search engine works"
)
MACHINES = lines(
    "how does {a} work|explain how {a} works|what happens inside {a}|what is the principle of {a}|tell me how {a} works"
)


@cache
def subjects() -> list[str]:
    """Those that no dictionary of ours explains: the others are asked for as words."""
    explained = {word for word, *_ in (*facts.definitions(), *wide_talk._meanings())} | wide_talk.plain_words()
    return [one for one in HARD if one not in explained]


def hard(rng: Random) -> Exchange:
    if rng.random() < 0.12:
        machine = rng.choice(
            _members()[rng.choice(("appliance", "gadget", "aircraft", "component", "instrument", "vehicle"))]
        )
        return Exchange(rng.choice(MACHINES).format(a=machine), WORDS, ())
    if rng.random() < 0.1:
        form = rng.choice(
            lines(
                "explain how {w}|tell me how {w}|I want to know how {w}|do you know how {w}|can you explain how {w}|in detail, how is it that {w}"
            )
        )
        return Exchange(form.format(w=rng.choice(WORKS).format(c=rng.choice(facts.countries())[0])), WORDS, ())
    one, other = (each.format(c=rng.choice(facts.countries())[0]) for each in rng.sample(subjects(), 2))
    return Exchange(rng.choice(EXPLAIN).format(h=one, g=other), WORDS, ())


# -- plans and choices

PLANS = lines("""plan a trip to {t}|plan my weekend in {t}|make a plan for my {e}|make a schedule for my week|give me a workout plan|write a diet plan for me|design a training plan for a marathon|plan a party for {n} people|make a budget for me|make a to-do list for my move to {t}|organize my {e}|what should I wear to {e2}|what should I buy my {k} for
Christmas|which phone should I buy|which laptop is the best|recommend a good book|recommend a film for tonight|recommend a restaurant in {t}|suggest a name for my {pet}|suggest a gift for my {k}|what should I do with my life|should I quit my job|should I marry {p}|should I move to {t}|which college should I choose|help me decide between {t} and
{u}|what should I see in {t}|plan a route from {t} to {u}|where should I go on holiday|how should I spend my summer|which job suits me|what should I study|give me dating advice|how do I win {p} back|solve my problem with my {k}|find a slogan for my {noun} shop|come up with a business idea|write a marketing plan for {noun}s|give me ideas for a
science project|make a study plan for my exam|coach me|be my therapist|play chess with me|let's play hangman|play twenty questions with me|pretend to be a pirate|act as a job interviewer|draw a {noun}|draw me a picture of {t}|paint a {noun}|make an image of a {noun}|create a logo for {p}'s shop|generate a photo of a {noun}|sing a song|compose a
melody|do my homework|solve this riddle for me|write my exam|rate my essay|predict the next election|interpret my dream about a {noun}|read my palm|what does my name mean|analyze this data set|make a chart of my sales|grade my students' tests|describe the plot of a film about {t}|invent a new language|design a house for me""")


def plan(rng: Random) -> Exchange:
    event = _bare(rng.choice(_members()["event"]))
    asked = rng.choice(PLANS).format(
        t=wide.town(rng), u=wide.town(rng), e=event, e2=facts.an(event), n=rng.randint(5, 40), k=rng.choice(wide_talk.KIN[:12]), p=wide.first_name(rng),
        pet=_bare(rng.choice(_members()["pet"])), noun=thing(rng),
    )  # fmt: skip
    return Exchange(asked, BEYOND, ())


# -- advice that others give

HEALTH = lines("""what medicine should I take for {i}|what helps against {s}|how do I treat {i}|how do I cure {i}|I have {s}. What should I do|is {s} dangerous|do I have {i}|can I take {m} with {o}|how much {m} should I take|my child has {s}, is that serious|my {k} has {i}, what can I do|should I see a doctor about {s}|what are the side effects of
{m}|is it safe to take {m}|what causes {i}|I think I have {i}. What now|give me medical advice about {s}|how do I get rid of {s}|my {b} hurts. What is it|what is wrong with my {b}|diagnose me: {s} and {r}|which pills are good for {i}|I have had {s} for three days, what is that|how long does {i} last|can I go to work with {i}""")
LAW = lines("""can I sue my {k}|is it legal to {x}|am I allowed to {x}|what is the penalty for {c}|write a contract for me|draft a rental contract|what does the law say about {c}|do I need a lawyer|I was accused of {c}. What should I do|can my landlord throw me out|how do I get a divorce|what are my rights at work|can my boss read my emails|give me legal advice about
{c}|how do I appeal a fine|is {c} a crime in {n}|can I get my money back by law|how long do you go to prison for {c}|who inherits my house|what must be in a will|is this contract valid|how do I copyright my {t}|do I have to pay the fine|explain the terms of this contract""")
MONEY = lines("""should I buy {a}|should I sell {a}|is now a good time to buy {a}|how should I invest {n} dollars|where do I invest {n} euros|which stocks should I buy|give me financial advice|how do I get out of debt|how much tax do I have to pay on {n} euros|should I take out a loan|is {a} a good investment|how do I double my money|can I retire at {y}|which
bank is the best|will {a} go up|what should I do with {n} dollars|how much house can I afford|is it smart to put all my money in {a}|pick a stock for me|calculate my mortgage for {n} euros over {y} years|how do I build wealth|should I lend my {k} {n} euros""")
ASSETS = lines(
    "gold|bitcoin|Apple shares|a house|silver|oil|dollars|bonds|an index fund|land|art|tech stocks|yen|a flat"
)
ALLOWED = lines(
    "record a phone call|fly a drone in a park|camp in the forest|drive without shoes|copy a film|keep a wolf|work on Sundays|smoke in a car|sell homemade jam|park here|download music|cut down my own tree|open my neighbor's mail|fish without a license"
)


def advice(rng: Random) -> Exchange:
    draw, kin = rng.randrange(3), rng.choice(wide_talk.KIN[:12])
    if draw == 0:
        drug, more = rng.sample(_members()["medicine"], 2)
        one, other = rng.sample(SYMPTOMS, 2)
        asked = rng.choice(HEALTH).format(
            i=rng.choice(_members()["illness"]),
            s=one,
            r=other,
            m=drug,
            o=more,
            k=kin,
            b=_bare(rng.choice(_members()["body_part"])),
        )
        return Exchange(asked, DOCTOR, ())
    if draw == 1:
        asked = rng.choice(LAW).format(
            k=kin,
            x=rng.choice(ALLOWED),
            c=rng.choice(_members()["crime"]),
            n=rng.choice(facts.countries())[0],
            t=rng.choice(("song", "book", "logo", "photo")),
        )
        return Exchange(asked, LAWYER, ())
    asked = rng.choice(MONEY).format(
        a=rng.choice(ASSETS),
        n=rng.choice((500, 1000, 2500, 10000, 50000, 200000)),
        y=rng.choice((20, 25, 30, 40, 50)),
        k=kin,
    )
    return Exchange(asked, BANK, ())


SYMPTOMS = lines(
    "a fever|a rash|dizziness|a sore throat|back pain|a cough|a headache|a swollen knee|stomach ache|red eyes|chest pain|a toothache|an earache"
)

# -- what needs a tool

ACTS = lines("""remind me to call {p} {w}|set a reminder for {w}|set an alarm for {h}|wake me at {h}|set a timer for {m} minutes|send an email to {p}|send a message to my {k}|call {p}|text my {k} that I am late|book a table for {m} at {h}|book a flight to {t}|order a pizza|order a new {n}|buy a {n} for me|play some music|play the song of {p}|turn off the
lights|turn up the heating|open the file {f}|read the file {f}|delete {f}|save this to {f}|list the files in my folder|rename {f}|open the website of {p}|go to www.{s}.com|browse to {s}.org|search the web for {n}s|google {n}|search online for a {n}|find the cheapest flight from {t} to {u}|find a hotel in {t}|show me the latest news|read me the
news|check my email|check the weather in {t}|check the price of {a}|check my calendar|add {n}s to my shopping list|put the meeting with {p} into my calendar|cancel my appointment {w}|take a photo|take a screenshot|print this page|translate this PDF file|download the {n} app|install the update|restart the computer|connect to the wifi|run this
program|run my tests|query the database|post this on my page|pay my bill|transfer {m} euros to {p}|call a taxi to {t}|navigate to {t}|show me the way to {t}|track my parcel|start the washing machine|lock the front door|record my voice|show me a picture of a {n}|show me a map of {t}|find a video about {n}s|subscribe me to the newsletter|fetch
the page {s}.com/{s}|get me the stock chart of {a}|log me in|upload {f}|watch my inbox|mute my phone|buy tickets for {t}""")
LIVE = lines("""what is the price of {a} now|how much is {a} today|what is in the news today|what happened in {t} today|who won the game last night|what is the exchange rate of the euro today|how is the weather in {t} right now|when is the next train to {t}|is the shop in {t} open now|what is the traffic like in {t}|how much is a flight to {t}|what is
the top story today|what are people saying about {t} today|which films are on in {t} tonight|what is the stock price of {p}'s company|who is leading in the polls right now|what does a {n} cost at the moment|how high is the rent in {t} these days""")


def act(rng: Random) -> Exchange:
    live = rng.random() < 0.22
    asked = rng.choice(LIVE if live else ACTS).format(
        p=wide.first_name(rng), w=rng.choice(("tomorrow", "on Friday", "at noon", "tonight", "next week", "in an hour")), h=rng.choice(("7", "six", "8 am", "6:30", "noon")), m=rng.randint(2, 60),
        k=rng.choice(wide_talk.KIN[:12]), n=thing(rng), s=wide.noun(rng), f=wide.path(rng), t=wide.town(rng), u=wide.town(rng), a=rng.choice(ASSETS),
    )  # fmt: skip
    return Exchange(asked, UNKNOWN if live else TOOL, ())


# -- large numbers

LARGE_SUMS = lines("""what is {x} times {y}|{x} * {y}|{x} x {y}|multiply {x} by {y}|how much is {x} times {y}|calculate {x} * {y}|what is {X} plus {Y}|{X} + {Y}|add {X} and {Y}|{X} - {Y}|what is {X} minus {Y}|{X} / {y}|divide {X} by {y}|what is {x} to the power of {z}|{x}^{z}|what is the square root of {X}|sqrt({X})|the cube root of {X}|what is {z}.{x} percent
of {X}|{z}% of {X}|what is the factorial of {x}|{x}!|is {X} a prime number|factor {X}|list the prime factors of {X}|convert {X} to binary|write {X} in hexadecimal|the logarithm of {X}|what is sin({x})|the first {x} digits of pi|solve x^2 + {x}x + {y} = 0|solve {x}x + {y} = {X}|integrate x^{z}|the derivative of x^{z} + {x}x|the greatest common divisor of
{X} and {Y}|work out ({x} + {y}) * {x}|evaluate {x} * {y} + {X}|what is {X} mod {x}|the average of {x}, {y} and {X}|compound interest on {X} at {z} percent for {z} years|how many seconds are in {x} years|convert {X} miles to kilometers|count to {X}|count to a million|sum of all numbers from 1 to {X}""")


def large(rng: Random) -> Exchange:
    low, high = rng.choice(((123, 999), (1000, 9999), (10_000, 99_999)))
    x, y = rng.randint(low, high), rng.randint(low, high)
    many, more = sorted((rng.randint(10_000, 9_999_999), rng.randint(10_000, 9_999_999)), reverse=True)
    return Exchange(rng.choice(LARGE_SUMS).format(x=x, y=y, X=many, Y=more, z=rng.randint(3, 9)), LARGE, ())


# -- long texts

SUM_UP = lines(
    "summarize: {t}|summarize this text: {t}|sum this up: {t}|give me a summary of this:¶{t}|summarize the following.¶¶{t}|{t}¶¶Summarize this.|{t}¶¶Please sum it up.|TL;DR: {t}|in one sentence: {t}|make this shorter:¶¶{t}|what are the main points here?¶¶{t}|shorten this: {t}|key points of this text: {t}"
)
UNSEEN = lines("""summarize the book "{b}"|summarize the attached file|sum up this article: https://{s}.com/{s}|summarize the report {f}|what is this video about: https://{s}.tv/{m}|read {f} and tell me what it says|summarize the last meeting|give me a summary of the film "{b}"|sum up chapter {m} of my book|summarize my emails|what does the article on {s}.org
say|tl;dr of https://{s}.net|summarize the page {s}.com for me|condense the PDF I sent you|give me the key points of the attached document""")


def long_text(rng: Random) -> Exchange:
    if rng.random() < 0.35:
        asked = rng.choice(UNSEEN).format(
            b=capital(wide.phrase(rng)), s=wide.noun(rng), f=wide.path(rng), m=rng.randint(2, 99)
        )
        return Exchange(asked, UNREAD, ())
    told = " ".join(event(rng)[0] + (f" {aside(rng)}" if rng.random() < 0.4 else "") for _ in range(rng.randint(7, 14)))
    return Exchange(capital(rng.choice(SUM_UP).format(t=told).replace("¶", "\n")), LONG, ())


# -- all of it

KINDS: dict[Callable[[Random], Exchange], float] = {
    how_to: 6, recipe: 3, code: 4, text: 4, translation: 3, hard: 4, plan: 3, advice: 2.5, act: 3.5, large: 2, long_text: 1,
}  # fmt: skip
RAW = (translation, code, large, long_text)  # what a change of letters would spoil
CONTEXT = lines("""I have guests tonight.|My boss wants it by noon.|I am in a hurry.|It is for school.|I have tried everything.|I am a beginner.|My {k} asked me about it.|We live in {t}.|I am new here.|It is my first time.|I have no idea where to begin.|My name is {p}.|It is {d} today.|I could not find it in any book.|My teacher says it is easy.|I am at
work right now.|You are smart, right?|I heard that you know everything.|This is important.|Let me ask you something else.|I am bored.|I am writing from {t}.|I lost my notes.|Somebody told me to ask you.|I really need your help.|Tomorrow is {d}.|My {k} and I had a talk about it.|Here is a task for you.|Hello!|Good morning!|Thanks for that.""")


def beyond(rng: Random) -> Exchange:
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    one = kind(rng)
    asks = one.user.startswith(
        (
            "how",
            "what",
            "which",
            "is ",
            "can ",
            "could",
            "do ",
            "should",
            "where",
            "who",
            "why",
            "will",
            "am ",
            "any ",
            "would",
        )
    )
    if kind in RAW:
        user = (
            one.user
            if "\n" in one.user or one.user[-1] in ".?!)" or rng.random() < 0.4
            else one.user + ("?" if asks else ".")
        )
        user = f"{rng.choice(wide_more.BEFORE)} {user}" if rng.random() < 0.15 and "\n" not in user else user
        user = capital(user) if rng.random() < 0.7 else user
    else:
        user = put(one.user, rng, ("?", "?", "?", "") if asks else (".", ".", "", "!", "?"))
    if rng.random() < 0.15:
        before = rng.choice(CONTEXT).format(
            k=rng.choice(wide_talk.KIN[:12]), t=wide.town(rng), p=wide.first_name(rng), d=rng.choice(facts.DAYS)
        )
        user = f"{before} {user}"
    return Exchange(user, one.answer, ())


# -- what it can do, in words like those


KNOWN = lines("gravity|photosynthesis|democracy|electricity|recycling")


def how_known(rng: Random) -> Exchange:
    """The few how-tos and subjects that it has an answer for, asked for like those that are beyond it."""
    if rng.random() < 0.7:
        clause = rng.choice([one for one in facts.EXPLANATIONS if one.startswith("how to ")])
        text = rng.choice(HOW).format(x=clause.removeprefix("how to ").replace("your", "my"))
    else:
        subject = rng.choice(KNOWN)
        clause, text = (
            f"what {subject} is",
            rng.choice([one for one in EXPLAIN[:8] if "{g}" not in one]).format(h=subject),
        )
    return Exchange(put(text, rng), facts.EXPLANATIONS[clause], ())


def opposite(rng: Random) -> Exchange:
    one = facts_questions.opposite(rng, "train")
    return Exchange(one.user, one.answer, ())


CAN: dict[Callable[[Random], Exchange], float] = {
    wide_common.known: 4, wide_common.told: 1.2, wide_talk.story: 1.3, wide_more.define: 3, wide_plain.define: 2, wide_talk.define: 1.5, wide_plain.three: 2.5, wide_talk.three: 1.5, wide_talk.joke: 1.2, wide_talk.arithmetic: 2,
    wide_more.word_sum: 1.2, wide_talk.stated: 2.5, opposite: 1.5, reason: 4, how_known: 3, daily: 5, wide_talk.can: 0.5, wide_talk.greet: 0.5,
}  # fmt: skip


def can(rng: Random) -> Exchange:
    return rng.choices(list(CAN), list(CAN.values()))[0](rng)


AFTER: dict[str, list[str]] = {
    "I am a very small model, and I did not learn that.": lines("why|why not|how come|why can't you|why is that|really|what is the problem|but why|why can you not do that|are you sure"),
    "I am sorry. I would only make something up.": lines("please try|just try|try anyway|come on|do it anyway|I need it|at least try|give it a try|please|you can do it|just a little|make an effort"),
    facts_talk.CAN: lines("what can you do then|so what can you do|then what can you do|what else can you do|what are you good for then|what should I ask then"),
    "Good. Is there anything else I can do for you?": lines("ok|okay|never mind|alright|no problem|fine|I see|that's fine|fair enough|too bad|what a pity"),
}  # fmt: skip


def draw(rng: Random) -> Chat:
    """One to four exchanges, of what is beyond it and of what is not."""
    turns: list[Turn] = []
    refused = False
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        one = fresh(beyond if rng.random() < 0.5 else can, rng)
        answer = (
            AGAIN if refused and one.answer.startswith(ME) and one.answer not in (DOCTOR, LAWYER, BANK) else one.answer
        )
        turns += [Turn("user", one.user), Turn("assistant", answer)]
        refused = refused or answer.startswith(ME)
        if answer.startswith(ME) and rng.random() < 0.15:
            after = rng.choice(list(AFTER))
            said = rng.choice(AFTER[after])
            mark = (
                rng.choice(("?", ""))
                if said.split()[0] in ("why", "how", "what", "really", "are", "so", "then", "but")
                else rng.choice((".", "", "!"))
            )
            turns += [Turn("user", (capital(said) if rng.random() < 0.7 else said) + mark), Turn("assistant", after)]
    return Chat(turns, "wide_beyond", (), system(rng) if rng.random() < 0.25 else "", expect=None)
