"""Grammars, compiled by llguidance on the callers' threads, and the matcher with which a sequence follows one."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from paceline.conversation.grammar.spec import GrammarSpec, explained, loosened, triggers, write
from paceline.conversation.grammar.styles import StyleFollower, styled
from paceline.errors import EngineUnavailable, InvalidRequest, RequestFailed
from paceline.models.files import one_line
from paceline.types import INHERITS

if TYPE_CHECKING:  # it imports MLX, which a server must not do before its BLAS is set up
    from paceline.conversation.tokenizer import Tokenizer

SECONDS = 2.0  # a grammar that takes longer to compile is refused
WORKERS = 2  # grammars compiled at a time
STACK = 512 << 20  # bytes; the worst texts within the limits were seen to need about 100 MB
_STARTING = threading.Lock()  # the stack size of new threads is global to the process
CACHE_BYTES = 64 * 1024 * 1024
# Memory of a compiled grammar, measured on schemas of 0.5 to 30 KB: a base, and a multiple of the text's bytes.
BASE_BYTES, BYTES_PER_BYTE = 32 * 1024, 64

# The last three apply on the engine's thread: a mask takes about 10 ms at worst, a sequence's lexer 60 MB.
LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    max_grammar_size=500_000,
    step_lexer_fuel=100_000,
    step_max_items=50_000,
    max_lexer_states=30_000,
    verbose_errors=False,
)
STYLED_BYTES = 8 * 1024  # a larger grammar is compiled once, and not in every style
# Of a style: it only proposes, so it gives up early.
STYLE_LIMITS = LLParserLimits(
    initial_lexer_fuel=100_000,
    max_grammar_size=50_000,
    step_lexer_fuel=10_000,
    step_max_items=5_000,
    max_lexer_states=3_000,
    verbose_errors=False,
)
# The decoder of SentencePiece vocabularies, for tokenizers whose own decoder llguidance does not know.
PIECES = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}


class Compiled:
    """A compiled grammar. Any thread may ask for a matcher."""

    def __init__(
        self,
        matcher: LLMatcher,
        vocab_size: int,
        ends: frozenset[int],
        size: int,
        vocabulary: LLTokenizer,
        triggers: frozenset[int] = frozenset(),
        styles: Sequence[LLMatcher] = (),
    ) -> None:
        """`styles`: the same grammar, with JSON as it is usually written (grammar/styles)."""
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._ends = ends
        self._triggers = triggers
        self._styles = styles
        self._lock = threading.Lock()
        self.size = size  # bytes, estimated

    def matcher(self, field: str | None = None) -> Matcher:
        """`field` is the request's field that asked for it."""
        style = None
        if self._styles:
            style = StyleFollower(self._vocabulary, [partial(self._copied, each) for each in self._styles])
        width = self._vocabulary.vocab_size
        copied = self._copied(self._matcher)
        return Matcher(copied, self._vocab_size, self._ends, field, self._triggers, style, width)

    def _copied(self, matcher: LLMatcher) -> LLMatcher:
        with self._lock:
            return matcher.deep_copy()


