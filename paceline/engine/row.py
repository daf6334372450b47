"""A row: one request while the engine works on it. Plain data; only the runner looks at its arrays."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline.engine.depth import Record
from paceline.engine.request import Delta, FinishReason, Grammar, Prompt, RequestId, Sampling, TokenLogprob, Usage
from paceline.engine.routing import Route

if TYPE_CHECKING:
    from paceline.cache.batch import Batch
    from paceline.conversation.text import TextStream

Sink = Callable[[Delta], None]
PLAIN = Route(0, "plain: nobody decided otherwise")
MASK64 = (1 << 64) - 1


class Row:
    """`prefilled` tokens of the prompt are in its cache; the last prompt token is never one of them: it is the first
    input of decoding, so that every row's first token is sampled in the common batch."""

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
    ) -> None:
        self.id = request_id
        self.prompt = prompt
        self.sampling = sampling
        self.limit = limit  # tokens it may generate: max_tokens, or what the context leaves
        self.text = text
        self.sink = sink
        self.route = route
        self.grammar = grammar
        self.seed = (secrets.randbits(64) if sampling.seed is None else sampling.seed) & MASK64
        self.prefilled = 0
        self.encoded: list[Any] = []  # features of its pictures, in order, until the prefill has used them
        self.pictured = 0  # pictures that need no encoding any more
        self.skipped = 0  # tokens of pictures before the first one in `encoded`
        self.launched = 0  # tokens whose sampling is under way or done
        self.generated: list[int] = []
        self.prompt_logprobs: list[TokenLogprob | None] | None = None  # the first token has none
        if sampling.prompt_logprobs is not None:
            self.prompt_logprobs = [None]
        self.batch: Batch | None = None  # its own while it is prefilled
        self.head: Batch | None = None  # the MTP head's, likewise
        self.carry: Any = None  # the target's last hidden state, whose pair waits for the next token
        self.paired = 0  # pairs that the head had read when it joined the batch
        self.depth = 0  # draft tokens it has in the step that is planned
        self.accepted = self.rejected = 0  # draft tokens so far: delivered, and thrown away
        self.record = Record()
        self.delta = 0  # position of the next token minus length, after pictures
        self.places: Any = None  # explicit positions of its prompt, where it has pictures
        # What it shares with others through the prefix cache (engine/reuse).
        self.keys: Any = None  # its prompt as the cache sees it
        self.feeds = False  # the head reads its prompt for others who will draft
        self.root = ""  # among which prompts it may look
        self.cached = 0  # tokens of its prompt that were restored
        self.stops: list[int] = []  # lengths at which its prefill stops for a checkpoint, rising
        self.held = False  # waits for another row's prefill, or for the disk
        self.reads_asked = 0  # how often it has waited for files
        self.leased: Any = None  # the entry that it uses
        self.made: list[Any] = []  # entries that it made
        self.remains: Any = None  # what it leaves behind, once it is out of the batch
        self.failure: str | None = None  # why it cannot go on, found out while others step with it
        self.finished: FinishReason | None = None
        self.greeted = False  # has sent its first delta

    @property
    def remaining(self) -> int:
        """Prompt tokens still to prefill."""
        return len(self.prompt.token_ids) - 1 - self.prefilled

    @property
    def images_left(self) -> int:
        return len(self.prompt.images) - self.pictured

    @property
    def decodes(self) -> bool:
        return self.finished is None and self.remaining == 0 and not self.images_left and self.launched < self.limit

    @property
    def room(self) -> int:
        """Draft tokens that its next step can use: the last token it may generate is never a guess."""
        if self.launched == 0 and len(self.prompt.token_ids) == 1:
            return 0  # the head has seen nothing yet
        return self.limit - self.launched - 1

    @property
    def reads(self) -> bool:
        """Is the MTP head fed with its prompt?"""
        return self.route.drafts or self.feeds

    @property
    def usage(self) -> Usage:
        tokens = len(self.prompt.token_ids), len(self.generated)
        return Usage(*tokens, self.cached, accepted_tokens=self.accepted, rejected_tokens=self.rejected)
