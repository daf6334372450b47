"""A row: one request while the engine works on it. Plain data; only the runner looks at its arrays."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from paceline.engine.depth import Record
from paceline.engine.routing import Route
from paceline.types import Delta, FinishReason, Grammar, Prompt, RequestId, Sampling, TokenLogprob, Usage

if TYPE_CHECKING:
    from paceline.cache.batch import Batch
    from paceline.conversation.text import TextStream

Sink = Callable[[Delta], None]
PLAIN = Route(0, "plain: nobody decided otherwise")
MASK64 = (1 << 64) - 1
_numbers = itertools.count()


class Company:
    """The choices of one request, who know each other without keeping each other: a circle of references would hold
    their arrays until Python's collector comes by."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.started = False  # one of them has run
        self._rows: list[weakref.ref[Row]] = []
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        self.started |= row.started
        self._rows.append(weakref.ref(row))

    def __iter__(self) -> Iterator[Row]:
        return (row for known in self._rows if (row := known()) is not None)


class Row:
    """`prefilled` tokens of the prompt are in its cache; the last prompt token is never one of them: it is the first
    input of decoding, so that every row's first token is sampled in the common batch. A row whose states are pooled is
    prefilled to its end, and decodes nothing.

    A row can be set back at any time (`restart`): what it has said so far is then read like a part of its prompt, and
    it goes on as if nothing had happened."""

    def __init__(
        self,
        request_id: RequestId,
        prompt: Prompt,
        sampling: Sampling,
        limit: int,
        text: TextStream,
        sink: Sink,
        route: Route = PLAIN,
        grammar: Grammar | None = None,
        end_ids: frozenset[int] = frozenset(),
    ) -> None:
        """`end_ids`: the model's tokens that end an answer."""
        self.id = request_id
        self.prompt = prompt
        self.sampling = sampling
        self.limit = 0 if prompt.pooling else limit  # tokens it may generate: max_tokens, or what the context leaves
        self.text = text
        self.sink = sink
        self.route = route
        self.grammar = grammar
        own = frozenset(sampling.stop_token_ids)
        self.ends = own if sampling.ignore_eos else end_ids | own  # tokens that end it
        self.seed = (secrets.randbits(64) if sampling.seed is None else sampling.seed) & MASK64
        self.context = prompt.token_ids  # what is prefilled: the prompt, and what was said before it was set back
        # Of a prompt that is read sparsely (paceline/sparse), `context` has the chosen tokens only.
        self.share: float | None = None  # of the prompt, that its request wants kept; None: all
        self.decided = True  # False: whether it is read sparsely, and which tokens, is still to be found out
        self.scout: Any = None  # what finds out
        self.chosen: Any = None  # the prompt's tokens that are read, as rising indices; None: all
        self.whole = 0  # the first so many tokens are all among them
        self.patches = tuple(image.grid[0] * image.grid[1] * image.grid[2] for image in prompt.images)
        # Its place among the others (engine/scheduler).
        self.number = next(_numbers)
        self.tenant = ""  # on whose account it runs
        self.priority = 0  # lower comes first
        self.uncached = len(prompt.token_ids)  # prompt tokens to compute, as far as is known
        self.looked = 0.0  # when that was looked up
        self.arrived = self.entered = 0.0  # when it came, and when it last began to run
        self.since = 0.0  # when it last began to wait
        self.aged = False  # runs because it had waited for too long
        self.queued = 0.0  # seconds that it waited before it first ran
        self.waits = ""  # why it does not run
        self.started = False  # has run at least once
        self.company = Company([self])  # the choices of its request
        self.proven = False  # has been in a step that went well
        self.setbacks = 0  # how often it had to begin again
        self.troubles = 0  # how often it ran out of memory by itself
        self.prefilled = 0
        self.encoded: list[Any] = []  # features of its pictures, in order, until the prefill has used them
        self.pictured = 0  # pictures that need no encoding any more
        self.skipped = 0  # tokens of pictures before the first one in `encoded`
        self.launched = 0  # tokens whose sampling is under way or done
        self.generated: list[int] = []
        self.prompt_logprobs: list[TokenLogprob | None] | None = None  # the first token has none
        if sampling.prompt_logprobs is not None:
            self.prompt_logprobs = [None]
        self.pooled: Any = None  # what was gathered of its hidden states (engine/pooling)
        self.batch: Batch | None = None  # its own while it is prefilled
        self.group: int | None = None  # of the rows that it shares a buffer with, once it decodes
        self.head: Batch | None = None  # the MTP head's, likewise
        self.carry: Any = None  # the target's last hidden state, whose pair waits for the next token
        self.paired = 0  # pairs that the head had read when it joined the batch
        self.depth = 0  # draft tokens it has in the step that is planned
        self.accepted = self.rejected = 0  # draft tokens so far: delivered, and thrown away
        self.record = Record()
        self.delta = 0  # position of the next token minus length, after pictures
        self.places: Any = None  # explicit positions of its prompt, where it has pictures
        # What it shares with others through the prefix cache (engine/reuse).
        self.cache_key: Any = None  # its prompt as the cache sees it
        self.feeds = False  # the head reads its prompt for others who will draft
        self.root = ""  # among which prompts it may look
        self.cached = 0  # tokens of its prompt that were restored
        self.stops: list[int] = []  # lengths at which its prefill stops for a checkpoint, rising
        self.held = False  # waits for another row's prefill, or for the disk
        self.reads_asked = 0  # how often it has waited for files
        self.pinned_node: Any = None  # the entry that it uses
        self.made: list[Any] = []  # entries that it made
        self.remains: Any = None  # what it leaves behind, once it is out of the batch
        self.failure: str | None = None  # why it cannot go on, found out while others step with it
        self.finished: FinishReason | None = None
        self.greeted = False  # has sent its first delta

    @property
    def remaining(self) -> int:
        """Prompt tokens still to prefill."""
        kept_back = 0 if self.prompt.pooling else 1
        return len(self.context) - kept_back - self.prefilled

    @property
    def length(self) -> int:
        """Tokens in its caches."""
        return self.prefilled if self.remaining else len(self.prompt.token_ids) - self.dropped - 1 + self.launched

    @property
    def dropped(self) -> int:
        """Prompt tokens that are never read."""
        return 0 if self.chosen is None else len(self.prompt.token_ids) - len(self.chosen)

    @property
    def said(self) -> int:
        """Tokens of its context that it generated itself, before it was set back."""
        return len(self.context) - len(self.prompt.token_ids) + self.dropped

    def choose(self, chosen: Any, whole: int) -> None:
        """Of its prompt only these tokens are read, the first `whole` and the last one among them. Nothing behind
        `whole` has been computed yet."""
        self.chosen, self.whole = chosen, whole
        self.context = self._context()

    def _context(self) -> tuple[int, ...]:
        ids = self.prompt.token_ids
        if self.chosen is not None:
            ids = tuple(ids[place] for place in self.chosen.tolist())
        return (*ids, *self.generated)

    @property
    def images_left(self) -> int:
        return len(self.prompt.images) - self.pictured

    @property
    def decodes(self) -> bool:
        return self.finished is None and self.remaining == 0 and not self.images_left and self.launched < self.limit

    @property
    def room(self) -> int:
        """Draft tokens that its next step can use: the last token it may generate is never a guess."""
        if self.launched == 0 and len(self.context) == 1:
            return 0  # the head has seen nothing yet
        return self.limit - self.launched - 1

    @property
    def reads(self) -> bool:
        """Is the MTP head fed with its prompt?"""
        return self.route.drafts or self.feeds

    @property
    def usage(self) -> Usage:
        tokens = len(self.prompt.token_ids), len(self.generated)
        kept = None if self.share is None else tokens[0] - self.dropped
        return Usage(
            *tokens, self.cached, accepted_tokens=self.accepted, rejected_tokens=self.rejected, kept_tokens=kept
        )

    def restart(self) -> None:
        """All that was computed for it is gone, but not which tokens of its prompt were chosen. Nothing of it may be
        under way."""
        self.context = self._context()
        self.scout, self.decided = None, self.share is None or self.chosen is not None or bool(self.generated)
        self.launched = len(self.generated)
        self.prefilled = self.pictured = self.skipped = self.paired = self.delta = self.depth = 0
        self.encoded, self.stops = [], []
        self.batch = self.head = self.carry = self.places = self.pooled = self.remains = None
        self.held, self.reads_asked, self.group = False, 0, None
        self.rejected = max(self.rejected, 0)
        if self.prompt_logprobs is not None and not self.greeted:
            self.prompt_logprobs = [None]
        self.setbacks += 1
