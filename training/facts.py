"""What the chats are about: words, names and simple truths, written for this project."""

from __future__ import annotations

import json
from functools import cache

from training.sources import records


def words(text: str) -> list[str]:
    return text.split()


NAMES = words("""Ada Ben Carla David Elena Farid Grace Hugo Ines Jonas Karin Liam Maria Nadia Omar Paula Quentin Rosa
Samir Tessa Umar Vera Wendy Xavier Yara Zoe Anton Bella Cyrus Dora Emil Fiona Gustav Hanna Igor Julia Kofi Lena Marco
Nora Oscar Petra Ravi Sofia Tomas Ursula Victor Walter Yusuf Alice Bruno Clara Diego Edith Felix Greta Henrik Iris
Jacob Klara Leo Mira Nils Olga Pablo Rita Stefan Tara Viktor Willa Aisha Boris Chloe Dmitri Esther Frank Gina Harold
Ivy Jamal Kate Lucas Mona Neil Opal Pedro Ruth Simon Tina Vivian""")
SURNAMES = words("""Adler Baker Costa Duarte Ekman Fischer Garcia Hansen Ivanov Jensen Keller Lopez Moreau Novak
Okafor Park Quinn Rossi Silva Tanaka Ueda Vargas Weber Young Zhang Brandt Castro Dalton Evans Ferrari Grant Hughes
Iqbal Jordan Khan Larsen Meyer Nolan Ortega Peters Reyes Santos Turner Usman Vogel Walsh Yilmaz Zimmer""")
CITIES = words("""Lisbon Madrid Paris Berlin Vienna Rome Athens Oslo Stockholm Helsinki Warsaw Prague Budapest Dublin
London Cairo Nairobi Lagos Accra Tunis Dakar Delhi Mumbai Tokyo Osaka Kyoto Seoul Beijing Bangkok Hanoi Manila Jakarta
Sydney Perth Auckland Toronto Montreal Boston Chicago Denver Seattle Dallas Miami Havana Lima Bogota Quito Santiago
Brasilia Geneva Zurich Munich Hamburg Porto Seville Naples Milan Venice Krakow Riga Tallinn Vilnius Bergen Malmo Ghent
Lyon Nice Leeds York Bristol Glasgow Cork Galway""")
COLOURS = words("red blue green yellow orange purple pink brown black white gray")
RICH_COLOURS = words("""amber crimson silver golden copper ivory violet scarlet teal navy olive coral jade bronze pale
dark bright striped spotted dusty rusty polished wooden broken quiet heavy narrow ancient hollow frozen hidden gentle
crooked faded painted square round small large old new tall short distant northern southern eastern western central
upper lower inner outer""")
THINGS = words("""kettle lantern basket ladder mirror hammer pillow bottle carpet window garden bridge tower harbor
engine wagon cabinet drawer blanket candle clock compass curtain desk drum fence fountain guitar helmet kite lamp
locker magnet medal needle oven parcel pencil piano ribbon rocket sailboat scarf shovel statue suitcase table
telescope tent ticket umbrella violin wallet wheel whistle anchor barrel beacon bell bucket cannon chest crown dome
flag gate globe jar kennel library market museum orchard palace quarry reactor station stable temple theater vault
vineyard warehouse windmill workshop archive bakery chapel depot elevator ferry gallery hangar island jetty kiosk
laboratory mill nursery observatory pier satellite terminal tunnel village yacht""")
# What can be found under a tree, lost and carried home; none begins with a vowel.
CARRIED = words("""kettle lantern basket mirror hammer pillow bottle blanket candle clock compass drum guitar helmet
kite lamp magnet medal needle parcel pencil ribbon scarf shovel suitcase telescope ticket violin wallet whistle bell
bucket crown flag globe jar key button coin feather letter ring map shell pebble flute glove hat spoon marble book
teapot locket doll cup paintbrush""")
ANIMALS = words("""cat dog horse cow sheep goat pig rabbit fox wolf bear lion tiger elephant giraffe monkey mouse rat
squirrel owl eagle duck goose chicken turkey swan frog toad snake lizard turtle fish shark whale dolphin seal crab bee
ant spider butterfly penguin camel donkey deer kangaroo""")
FRUITS = words("apple banana cherry grape lemon lime mango orange peach pear plum strawberry melon kiwi fig date")
FOODS = words("""bread cheese soup rice pasta salad pizza cake pie butter honey jam yogurt sandwich omelet pancake
stew curry noodles beans""")
VEGETABLES = words(
    "carrot potato onion tomato cabbage spinach pepper cucumber pumpkin radish leek celery broccoli garlic"
)
TOOLS = words("hammer saw drill wrench screwdriver ladder shovel rake brush needle scissors knife axe pliers")
JOBS = words("""teacher doctor nurse baker pilot farmer painter lawyer engineer driver singer writer gardener plumber
carpenter librarian tailor sailor chef dentist""")
INSTRUMENTS = words("piano guitar violin drum flute trumpet harp cello clarinet organ")
SPORTS = words("football tennis swimming running cycling rowing skiing boxing chess golf hockey basketball")
VEHICLES = words("car bus train tram truck bicycle motorcycle boat ship plane helicopter scooter")
CLOTHES = words("coat shirt hat glove scarf sock shoe boot jacket dress skirt sweater")
MATERIALS = words("wood iron glass cotton wool paper stone plastic leather silk clay rubber")
WEATHER = words("sunny cloudy rainy windy snowy foggy stormy clear")
SUBJECTS = words("history music physics chemistry biology geography grammar drawing algebra poetry")
ROOMS = words("kitchen garden bedroom attic cellar hall garage office library balcony")
CATEGORIES = {
    "fruit": FRUITS, "animal": ANIMALS, "vegetable": VEGETABLES, "tool": TOOLS, "job": JOBS, "instrument": INSTRUMENTS,
    "sport": SPORTS, "vehicle": VEHICLES, "color": COLOURS, "city": CITIES, "food": FOODS, "material": MATERIALS,
    "school subject": SUBJECTS, "room": ROOMS,
}  # fmt: skip
PLURALS = {"city": "cities", "sport": "sports", "fruit": "fruits"}

DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = words("January February March April May June July August September October November December")
NUMBERS = words("""zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty""")

OPPOSITES = dict(
    pair.split("/")
    for pair in words("""hot/cold big/small fast/slow high/low light/dark old/young rich/poor hard/soft wet/dry
full/empty open/closed early/late happy/sad strong/weak long/short wide/narrow thick/thin clean/dirty loud/quiet
sharp/blunt deep/shallow heavy/light near/far first/last true/false good/bad right/wrong up/down left/right day/night
summer/winter north/south east/west inside/outside front/back top/bottom begin/end buy/sell push/pull win/lose
give/take laugh/cry love/hate remember/forget arrive/leave build/destroy accept/refuse arrive/depart add/subtract
increase/decrease float/sink wake/sleep question/answer friend/enemy victory/defeat success/failure birth/death
war/peace truth/lie always/never everything/nothing before/after above/below many/few more/less simple/complicated
safe/dangerous brave/afraid cheap/expensive smooth/rough tight/loose straight/crooked public/private modern/ancient
patient/impatient polite/rude guilty/innocent generous/greedy""")
)
THING_COLOURS = {
    "a banana": "yellow", "grass": "green", "the sky on a clear day": "blue", "snow": "white", "coal": "black",
    "a ripe tomato": "red", "an orange": "orange", "a lemon": "yellow", "chocolate": "brown", "milk": "white",
    "a carrot": "orange", "the sea": "blue", "blood": "red", "a leaf in summer": "green", "a fire engine": "red",
    "a flamingo": "pink", "an elephant": "gray", "a crow": "black", "a polar bear": "white", "a frog": "green",
    "an eggplant": "purple", "a lime": "green", "the sun in a drawing": "yellow", "tree bark": "brown",
    "a strawberry": "red", "a cloud before rain": "gray", "a pig": "pink", "a blueberry": "blue", "salt": "white",
    "a pumpkin": "orange", "a violet": "purple", "soil": "brown", "a raven": "black", "a swan": "white",
}  # fmt: skip
ANIMAL_FACTS = {
    "dog": ("barks", "puppy", "a kennel", 4), "cat": ("meows", "kitten", "a house", 4), "cow": ("moos", "calf",
    "a barn", 4),
    "horse": ("neighs", "foal", "a stable", 4), "sheep": ("bleats", "lamb", "a pen", 4), "pig": ("oinks", "piglet",
    "a sty", 4),
    "duck": ("quacks", "duckling", "a pond", 2), "chicken": ("clucks", "chick", "a coop", 2), "lion": ("roars", "cub",
    "the savanna", 4),
    "wolf": ("howls", "pup", "a den", 4), "bear": ("growls", "cub", "a den", 4), "frog": ("croaks", "tadpole",
    "a pond", 4),
    "owl": ("hoots", "owlet", "a hollow tree", 2), "bee": ("buzzes", "larva", "a hive", 6), "snake": ("hisses",
    "snakelet", "a hole", 0),
    "goose": ("honks", "gosling", "a farmyard", 2), "goat": ("bleats", "kid", "a pen", 4), "mouse": ("squeaks", "pup",
    "a hole", 4),
    "spider": ("makes no sound", "spiderling", "a web", 8), "ant": ("makes no sound", "larva", "an anthill", 6),
    "elephant": ("trumpets", "calf", "the savanna", 4), "rabbit": ("makes little sound", "kit", "a burrow", 4),
}  # fmt: skip
EXPLANATIONS = {
    "why the sky is blue": "Air scatters blue light more than red light, so blue comes to us from every side of the "
    "sky.",
    "why it rains": "Water rises as vapor, cools into tiny drops that form clouds, and falls when the drops grow "
    "heavy.",
    "why leaves fall in autumn": "Trees drop their leaves to save water and energy when the days grow short and cold.",
    "why ice floats": "Ice is less dense than water, because water spreads out a little when it freezes.",
    "how a rainbow forms": "Sunlight enters drops of rain, bends, and splits into its colors before it comes back "
    "to our eyes.",
    "why we have seasons": "The axis of the Earth is tilted, so each half of the world gets more sun for a part of "
    "the year.",
    "why the moon shines": "The moon makes no light of its own. It reflects the light of the sun.",
    "how bread rises": "Yeast eats sugar in the dough and makes gas, and the bubbles of gas lift the dough.",
    "how a plane flies": "Its wings push air down as it moves, and the air pushes the plane up in return.",
    "why we sleep": "Sleep gives the body time to rest and repair, and helps the brain to sort what it has learned.",
    "what gravity is": "Gravity is the pull between things that have mass. It keeps our feet on the ground.",
    "what a computer does": "A computer follows lists of simple instructions, very fast, to work with numbers, "
    "words and pictures.",
    "what a prime number is": "A prime number is a whole number above one that can only be divided by one and by "
    "itself.",
    "what an atom is": "An atom is a tiny piece of matter, with a nucleus in the middle and electrons around it.",
    "what photosynthesis is": "Photosynthesis is how plants use sunlight to turn water and air into sugar and oxygen.",
    "what a volcano is": "A volcano is an opening in the ground where hot melted rock, ash and gas come out.",
    "what an earthquake is": "An earthquake is a shaking of the ground when large plates of rock slip past each other.",
    "how a magnet works": "In a magnet, tiny parts of the metal point the same way and together pull on iron.",
    "how fish breathe": "Fish take oxygen from water with their gills.",
    "how bees make honey": "Bees collect nectar from flowers, carry it home, and dry it in the hive until it is honey.",
    "what a verb is": "A verb is a word for something that is done or that happens, such as run, eat or sleep.",
    "what a noun is": "A noun is a word for a person, a place or a thing, such as teacher, city or lamp.",
    "what an adjective is": "An adjective is a word that describes a thing, such as red, tall or quiet.",
    "what a triangle is": "A triangle is a shape with three straight sides and three corners.",
    "what a square is": "A square is a shape with four equal sides and four right corners.",
    "what a circle is": "A circle is a round shape. Every point on it is equally far from the center.",
    "what a river is": "A river is a large stream of water that flows over land to a lake or the sea.",
    "what a desert is": "A desert is a very dry place where little rain falls and few plants grow.",
    "what an island is": "An island is land with water on all sides.",
    "what a library is": "A library is a place that keeps books, and lends them to people.",
    "what a cache is": "A cache keeps things that were computed or fetched before, so that they can be used again "
    "quickly.",
    "what a server is": "A server is a program that waits for requests and answers them, often for many users at once.",
    "what a token is": "A token is a small piece of text, a word or a part of one. Language models read and write "
    "tokens.",
    "what a language model is": "A language model is a program that learned from text which words are likely to "
    "follow.",
    "what a file is": "A file is a piece of data with a name that a computer keeps on a disk.",
    "what an algorithm is": "An algorithm is a list of clear steps that solves a problem.",
    "what a loop is in a program": "A loop is a part of a program that is run again and again until a condition is "
    "met.",
    "what a function is in a program": "A function is a named piece of a program that takes values and gives back a "
    "result.",
    "what a variable is": "A variable is a name for a value that a program can read and change.",
    "what a pace line is": "A pace line is a row of riders who share the wind. The first one pulls and the others "
    "follow closely.",
    "how to make tea": "Boil water, pour it over the tea leaves, wait about four minutes, and take the leaves out.",
    "how to boil an egg": "Put the egg in boiling water, wait eight minutes, then cool it in cold water and peel it.",
    "how to plant a seed": "Make a small hole in the soil, put the seed in, cover it, and water it a little every day.",
    "how to wash your hands": "Wet your hands, rub them with soap for twenty seconds, rinse them, and dry them.",
    "how to stay healthy": "Eat fruit and vegetables, drink water, sleep enough, and move every day.",
    "how to learn a language": "Practice a little every day: read, listen, speak, and do not be afraid of mistakes.",
    "how to save money": "Write down what you spend, buy only what you need, and put a little aside every month.",
    "how to fall asleep": "Keep the room dark and cool, put screens away, and go to bed at the same time every night.",
    "what democracy is": "Democracy is a form of government in which the people choose their leaders by voting.",
    "what history is": "History is the study of what happened in the past, and of why it happened.",
    "what music is": "Music is sound that people arrange in time, with rhythm and melody, to please or to move us.",
    "what a map is": "A map is a drawing of a place from above that shows where things are.",
    "what friendship is": "Friendship is a bond between people who like, help and trust each other.",
    "what the sun is": "The sun is a star: a huge ball of hot gas that gives light and warmth to the Earth.",
    "what a planet is": "A planet is a large round body that moves around a star. The Earth is a planet.",
    "what a cloud is": "A cloud is a mass of tiny drops of water or bits of ice that float in the air.",
    "what electricity is": "Electricity is the flow of tiny charged particles. It gives power to lamps and machines.",
    "what recycling is": "Recycling is making new things from old paper, glass, metal or plastic.",
}  # fmt: skip
JOKES = (
    "Why did the bicycle fall over? Because it was two tired.",
    "What do you call a bear with no teeth? A gummy bear.",
    "Why did the math book look sad? Because it had too many problems.",
    "What do you get when you cross a snowman and a dog? Frostbite.",
    "Why can't a leopard hide? Because it is always spotted.",
    "What has hands but cannot clap? A clock.",
    "Why did the computer go to the doctor? It had a virus.",
    "What kind of tree fits in your hand? A palm tree.",
    "Why are fish so smart? Because they live in schools.",
    "What is a cat's favorite color? Purr-ple.",
)


def plural(word: str) -> str:
    if word in PLURALS:
        return PLURALS[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def carried(thing: str) -> str:
    """The thing, or another where nobody could pick it up."""
    return thing if thing in CARRIED else CARRIED[THINGS.index(thing) % len(CARRIED)]


def an(word: str) -> str:
    return ("an " if word[0] in "aeiou" else "a ") + word


@cache
def countries() -> tuple[tuple[str, str, str, str], ...]:
    """(name, capital, region, currency) of the independent ones, in plain letters."""
    return tuple(map(tuple, json.loads((records() / "countries.json").read_text())))  # type: ignore[arg-type]


@cache
def definitions() -> tuple[tuple[str, str, str], ...]:
    """(word, part of speech, definition) of words that the prose uses often, the most frequent first."""
    return tuple(map(tuple, json.loads((records() / "definitions.json").read_text())))  # type: ignore[arg-type]


@cache
def dialogues() -> tuple[tuple[str, ...], ...]:
    """Short conversations; the user speaks first, and every turn of the user's is answered."""
    return tuple(map(tuple, json.loads((records() / "dialogues.json").read_text())))
