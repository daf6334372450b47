"""Other words for colors: chestnut is brown, scarlet is red. Which are near each other, so that nobody would ask for a yes or no."""

# ruff: noqa: E501, SIM905  (a row is easier to read in one line)

from __future__ import annotations

from random import Random

# The names of `wide_scenes.KNOWN`, in families.
FAMILIES = {
    "red": "red,dark red,maroon", "orange": "orange", "yellow": "yellow", "green": "green,dark green,light green,lime green,olive",
    "blue": "blue,light blue,dark blue,navy,navy blue", "cyan": "cyan,turquoise,teal", "purple": "purple,violet,magenta", "pink": "pink,light pink",
    "brown": "brown", "gray": "gray,dark gray,light gray", "white": "white", "black": "black", "beige": "beige",
}  # fmt: skip
OTHER = {
    "red": "scarlet,crimson,ruby,cherry red,vermilion,cardinal red,fire red,tomato red,poppy red,signal red", "dark red": "burgundy,wine red,claret,oxblood,garnet,crimson",
    "maroon": "burgundy,wine red,claret,oxblood,dark red", "orange": "tangerine,pumpkin,carrot orange,amber,mandarin", "yellow": "lemon yellow,canary yellow,sunflower yellow,dandelion yellow,golden,mustard",
    "green": "emerald,jade,grass green,kelly green,leaf green,clover green", "dark green": "forest green,bottle green,pine green,hunter green,fir green,moss green", "light green": "mint,pistachio,pale green,apple green,spring green",
    "lime green": "lime,chartreuse,bright green,neon green", "olive": "khaki,army green,moss green,olive green", "blue": "cobalt,sapphire,royal blue,ultramarine,azure,cornflower blue",
    "light blue": "sky blue,baby blue,powder blue,pale blue,ice blue", "dark blue": "navy,midnight blue,ink blue,royal blue", "navy": "dark blue,midnight blue,navy blue", "navy blue": "dark blue,midnight blue,navy",
    "cyan": "aqua,aquamarine,turquoise", "turquoise": "aqua,aquamarine,blue-green", "teal": "petrol,blue-green,dark turquoise", "purple": "plum,grape,eggplant,amethyst,violet,royal purple",
    "violet": "orchid,lilac,mauve,light purple", "magenta": "fuchsia,hot pink,pinkish purple", "pink": "rose,bubblegum pink,flamingo pink,rosy", "light pink": "blush,baby pink,pale pink,pale rose",
    "brown": "chestnut,chocolate,coffee brown,hazel,umber,mahogany,walnut,cocoa,sepia,russet", "gray": "slate gray,ash gray,smoke gray,grey,steel gray", "dark gray": "charcoal,graphite,slate,anthracite", "light gray": "silver,pearl gray,ash,pale gray",
    "white": "snow white,chalk white,ivory,milk white", "black": "ebony,jet black,coal black,pitch black,raven,ink black", "beige": "cream,sand,ecru,buff,off-white",
}  # fmt: skip
NEAR = tuple(
    frozenset(pair.split("-"))
    for pair in "red-orange red-pink red-brown blue-cyan green-cyan purple-pink purple-blue white-beige gray-white gray-black brown-orange yellow-orange yellow-beige beige-brown yellow-green red-purple gray-beige pink-beige black-blue gray-brown orange-beige black-green pink-orange gray-blue gray-cyan black-brown white-pink white-yellow cyan-white black-purple black-red gray-green".split()
)  # fmt: skip
FAMILY = {name: family for family, names in FAMILIES.items() for name in names.split(",")}


def near(one: str, other: str) -> bool:
    """Whether one could be taken for the other."""
    families = frozenset((FAMILY[one], FAMILY[other]))
    return len(families) == 1 or families in NEAR


def words(colour: str) -> list[str]:
    return OTHER[colour].split(",")


def other_word(colour: str, rng: Random) -> str:
    return rng.choice(words(colour))


def wrong_word(colour: str, rng: Random) -> str:
    """A word that nobody would use for this color."""
    return other_word(rng.choice([name for name in FAMILY if not near(name, colour)]), rng)