class Grammars:
    """Compiles grammars and caches them. `vocab_size` is the model's, which may exceed the tokenizer's."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        eos_ids: Iterable[int],
        *,
        cache_bytes: int = CACHE_BYTES,
        seconds: float = SECONDS,
        drafts: bool = False,
    ) -> None:
        """`drafts`: what grammars force is drafted, so JSON is followed in its usual styles too."""
        self._drafts = drafts
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._ends = frozenset(token for token in eos_ids if 0 <= token < vocab_size)
        self._cache_bytes = cache_bytes
        self._seconds = seconds
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._slots = threading.BoundedSemaphore(WORKERS)
        self._ready: OrderedDict[GrammarSpec, Compiled | InvalidRequest] = OrderedDict()  # or why it cannot be
        self._under_way: dict[GrammarSpec, Future[Compiled | InvalidRequest]] = {}
        self.held = 0  # bytes
        self.compiled = 0  # grammars since the start

    def prepare(self) -> None:
        """Build what all grammars share (a second or two for 150,000 tokens), so that the first one need not wait."""
        with self._building:
            self._vocabulary  # noqa: B018

    def compile(self, spec: GrammarSpec) -> Compiled:
        """Blocks for milliseconds, at most for two seconds. Raises InvalidRequest if the grammar is not possible."""
        if not self._ends:
            raise InvalidRequest("The model has no end token, so an answer to a grammar could not end.")
        self.prepare()
        with self._lock:
            known = self._ready.get(spec)
            if known is not None:
                self._ready.move_to_end(spec)
            waiting = self._under_way.get(spec)
            mine = known is None and waiting is None
            if mine:
                waiting = self._under_way[spec] = Future()
        if waiting is not None and known is None:
            if mine:
                self._compile_for_all(spec, waiting)
            known = waiting.result()
        assert known is not None
        if isinstance(known, InvalidRequest):  # raised anew: a raised error keeps its frames alive
            raise InvalidRequest(str(known), field=known.field or spec.field)
        return known

    def _compile_for_all(self, spec: GrammarSpec, result: Future[Compiled | InvalidRequest]) -> None:
        """Compile for all threads that wait for this grammar."""
        try:
            made = self._in_time(spec)
        except BaseException as error:  # noqa: BLE001  for all threads that wait
            with self._lock:
                del self._under_way[spec]
            result.set_exception(error)
            return
        with self._lock:
            del self._under_way[spec]
            self._ready[spec] = made
            self.held += _size(spec, made)
            self.compiled += isinstance(made, Compiled)
            while self.held > self._cache_bytes and self._ready:
                oldest, gone = self._ready.popitem(last=False)
                self.held -= _size(oldest, gone)
        result.set_result(made)

    def _in_time(self, spec: GrammarSpec) -> Compiled | InvalidRequest:
        """Compile within the time limit. llguidance cannot be interrupted: a slow thread keeps its slot until it ends.

        The refusal is not cached: the machine may have been busy with something else.
        """
        if not self._slots.acquire(timeout=self._seconds):
            raise EngineUnavailable("Too many grammars are being compiled. Try again in a moment.")
        result: Future[Compiled | InvalidRequest] = Future()

        def run() -> None:
            try:
                result.set_result(self._made(spec))
            except BaseException as error:  # noqa: BLE001  for the thread that waits
                result.set_exception(error)
            finally:
                self._slots.release()

        _start_with_room(threading.Thread(target=run, name="paceline-grammar", daemon=True))
        try:
            return result.result(timeout=self._seconds)
        except FutureTimeout:
            raise InvalidRequest(
                f"It takes more than {self._seconds:g} seconds to compile. Make it simpler.", field=spec.field
            ) from None

    def _made(self, spec: GrammarSpec) -> Compiled | InvalidRequest:
        vocabulary, markers = self._vocabulary
        try:
            written = write(spec, markers)
            matcher = LLMatcher(vocabulary, written, log_level=0, limits=LIMITS)
        except InvalidRequest as error:
            return InvalidRequest(str(error), field=error.field)
        except RecursionError:
            return InvalidRequest("It is nested too deep.")
        if not matcher.is_error():
            matcher.compute_bitmask()  # the first mask builds most of the lexer: here, not between two steps
        if matcher.is_error() and (looser := loosened(spec)) is not None:
            return self._made(looser)
        if matcher.is_error():
            return InvalidRequest(explained(matcher.get_error()))
        styles = [] if not self._drafts or spec.size > STYLED_BYTES else self._styles(vocabulary, written)
        size = (BASE_BYTES + BYTES_PER_BYTE * spec.size) * (1 + len(styles))
        return Compiled(matcher, self._vocab_size, self._ends, size, vocabulary, triggers(spec, markers), styles)

    def _styles(self, vocabulary: LLTokenizer, grammar: str) -> list[LLMatcher]:
        made = [LLMatcher(vocabulary, text, log_level=0, limits=STYLE_LIMITS) for text in styled(grammar)]
        for matcher in made:
            matcher.compute_ff_tokens()  # as with the first mask: what can be built before a step is built here
        return [matcher for matcher in made if not matcher.is_error()]

    @cached_property
    def _vocabulary(self) -> tuple[LLTokenizer, dict[str, int]]:
        backend = self._tokenizer._backend
        description: dict[str, Any] = json.loads(backend.to_str())
        description.update(truncation=None, padding=None)
        width = max(self._vocab_size, 1 + max(backend.get_vocab(with_added_tokens=True).values()))
        ends = sorted(self._ends)
        try:
            vocabulary = LLTokenizer(json.dumps(description), n_vocab=width, eos_token=ends)
        except ValueError:
            description["decoder"] = PIECES
            vocabulary = LLTokenizer(json.dumps(description), n_vocab=width, eos_token=ends)
        added = backend.get_added_tokens_decoder()
        # Also tokens that the tokenizer does not call special: llguidance goes by the form of <tool_call>.
        markers = {str(token): token_id for token_id, token in ((i, t.content) for i, t in added.items())}
        return vocabulary, {text: i for text, i in markers.items() if vocabulary.is_special_token(i)}


def _start_with_room(thread: threading.Thread) -> None:
    """Start a thread with a large stack. llguidance recurses along references: a chain of a thousand overflows the
    usual 8 MB and kills the process. Only the used part of the stack takes memory."""
    with _STARTING:
        usual = threading.stack_size(STACK)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)


def _size(spec: GrammarSpec, made: Compiled | InvalidRequest) -> int:
    return made.size if isinstance(made, Compiled) else BASE_BYTES // 32 + spec.size


EVERYTHING = 0xFFFFFFFF  # 32 tokens
UNFIT = "doesn't satisfy the grammar"  # llguidance's words for a token that it did not allow


class Matcher:
    """The engine's `Grammar`. `allowed` never raises, because a step is shared; `accept` raises what went wrong."""

    def __init__(
        self,
        matcher: LLMatcher,
        vocab_size: int,
        ends: frozenset[int],
        field: str | None = None,
        triggers: frozenset[int] = frozenset(),
        style: StyleFollower | None = None,
        width: int | None = None,
    ) -> None:
        """`width`: the tokens of llguidance's masks, if they are more than the model's."""
        self._matcher = matcher
        self._bits = np.empty((0, -(-(width or vocab_size) // 32)), dtype=np.uint32)
        self._address = 0
        self._vocab_size = vocab_size
        self._ends = ends
        self._field = field  # of the request, for error messages
        self._triggers = list(triggers)  # tokens that begin a call where text may stand instead
        self._style = style
        self._accepted: list[int] = []
        self._over = False  # an end token was accepted

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_] | NDArray[np.uint8]:
        """A mask for now and one after each draft token. After one that does not fit or that ends, all is allowed.

        Where a call or text may begin, the text's tokens inherit.
        """
        bits, inheriting = self.packed(guesses)
        masks = self._unpacked(bits).astype(np.bool_)
        return masks if inheriting is None else self._unpacked(bits) + self._unpacked(inheriting) * (INHERITS - 1)

    def _unpacked(self, bits: NDArray[np.uint32]) -> NDArray[np.uint8]:
        small = bits.astype("<u4").view(np.uint8)
        return np.unpackbits(small, axis=-1, count=self._vocab_size, bitorder="little")

    def packed(
        self, draft_tokens: Sequence[int], said: Sequence[int] = ()
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
        """`allowed` in bits, until the next call. After a `said` token that does not fit, all is allowed: to accept it
        will fail."""
        self._make_room(len(draft_tokens) + 1)
        over = self._over or not self._ends.isdisjoint(said)
        heard = 0
        while not over and heard < len(said) and self._follows(said[heard]):
            heard += 1
        taken = 0
        filled = over or heard == len(said)
        if filled:
            self._fill_bits(0, over)
            while not over and taken < len(draft_tokens) and self._follows(draft_tokens[taken]):
                taken += 1
                self._fill_bits(taken, over)
        if heard + taken:
            self._matcher.rollback(heard + taken)
        bits = self._bits[: len(draft_tokens) + 1, : -(-self._vocab_size // 32)]
        bits[taken + filled :] = EVERYTHING
        return bits, self._inheriting(bits, taken + 1) if self._triggers else None

    def _make_room(self, places: int) -> None:
        """One array for all calls: a new one for each takes longer than a mask."""
        if places > len(self._bits):
            self._bits = np.empty((places, self._bits.shape[1]), dtype=np.uint32)
            self._address = self._bits.ctypes.data

    def _inheriting(self, bits: NDArray[np.uint32], count: int) -> NDArray[np.uint32] | None:
        """Where a call or text may begin, the text's tokens."""
        triggers = np.zeros(bits.shape[1], dtype=np.uint32)
        for token in self._triggers:
            triggers[token // 32] |= np.uint32(1 << token % 32)
        choices = [place for place in range(count) if (bits[place] & triggers).any()]
        if not choices:
            return None
        inheriting = np.zeros_like(bits)
        inheriting[choices] = bits[choices] & ~triggers
        return inheriting

    def _fill_bits(self, place: int, over: bool) -> None:
        """A complete grammar allows only end tokens; a failed matcher allows everything."""
        if over:
            bits = self._bits[place]
            bits[:] = 0
            for token in self._ends:
                bits[token // 32] |= np.uint32(1 << token % 32)
            return
        size = self._bits.shape[1] * self._bits.itemsize
        self._matcher.unsafe_compute_mask_ptr(self._address + place * size, size)
        if self._matcher.is_error():
            self._bits[place] = EVERYTHING

    def forced(self) -> list[int]:
        """The tokens that must follow, up to an end; of JSON those that must follow in its usual style."""
        if self._over or self._matcher.is_error():
            return []
        usual = None if self._style is None else self._style.forced(self._accepted)
        found: list[int] = []
        for token in usual or self._matcher.compute_ff_tokens():
            if token in self._ends or not 0 <= token < self._vocab_size:
                break
            found.append(token)
        return found

    def accept(self, token: int) -> None:
        if self._matcher.is_error():
            raise self._failed()
        if token in self._ends:
            if not self._over and not self._matcher.is_accepting():
                raise RequestFailed("The answer was ended before its grammar was complete.")
            self._over = True
        elif self._over or not 0 <= token < self._vocab_size or not self._matcher.consume_token(token):
            raise self._failed()
        self._accepted.append(token)

    def _follows(self, guess: int) -> bool:
        if self._over or guess in self._ends or not 0 <= guess < self._vocab_size or self._matcher.is_error():
            return False
        return self._matcher.try_consume_tokens([guess]) == 1

    def _failed(self) -> InvalidRequest | RequestFailed:
        """A grammar that compiles may still be too complex to follow."""
        error = self._matcher.get_error().replace("<non-verbose/>", "").strip()
        said = one_line(Exception(error or "no token fits it"))
        if not error or UNFIT in error:
            return RequestFailed(f"The answer could not follow its grammar: {said}")
        return InvalidRequest(f"The grammar is too complex to follow: {said}", field=self._field)
