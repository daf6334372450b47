"""Is there enough memory: for one more sequence, for the next steps, for a prompt at all? No MLX.

All answers come from one budget (cache/budget) and one memory model (cache/memory_model). A sequence costs what it
holds and what its expected output will need (engine/queueing). Prefixes that no sequence uses count as free: `account`
reports what sequences need before they use it, and the cache evicts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from paceline.cache.budget import REQUEST_PARTS, Budget
from paceline.cache.memory_model import MemoryModel
from paceline.engine.prefill_budget import MIN_CHUNK
from paceline.engine.queueing import OutputEstimate
from paceline.engine.sequence import Sequence
from paceline.errors import NeverFits
from paceline.stats import MemoryBudgetStats

GROWTH = 128  # tokens that a sequence is assumed to generate still, whatever the estimate says
AHEAD = 96  # tokens that sequences may grow by between two checks
MEMORY_CHECK_PLANS = 8  # plans between two checks of memory when nothing has changed


class Admission:
    def __init__(
        self,
        budget: Budget,
        memory_model: MemoryModel,
        output_estimate: OutputEstimate | None = None,
        *,
        width: int = 1,
        longest_draft: int = 0,
    ) -> None:
        self.budget = budget
        self.memory_model = memory_model
        self.output_estimate = output_estimate or OutputEstimate()
        self.width = width  # tokens per sequence in a decode step
        self.longest_draft = longest_draft  # draft tokens of few sequences may be more
        self.scoring: Callable[[int], int] | None = None  # bytes that a draft needs to score a prompt of so many tokens
        self.draft_prefill: Callable[[int], int] | None = None  # bytes of a pass in which a draft model reads so far
        self.low_memory = False  # buffers must be copied layer by layer

    # -- for any thread

    def check(self, tokens: int, media: Collection[int] = (), place: str = "messages") -> None:
        """Raise NeverFits for a prompt that would not fit even if it ran alone."""
        need = self._minimum(tokens, media)
        if need > self.budget.usable:
            base = self.budget.holding("weights")
            raise NeverFits(tokens, need - base, max(self.budget.usable - base, 0), field=place)

    def _minimum(self, tokens: int, media: Collection[int]) -> int:
        """What `used` returns for a new sequence that runs alone with the smallest chunk."""
        memory_model = self.memory_model
        width = self._width(1)
        length = tokens + 2 * width
        activations = memory_model.passing([length], width=width) + self._chunk(tokens, MIN_CHUNK)
        held = memory_model.row(length) + memory_model.stretch(tokens, MIN_CHUNK)
        drafting = 0 if self.draft_prefill is None else self.draft_prefill(length)
        return self.budget.holding("weights") + held + activations + drafting + memory_model.media(list(media))

    # -- on the engine's thread

    def expected_length(self, seq: Sequence) -> int:
        """How many tokens the sequence is expected to have in the end."""
        said = len(seq.generated) + GROWTH
        expected = self.output_estimate.expected
        output = said if said > expected else expected
        return len(seq.prompt.token_ids) + (seq.max_tokens if seq.max_tokens < output else output)

    def fits(self, running: Collection[Sequence], seq: Sequence, chunk: int = MIN_CHUNK) -> bool:
        """May `seq` run beside the others? Prefixes may be evicted, and chunks may shrink to `chunk`."""
        if not running and self._minimum(len(seq.context), seq.media_costs) <= self.budget.usable:
            return True  # it may exceed the memory later
        return self.reserved([*running, seq], chunk) + self.budget.holding(*REQUEST_PARTS) <= self.budget.usable

    def reserved(self, seqs: Collection[Sequence], chunk: int) -> int:
        """Bytes in use when all these have their expected length."""
        return self._total([self.expected_length(seq) for seq in seqs], seqs, chunk)

    def left(self, seqs: Collection[Sequence]) -> int:
        """Bytes that the next steps of the running sequences leave for prefill; negative: they do not fit."""
        return self.budget.usable - self.used(seqs, 0, max(AHEAD, MEMORY_CHECK_PLANS * self._width(len(seqs))))

    def exceeds_memory(self, seq: Sequence, chunk: int = MIN_CHUNK) -> bool:
        """Is there no memory for another step of a sequence that runs alone?"""
        return self.used([seq], chunk, 2 * self._width(1)) > self.budget.usable

    def used(self, seqs: Collection[Sequence], chunk: int, ahead: int = 0) -> int:
        """Bytes in use now; or when all prompts are prefilled, and all sequences have grown by `ahead`."""
        lengths = [self._length(seq, ahead) for seq in seqs]
        return self._total(lengths, seqs, chunk)

    def chunk(self, seqs: Collection[Sequence], wanted: int, left: int) -> int:
        """As many prompt tokens of `wanted` as fit into `left` bytes, but not fewer than the smallest chunk."""
        least = min(MIN_CHUNK, wanted)
        size = wanted
        while size > least and self.reading(seqs, size) > left:
            size //= 2
        return max(size, least)

    def reading(self, seqs: Collection[Sequence], chunk: int) -> int:
        """A chunk of the longest prompt still to prefill, and the surplus that chunks leave in windows until
        decoding."""
        prompts = [len(seq.context) for seq in seqs if seq.remaining] if chunk else []
        if not prompts:
            return 0
        stretch = sum(self.memory_model.stretch(prompt, chunk) for prompt in prompts)
        return self._chunk(max(prompts), chunk) + stretch

    def holding(self, seq: Sequence) -> int:
        """Bytes of a sequence at its expected length."""
        return self.memory_model.row(self.expected_length(seq))

    def account(self, seqs: Collection[Sequence], chunk: int) -> None:
        """Report to the budget what sequences hold and what is reserved for them."""
        groups = self._groups(seqs)
        now = self.memory_model.batch([seq.length for seq in seqs], groups)
        lengths = [self.expected_length(seq) for seq in seqs]
        later = self.memory_model.batch(lengths, groups)
        self.budget.hold("sequences", now)
        self.budget.hold("reserved", max(later - now, 0))
        width = self._width(len(seqs))
        passing = self.memory_model.passing(lengths, groups, width=width)
        together = self.memory_model.step(len(seqs), width, max(lengths, default=0))
        together += self.memory_model.copying(lengths, groups, at_once=True)
        self.low_memory = together - passing > self.spare
        self.budget.hold("activations", passing + self.reading(seqs, chunk))
        self.budget.hold("sequence images", self._media(seqs))
        self.budget.hold("draft", self._scoring(seqs) + self._drafting(seqs))

    @property
    def spare(self) -> int:
        """Bytes that a step may use briefly without reservation: a part of the headroom."""
        return self.budget.headroom // 4

    def must_release(self, ended: Collection[Sequence]) -> bool:
        """Do finished sequences that are still in the batch hold more than that?"""
        return sum(self.memory_model.row(seq.length) for seq in ended) > self.spare

    def held(self, seqs: Collection[Sequence]) -> int:
        """The estimate of what is held between two steps, without reservations."""
        memory_model = self.memory_model
        together = memory_model.batch([seq.length for seq in seqs if not seq.remaining])
        apart = sum(memory_model.row(seq.length) for seq in seqs if seq.remaining)
        media = sum(memory_model.media_byte * size for seq in seqs if seq.remaining for size in seq.media_costs)
        return (
            self.budget.holding("weights", "prefixes", "copies", "draft prefixes", "images")
            + together
            + apart
            + int(media)
        )

    def stats(self) -> MemoryBudgetStats:
        budget, parts = self.budget, self.budget.held()
        sequences = budget.holding("sequences") + budget.holding("reserved")
        return MemoryBudgetStats(
            limit_bytes=budget.limit,
            headroom_bytes=budget.headroom,
            free_bytes=max(budget.usable - sum(parts.values()), 0),
            parts=parts,
            kv_cache_usage=round(min(sequences / max(budget.usable - budget.holding("weights"), 1), 1.0), 4),
            expected_output_tokens=self.output_estimate.expected,
        )

    # -- internal

    def _total(self, lengths: list[int], seqs: Collection[Sequence], chunk: int) -> int:
        """Bytes in use at the peak of a step with sequences of these lengths and a prefill chunk."""
        groups, width = self._groups(seqs), self._width(len(seqs))
        decoding = self.memory_model.batch(lengths, groups) + self.memory_model.passing(lengths, groups, width=width)
        return self._base(seqs) + decoding + self.reading(seqs, chunk)

    def _base(self, seqs: Collection[Sequence]) -> int:
        return self.budget.holding("weights") + self._media(seqs) + self._scoring(seqs) + self._drafting(seqs)

    def _drafting(self, seqs: Collection[Sequence]) -> int:
        """A draft model reads one chunk at a time, of any sequence that decodes."""
        if self.draft_prefill is None or not seqs:
            return 0
        return self.draft_prefill(max(self.expected_length(seq) for seq in seqs))

    def _scoring(self, seqs: Collection[Sequence]) -> int:
        """One prompt is scored at a time."""
        if self.scoring is None:
            return 0
        prompts = [len(seq.prompt.token_ids) for seq in seqs if not seq.sparse.decided]
        return self.scoring(max(prompts)) if prompts else 0

    def _media(self, seqs: Collection[Sequence]) -> int:
        sizes = [size for seq in seqs if seq.media_costs and seq.remaining for size in seq.media_costs]
        return self.memory_model.media(sizes) if sizes else 0

    def _width(self, rows: int) -> int:
        """Tokens of each of so many sequences in a decode step."""
        return max(self.width, self.memory_model.grouping.buckets.longest_draft(rows, self.longest_draft, 0) + 1)

    def _chunk(self, prompt: int, chunk: int) -> int:
        return self.memory_model.chunk(min(chunk, prompt), prompt)

    def _groups(self, seqs: Collection[Sequence]) -> list[list[int]] | None:
        memory_model = self.memory_model
        if memory_model.grouping.skew == 0:
            return None
        return memory_model.groups([(seq.computed.group, max(seq.length, len(seq.context) - 1)) for seq in seqs])

    @staticmethod
    def _length(seq: Sequence, ahead: int) -> int:
        length = seq.length
        if not ahead:
            return length
        longest = len(seq.prompt.token_ids) + seq.max_tokens
        return min(max(length, len(seq.context)) + ahead, longest)
