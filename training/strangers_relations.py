"""Facts to hide and how people speak of them: for each relation, ways to state it and other ways to ask for it.

`{e}` is whom or what the fact is about, `{v}` what is to be found. No question repeats its statement's wording.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from training.strangers_voices import terms

Maker = Callable[[random.Random], str]

GIVEN = terms(
    """Anselm, Brigitta, Caspian, Delphine, Eskil, Fenella, Gaspard, Hortensia, Ignatius, Jocasta, Kenji, Lavinia,
    Milosz, Nadezhda, Oberon, Philippa, Quentin, Rosalba, Sigrid, Tancredi, Ursula, Valdemar, Wilhelmina, Xiomara,
    Yusuf, Zelda, Abebe, Birgit, Chidi, Dunja, Emre, Farida, Goran, Halina, Isolde, Jorge, Keiko, Lorcan, Maeve,
    Nkechi, Omar, Priya, Rafael, Saoirse, Tariq, Umberto"""
)
FAMILY = terms(
    """Abernathy, Brandywine, Castellan, Drozdov, Eastlake, Fitzgibbon, Galloway, Hathersage, Ibrahim, Jankowski,
    Kowalczyk, Lindqvist, Mbeki, Nakagawa, Oyelaran, Pemberton, Quispe, Rasmussen, Szabo, Thistlewood, Underhill,
    Vasquez, Whitcombe, Yamada, Zielinski, Achterberg, Bonaventure, Cholmondeley, Dragomir, Featherstone"""
)
PLACES = terms(
    """the old boathouse, the botanical garden, platform nine, the bakery on Mill Street, the north gate, the town
    library, the harbour office, the skating rink, the chapel ruins, the third floor canteen, the lighthouse, the
    bicycle shed, the tea room, the fish market, the observatory, the clock tower, the swimming pool, the museum
    steps, the petrol station, the barber shop"""
)
TOWNS = terms(
    """Tromso, Ghent, Valparaiso, Kumasi, Leeds, Odessa, Mombasa, Bergen, Cusco, Nagoya, Tbilisi, Porto, Halifax,
    Surabaya, Riga, Tampere, Lviv, Agadir, Malmo, Puebla"""
)
FOODS = terms(
    """dumplings, lentil soup, pickled herring, mango sorbet, cheese toast, ratatouille, fried plantain, rhubarb pie,
    mushroom risotto, goat curry, pancakes, roast pumpkin, oysters, bean stew, apricot jam, garlic noodles,
    blueberry muffins"""
)
TRADES = terms(
    """plumber, beekeeper, dentist, carpenter, glassblower, midwife, locksmith, geologist, tailor, pilot, baker,
    violinist, surveyor, firefighter, translator, gardener, welder, optician"""
)
TINTS = ["teal", "crimson", "ivory", "olive", "maroon", "turquoise", "beige", "violet", "amber", "navy"]
BEASTS = ["parrot", "tortoise", "ferret", "donkey", "hamster", "goat", "iguana", "pony", "rabbit", "llama"]
PETS = terms(
    """Biscuit, Pickle, Thunder, Mopsy, Waffles, Tinker, Gizmo, Pepper, Clementine, Sprocket, Noodle, Marmalade"""
)
MONTHS = terms("""January, February, March, April, May, June, July, August, September, October, November, December""")
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
PROJECTS = terms(
    """Bluebird, Granite, Meridian, Paprika, Sandstorm, Lantern, Cobalt, Thimble, Orchard, Walrus, Zephyr, Cascade"""
)
MACHINES = terms(
    """lawn mower, coffee grinder, forklift, sewing machine, printing press, dishwasher, band saw, water pump, snow
    blower, cement mixer, telescope, bread oven"""
)
FIRMS = terms(
    """Norwick Tools, Halberd Foods, Pelican Freight, Ostrava Glass, Kestrel Books, Tamarind Labs, Juniper Bank"""
)
TONGUES = terms("""Basque, Swahili, Finnish, Quechua, Tamil, Welsh, Georgian, Icelandic, Maltese, Yoruba""")
SPORTS = terms("""fencing, curling, water polo, archery, badminton, rowing, table tennis, judo, croquet, handball""")
TOOLS = terms("""cello, banjo, oboe, accordion, trombone, harp, bagpipes, clarinet, mandolin, xylophone""")
DRINKS = [
    "espresso",
    "ginger ale",
    "oat milk",
    "buttermilk",
    "green tea",
    "cider",
    "tomato juice",
    "hot cocoa",
    "lemonade",
    "sparkling water",
]
METALS = ["tin", "copper", "zinc", "nickel", "silver", "titanium", "brass", "bronze", "platinum", "lead"]


def one(pool: list[str]) -> Maker:
    return lambda rng: rng.choice(pool)


def person(rng: random.Random) -> str:
    return f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}" if rng.random() < 0.6 else rng.choice(GIVEN)


def digits(fewest: int, most: int) -> Maker:
    return lambda rng: "".join(rng.choice("123456789") for _ in range(rng.randint(fewest, most)))


def part_number(rng: random.Random) -> str:
    letters = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(rng.randint(2, 3)))
    return f"{letters}-{rng.randint(100, 9999)}"


def secret(rng: random.Random) -> str:
    return f"{rng.choice(TINTS)}{rng.choice(BEASTS)}{rng.randint(10, 99)}"


def between(low: int, high: int) -> Maker:
    return lambda rng: str(rng.randint(low, high))


def price(rng: random.Random) -> str:
    return f"{rng.randint(3, 980)}.{rng.randint(10, 99)}"


def birthday(rng: random.Random) -> str:
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


def hour(rng: random.Random) -> str:
    return f"{rng.randint(1, 12)}:{rng.choice(('05', '10', '15', '20', '35', '40', '45', '50'))}"


def room(rng: random.Random) -> str:
    return f"{rng.choice('ABCDEF')}{rng.randint(11, 99)}"


def thing(rng: random.Random) -> str:
    return f"{rng.choice(TINTS)} {rng.choice(MACHINES)}"


def species(rng: random.Random) -> str:
    return f"{rng.choice(GIVEN)}'s {rng.choice(BEASTS)}"


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    about: Maker
    value: Maker
    states: tuple[str, ...]
    asks: tuple[str, ...]


def relation(name: str, about: Maker, value: Maker, states: str, asks: str) -> Relation:
    split = (tuple(line.strip() for line in text.strip().splitlines()) for text in (states, asks))
    return Relation(name, about, value, *split)
