"""Requests of a wanted length, drawn from a seed: the same seed and name give the same bytes.

Text is random words of four to six letters, near enough to each other in tokens that a length in words, by
`Calibration`, is a length in tokens to within a few per cent. A image's own tokens come on top.
"""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.bench.wire import BenchError

Endpoint = Literal["chat", "completions"]
PATHS: Mapping[Endpoint, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}

_TEXT = """
able about above actor adult after again agent agree ahead album alone along amber angle apple arch arena
argue arrow aside asset audio avoid awake bacon badge baker barn basic beach bell bench berry birth black
blade blend block board boat bonus boost bowl brain branch brave bread brick bridge brief bring broad brown
brush bucket build bundle butter cabin cable camp canal candle canvas carbon card cargo carry castle cave
cedar chain chair chalk charm chart cheap check cheese chess chief child choir circle city civil claim clay
clean clear clerk cliff climb clock cloth cloud coach coast coffee coin color comet copper coral corner
cotton count court cover craft crane cream crew crop crowd crown cube curve cycle dance dawn debate decade
deep delay depth desert design desk detail dinner ditch doctor domain door double dozen draft dream dress
drift drive drum dust eagle early earth east echo edge eight elbow empty engine enter equal estate event
exact exit fabric factor faith falcon family farm fast father feast fence fever field fifth figure film
final finger flag flame fleet floor flour flow flute focus folder forest forge fork form found frame fresh
front frost fruit future galaxy garage garden gate gentle giant ginger give glass globe glove goal gold
grain grand grape grass gravel great green group guard guest guide guitar habit hall hammer hand harbor hawk
heart heavy hedge hero hill hold honey hope horse hotel house human hunter idea index inland inner iron
island item ivory jacket jewel join judge juice jump jungle junior just keen keep kettle kind king kite knee
label ladder lake lamp land large latch laugh launch layer leader leaf learn lemon level light limit linen
lion list live local locket logic long lunar lunch magic mango manner maple marble march margin market
master match meadow medal melody member metal method middle mile mill mind minor mirror model modern moment
month moon moral motor mount mouse move museum music name narrow nation native nature near nest night noble
noise north note novel number ocean offer office olive onion open opera orange orbit order organ other outer
oval owner oxygen page paint palace panel paper parade park parent party pasta patch path pearl pencil
people pepper piano picnic pilot pine pitch place plain planet plant plate plaza pocket poem point polar
pond porch port post power press price pride prince print prize profit proof public pulse purple puzzle
quart queen quest quick quiet quilt radar radio rail rain ranch range rapid raven razor reach ready record
reef region relay remote result review ribbon rice ridge right ring river road robin rocket roof room rope
rose round route royal rule safari sail salad salt sample sand scale scene school scout screen seat second
seed senior sense seven shade shape share sheet shelf shell shine ship shore short signal silver simple
single sister sketch skill slope small smart smile smoke snow solar solid song sound south space spare spark
speech spice spoon sport spring square stable stage stamp star steam steel stem step stone store storm story
stove street string strong studio sugar summer sunset supply swan sweet swift system table talent target
teach temple tennis tenth thick thing third thread tiger timber title today token tower track trade trail
train travel tree tribe trick truck trust tulip tunnel twelve under union upper urban useful valley value
vapor velvet verse vessel video view violin visit vital voice volume wagon walk wall water wave wealth wheat
wheel white wide willow wind window wine winter wise wolf wonder wood world yard year yellow young zebra
zero
"""
WORDS: Sequence[str] = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class Lengths:
    """A length in tokens, the same each time or uniform between two ends."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Lengths:
        try:
            ends = [int(end) for end in text.split(":")]
        except ValueError:
            ends = []
        if len(ends) not in (1, 2) or ends[0] < 1 or ends[-1] < ends[0]:
            raise BenchError(f"{text!r} is no length: give tokens like 512, or a range like 128:1024")
        return cls(ends[0], ends[-1])

    @property
    def mean(self) -> int:
        return round((self.low + self.high) / 2)

    def draw(self, chance: random.Random) -> int:
        return chance.randint(self.low, self.high)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}:{self.high}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a server counts our words: `overhead` is its template's and its special tokens' share."""

    tokens_per_word: float = 1.0
    overhead: float = 0.0
    source: str = "a guess"  # or "/tokenize", "usage"

    def words(self, tokens: int) -> int:
        return max(1, round((tokens - self.overhead) / self.tokens_per_word))


