"""Pictures drawn with numpy: shapes of a colour and count, words in a small font of our own, and named emoji."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from training.data_chat import Picture, Split, held
from training.facts import words
from training.sources import records

SIZE = 64  # units a side, which pictures are laid out in
PIXELS = 96  # pixels a side: three by three image tokens of 32 pixels
TOKENS = (PIXELS // 32) ** 2

COLOURS = {
    "red": (215, 35, 35), "blue": (40, 70, 215), "green": (35, 150, 55), "yellow": (240, 215, 40), "orange": (245,
    135, 25),
    "purple": (130, 45, 160), "pink": (245, 140, 190), "brown": (120, 75, 35), "black": (20, 20, 20), "gray": (125,
    125, 125),
    "white": (245, 245, 245),
}  # fmt: skip
GROUNDS = {
    "white": (250, 250, 250), "black": (15, 15, 15), "light blue": (190, 220, 250), "light gray": (205, 205, 205),
    "dark blue": (15, 25, 75), "light green": (200, 240, 200),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "star", "ring", "bar")
PLACES = (
    "top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right",
)  # fmt: skip
MOST = 6

_GLYPHS = """
A 01110 10001 10001 11111 10001 10001 10001|B 11110 10001 10001 11110 10001 10001 11110
C 01110 10001 10000 10000 10000 10001 01110|D 11110 10001 10001 10001 10001 10001 11110
E 11111 10000 10000 11110 10000 10000 11111|F 11111 10000 10000 11110 10000 10000 10000
G 01110 10001 10000 10111 10001 10001 01111|H 10001 10001 10001 11111 10001 10001 10001
I 01110 00100 00100 00100 00100 00100 01110|J 00111 00010 00010 00010 00010 10010 01100
K 10001 10010 10100 11000 10100 10010 10001|L 10000 10000 10000 10000 10000 10000 11111
M 10001 11011 10101 10101 10001 10001 10001|N 10001 11001 10101 10011 10001 10001 10001
O 01110 10001 10001 10001 10001 10001 01110|P 11110 10001 10001 11110 10000 10000 10000
Q 01110 10001 10001 10001 10101 10010 01101|R 11110 10001 10001 11110 10100 10010 10001
S 01111 10000 10000 01110 00001 00001 11110|T 11111 00100 00100 00100 00100 00100 00100
U 10001 10001 10001 10001 10001 10001 01110|V 10001 10001 10001 10001 10001 01010 00100
W 10001 10001 10001 10101 10101 11011 10001|X 10001 10001 01010 00100 01010 10001 10001
Y 10001 10001 01010 00100 00100 00100 00100|Z 11111 00001 00010 00100 01000 10000 11111
0 01110 10011 10101 10101 10101 11001 01110|1 00100 01100 00100 00100 00100 00100 01110
2 01110 10001 00001 00110 01000 10000 11111|3 11110 00001 00001 01110 00001 00001 11110
4 00010 00110 01010 10010 11111 00010 00010|5 11111 10000 11110 00001 00001 10001 01110
6 01110 10000 10000 11110 10001 10001 01110|7 11111 00001 00010 00100 01000 01000 01000
8 01110 10001 10001 01110 10001 10001 01110|9 01110 10001 10001 01111 00001 00001 01110
"""
FONT = {
    line.split()[0]: np.array([[pixel == "1" for pixel in row] for row in line.split()[1:]])
    for line in _GLYPHS.strip().replace("|", "\n").splitlines()
}
WORDS = words("""CAT DOG SUN MAP BUS CAR HAT CUP KEY BOX BED PEN TEA JAM ICE SEA SKY FOX OWL BEE ANT COW HEN PIG RAT BAT
NET OIL EGG PIE
MILK FISH BIRD BOOK DOOR TREE LAMP SHIP STAR MOON RAIN SNOW WIND FIRE ROAD GATE BELL COAT SHOE SOCK FROG DUCK GOAT
LION BEAR WOLF
STOP OPEN EXIT PUSH PULL YES NO GO UP IN OUT HOT COLD""")


@dataclass(frozen=True)
class Group:
    """Some things of one kind."""

    shape: str
    colour: str
    count: int

    @property
    def is_held(self) -> bool:
        return held("picture", self.shape, self.colour, self.count)


def draw_group(rng: Random, split: Split, most: int = MOST) -> Group:
    while True:
        group = Group(rng.choice(SHAPES), rng.choice(list(COLOURS)), rng.randint(1, most))
        if group.is_held == (split == "held"):
            return group


@cache
def _grid(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    across = (np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1
    return np.meshgrid(across, across)  # type: ignore[return-value]


@cache
def mask(shape: str, size: int) -> NDArray[np.bool_]:
    """Where a shape of this many pixels a side has colour."""
    x, y = _grid(size)
    if shape == "circle":
        return x * x + y * y <= 0.95
    if shape == "square":
        return (abs(x) <= 0.82) & (abs(y) <= 0.82)
    if shape == "triangle":
        return (y <= 0.85) & (abs(x) <= (y + 0.95) / 1.9)
    if shape == "diamond":
        return abs(x) + abs(y) <= 1.0
    if shape == "cross":
        return ((abs(x) <= 0.3) | (abs(y) <= 0.3)) & (abs(x) <= 0.95) & (abs(y) <= 0.95)
    if shape == "ring":
        return (x * x + y * y <= 0.97) & (x * x + y * y >= 0.36)
    if shape == "bar":
        return (abs(x) <= 0.98) & (abs(y) <= 0.32)
    angle = np.arctan2(x, -y)
    fifth = 2 * np.pi / 5
    off = abs((angle + fifth / 2) % fifth - fifth / 2)
    return np.hypot(x, y) <= 0.42 / np.cos(np.clip(fifth / 2 - off, 0, None) * 1.0) * np.where(
        off < 0.63, 1 + (0.63 - off) * 1.9, 1
    )


def _shade(colour: tuple[int, int, int], rng: Random, by: int = 12) -> NDArray[np.uint8]:
    return np.clip([channel + rng.randint(-by, by) for channel in colour], 0, 255).astype(np.uint8)


def ground_for(colours: list[str], rng: Random) -> str:
    """A background that the colours stand out from; white more often than others."""

    def contrast(name: str) -> float:
        tone = np.array(GROUNDS[name], float)
        return min(float(np.abs(tone - COLOURS[colour]).sum()) for colour in colours)

    fitting = [name for name in GROUNDS if contrast(name) > 200] or [max(GROUNDS, key=contrast)]
    return "white" if "white" in fitting and rng.random() < 0.45 else rng.choice(fitting)


def pixels(units: int) -> int:
    return round(units * PIXELS / SIZE)


def finer(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """From units to pixels: each unit is one and a half of them."""
    thrice = values.repeat(3, axis=0).repeat(3, axis=1)
    odd = [(0, size % 2) for size in thrice.shape[:2]] + [(0, 0)] * (values.ndim - 2)
    padded = np.pad(thrice, odd, mode="edge")
    rows, columns = padded.shape[0] // 2, padded.shape[1] // 2
    found: NDArray[np.float32] = padded.reshape(rows, 2, columns, 2, *values.shape[2:]).mean((1, 3), dtype=np.float32)
    return found


def enlarged(picture: Picture) -> Picture:
    """As the model sees it."""
    return (
        picture
        if len(picture) != SIZE or picture.shape[1] != SIZE
        else finer(picture.astype(np.float32)).round().astype(np.uint8)
    )


def tokens_of(picture: Picture) -> int:
    """How many tokens the model sees it as."""
    height, width = enlarged(picture).shape[:2]
    return (height // 32) * (width // 32)


def canvas(ground: str, rng: Random) -> Picture:
    return np.broadcast_to(_shade(GROUNDS[ground], rng, 5), (SIZE, SIZE, 3)).copy()


def stamp(picture: Picture, shape: str, colour: str, cell: int, rng: Random, side: int | None = None) -> None:
    """A shape into one of the nine cells of the picture, a little off its middle."""
    side = side or rng.randint(14, 19)
    row, column = divmod(cell, 3)
    slack = 21 - side
    top, left = row * 21 + rng.randint(0, max(slack, 0)), column * 21 + rng.randint(0, max(slack, 0))
    picture[top : top + side, left : left + side][mask(shape, side)] = _shade(COLOURS[colour], rng)


def shapes(groups: list[Group], rng: Random, ground: str | None = None) -> Picture:
    """All of the groups' things, in cells drawn at random; at most nine in all."""
    picture = canvas(ground or ground_for([group.colour for group in groups], rng), rng)
    if len(groups) == 1 and groups[0].count == 1 and rng.random() < 0.4:  # one large thing
        side = rng.randint(26, 60)
        top, left = rng.randint(0, SIZE - side), rng.randint(0, SIZE - side)
        picture[top : top + side, left : left + side][mask(groups[0].shape, side)] = _shade(
            COLOURS[groups[0].colour], rng
        )
        return picture
    cells = rng.sample(range(9), sum(group.count for group in groups))
    side = rng.randint(13, 19)
    for group in groups:
        for _ in range(group.count):
            stamp(picture, group.shape, group.colour, cells.pop(), rng, side)
    return picture