@dataclass(frozen=True, slots=True)
class Request:
    """A body ready to send, and what it is meant to cost."""

    body: bytes
    prompt_tokens: int  # asked for; the server's usage has the true number
    max_tokens: int
    has_image: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of a server. Two that differ only in model and calibration ask the same."""

    model: str
    endpoint: Endpoint = "chat"
    prompt_tokens: Lengths = Lengths(256, 256)
    output_tokens: Lengths = Lengths(64, 64)
    shared_prefix: float = 0.0  # share of each prompt that all have in common; chat: as the system message
    image_share: float = 0.0  # share of requests that carry an image
    image_size: int = 128
    temperature: float = 0.0  # sent always: servers' defaults differ
    ignore_eos: bool = True
    include_usage: bool = True
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)  # more fields for every body; they win
    calibration: Calibration = Calibration()

    def request(self, name: str) -> Request:
        """The request called `name`; two names share nothing but the common prefix."""
        chance = random.Random(f"{self.seed}/{name}")
        tokens = self.prompt_tokens.draw(chance)
        return self._request(tokens, self.output_tokens.draw(chance), chance)

    def request_of(self, prompt_tokens: int, name: str) -> Request:
        """A request called `name` whose prompt has a length of its own."""
        chance = random.Random(f"{self.seed}/{name}")
        return self._request(prompt_tokens, self.output_tokens.draw(chance), chance, image_share=0.0)

    def text(self, words: int, name: str) -> str:
        return " ".join(random.Random(f"{self.seed}/{name}").choices(WORDS, k=words))

    def body(self, words: int, max_tokens: int, chance: random.Random, image: str | None = None) -> bytes:
        """The JSON to send. At least one word is always the request's own."""
        common = min(round(words * self.shared_prefix), words - 1)
        prefix = self.text(common, "common")  # a shorter prefix is the beginning of a longer one
        own = " ".join(chance.choices(WORDS, k=words - common))
        fields: dict[str, Any] = {"model": self.model}
        if self.endpoint == "completions":
            fields["prompt"] = f"{prefix} {own}" if prefix else own
        else:
            content: Any = own
            if image is not None:
                content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": own}]
            system = [{"role": "system", "content": prefix}] if prefix else []
            fields["messages"] = [*system, {"role": "user", "content": content}]
        fields |= {"max_tokens": max_tokens, "temperature": self.temperature, "stream": True}
        if self.include_usage:
            fields["stream_options"] = {"include_usage": True}
        if self.ignore_eos:
            fields["ignore_eos"] = True
        # No seed: mlx_lm.server takes a seeded request out of its batch.
        return json.dumps(fields | dict(self.extra)).encode()

    def _request(
        self, tokens: int, max_tokens: int, chance: random.Random, *, image_share: float | None = None
    ) -> Request:
        share = self.image_share if image_share is None else image_share
        image = draw_image(chance, self.image_size) if chance.random() < share else None
        body = self.body(self.calibration.words(tokens), max_tokens, chance, image)
        return Request(body, tokens, max_tokens, image is not None)


def draw_image(chance: random.Random, size: int) -> str:
    """A PNG of a few random shapes as a data: URL: no two alike, and small to send."""
    from PIL import Image, ImageDraw

    def colour() -> tuple[int, int, int]:
        return chance.randrange(256), chance.randrange(256), chance.randrange(256)

    picture = Image.new("RGB", (size, size), colour())
    pen = ImageDraw.Draw(picture)
    for _ in range(6):
        left, right = sorted(chance.randrange(size) for _ in range(2))
        top, bottom = sorted(chance.randrange(size) for _ in range(2))
        shape = pen.ellipse if chance.random() < 0.5 else pen.rectangle
        shape((left, top, right, bottom), fill=colour())
    file = io.BytesIO()
    picture.save(file, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