def placed(things: list[tuple[str, str, int]], rng: Random) -> Picture:
    """Things (shape, colour, cell) where they are said to be."""
    picture = canvas(ground_for([colour for _, colour, _ in things], rng), rng)
    for shape, colour, cell in things:
        stamp(picture, shape, colour, cell, rng)
    return picture


def written(word: str, rng: Random, colour: str = "black", ground: str | None = None) -> Picture:
    """A word of at most five letters, two pixels a dot."""
    picture = canvas(ground or ground_for([colour], rng), rng)
    letters = np.concatenate([np.pad(FONT[letter], ((0, 0), (0, 1))) for letter in word], axis=1)[:, :-1]
    dots = letters.repeat(2, axis=0).repeat(2, axis=1)
    height, width = dots.shape
    left = max(0, (SIZE - width) // 2 + rng.randint(-2, 2))
    top = (SIZE - height) // 2 + rng.randint(-6, 6)
    picture[top : top + height, left : left + width][dots[:, : SIZE - left]] = _shade(COLOURS[colour], rng)
    return picture


# -- emoji

EMOJI = """red apple=apple|banana=banana|GRAPES=bunch of grapes|WATERMELON=watermelon|LEMON=lemon
CHERRIES=pair of cherries
STRAWBERRY=strawberry|PINEAPPLE=pineapple|TOMATO=tomato|CARROT=carrot|EAR OF MAIZE=corn cob|BREAD=loaf of bread
CHEESE WEDGE=piece of cheese
HAMBURGER=hamburger|SLICE OF PIZZA=slice of pizza|HOT DOG=hot dog|COOKING=fried egg|DOUGHNUT=doughnut|COOKIE=cookie
BIRTHDAY CAKE=birthday cake
HOT BEVERAGE=cup of coffee|DOG FACE=dog|CAT FACE=cat|MOUSE FACE=mouse|RABBIT FACE=rabbit|FOX FACE=fox|BEAR FACE=bear
PANDA FACE=panda
LION FACE=lion|COW FACE=cow|PIG FACE=pig|FROG FACE=frog|MONKEY FACE=monkey|CHICKEN=chicken|PENGUIN=penguin|BIRD=bird
DUCK=duck|OWL=owl
HORSE FACE=horse|HONEYBEE=bee|BUTTERFLY=butterfly|SNAIL=snail|LADY BEETLE=ladybug|ANT=ant|SPIDER=spider|TURTLE=turtle
SNAKE=snake
OCTOPUS=octopus|CRAB=crab|TROPICAL FISH=fish|DOLPHIN=dolphin|SPOUTING WHALE=whale|SHARK=shark|ELEPHANT=elephant
GIRAFFE FACE=giraffe
TIGER FACE=tiger|SHEEP=sheep|ROSE=rose|SUNFLOWER=sunflower|TULIP=tulip|CACTUS=cactus|PALM TREE=palm tree
EVERGREEN TREE=tree
MAPLE LEAF=maple leaf|MUSHROOM=mushroom|FIRE=fire|BLACK SUN WITH RAYS=sun|CRESCENT MOON=moon|WHITE MEDIUM STAR=star
RAINBOW=rainbow|CLOUD=cloud
SNOWFLAKE=snowflake|UMBRELLA=umbrella|SNOWMAN WITHOUT SNOW=snowman|AUTOMOBILE=car|BUS=bus|TAXI=taxi
FIRE ENGINE=fire engine|TRACTOR=tractor
BICYCLE=bicycle|STEAM LOCOMOTIVE=train|AIRPLANE=plane|ROCKET=rocket|HELICOPTER=helicopter|SAILBOAT=sailboat
ANCHOR=anchor
HOUSE BUILDING=house|TENT=tent|SOCCER BALL=soccer ball|BASKETBALL AND HOOP=basketball
TENNIS RACQUET AND BALL=tennis ball|TROPHY=trophy
GUITAR=guitar|TRUMPET=trumpet|VIOLIN=violin|DRUM WITH DRUMSTICKS=drum|BALLOON=balloon|WRAPPED PRESENT=gift
TEDDY BEAR=teddy bear
CROWN=crown|TOP HAT=top hat|EYEGLASSES=pair of glasses|JEANS=pair of jeans|ATHLETIC SHOE=shoe|GEM STONE=gem
RING=ring with a stone|KEY=key|LOCK=lock
HAMMER=hammer|WRENCH=wrench|BLACK SCISSORS=pair of scissors|PENCIL=pencil|OPEN BOOK=book|MOBILE PHONE=phone
ELECTRIC LIGHT BULB=light bulb
CANDLE=candle|CAMERA=camera|ALARM CLOCK=clock|HOURGLASS=hourglass|BELL=bell|ENVELOPE=letter|MAGNET=magnet
BATTERY=battery|DOOR=door|CHAIR=chair
TELESCOPE=telescope|HEAVY BLACK HEART=red heart|BLUE HEART=blue heart|GREEN HEART=green heart|YELLOW HEART=yellow heart
GHOST=ghost|SKULL=skull|ROBOT FACE=robot|JACK-O-LANTERN=pumpkin|EYES=pair of eyes|GRINNING FACE=smiling face
LOUDLY CRYING FACE=crying face
POUTING FACE=angry face|SLEEPING FACE=sleeping face|PARTY POPPER=party popper|HIGH VOLTAGE SIGN=lightning bolt
DROPLET=drop of water"""


def pick_emoji(folder: Path) -> dict[str, NDArray[np.uint8]]:
    """Name to RGBA, 64 pixels a side, of those above that the unpacked package has."""
    from PIL import Image

    folder = folder / "package"
    files = {
        entry["name"]: entry["image"] for entry in json.loads((folder / "emoji.json").read_text()) if entry["name"]
    }
    found = {}
    for pair in EMOJI.replace("\n", "|").split("|"):
        title, name = pair.split("=")
        file = files.get(title.upper())
        if file is not None:
            with Image.open(folder / "img" / "google" / "64" / file) as picture:
                found[name] = np.asarray(picture.convert("RGBA"))
    return found


@cache
def emoji() -> dict[str, NDArray[np.uint8]]:
    with np.load(records() / "emoji.npz") as file:
        return dict(zip(file["names"].tolist(), file["images"], strict=True))


def show(name: str, rng: Random) -> Picture:
    """One emoji, a little smaller or moved, on a light background."""
    picture = canvas(rng.choice(("white", "white", "light blue", "light gray", "light green")), rng)
    image = emoji()[name]
    if rng.random() < 0.4:  # three quarters of its size, by picking pixels: no blur, so that it compresses
        keep = (np.arange(48) * 4 / 3).astype(int)
        image = image[keep][:, keep]
    if rng.random() < 0.3:
        image = image[:, ::-1]
    side = len(image)
    room = SIZE - side
    top, left = rng.randint(0, room), rng.randint(0, room)
    alpha = image[..., 3:].astype(np.uint16)
    under = picture[top : top + side, left : left + side].astype(np.uint16)
    picture[top : top + side, left : left + side] = (image[..., :3] * alpha + under * (255 - alpha)) // 255
    return picture
