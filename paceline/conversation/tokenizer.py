"""The tokenizer: mlx-lm's wrapper over the checkpoint's own, for the engine and the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from mlx_lm.utils import load_tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from paceline.conversation.template import Template, Templates, read_template
from paceline.conversation.text import ByteDetokenizer, Detokenizer, WindowDetokenizer
from paceline.errors import InvalidRequest, LoadError
from paceline.models.files import one_line

MARK = "paceline-turn-end-probe"
WORDS = "Hello 1"  # every tokenizer encodes it
NO_TEMPLATE = (
    "This model has no chat template, so it takes no conversations: send the prompt as text to /v1/completions, or "
    "start the server with --chat-template."
)
# Equal tokenizers give equal tokens.
PROBE = "Hello, wörld! 12345 <|im_start|>user\n\tif x == 1: return {'a': [0.5]}\n😀"

REQUESTED = 16  # templates of requests that are remembered: finding out what one takes renders it many times
SHORT = 4096  # characters or ids that are encoded or decoded in no noticeable time
SEGMENT = 1 << 15  # characters
EDGE = 64  # tokens


class Tokenizer:
    """Thread-safe. `templates` default to the checkpoint's; None: it has none."""

    def __init__(self, wrapped: Any, eos_ids: frozenset[int], templates: Templates | None = None) -> None:
        self._wrapped = wrapped
        self._backend = wrapped.backend_tokenizer
        self.eos_ids = eos_ids
        self.vocab_size = len(wrapped)
        self.special_ids = _special_ids(wrapped)
        self.templates = templates or _templates(wrapped)

    @classmethod
    def load(
        cls, folder: Path, config: Mapping[str, Any], chat_template: Path | None = None, ends: Sequence[Any] = ()
    ) -> Tokenizer:
        """The folder's tokenizer. `chat_template` is a file that replaces its template, `ends` are more end tokens."""
        try:
            wrapped = load_tokenizer(folder)
            backend = wrapped.backend_tokenizer  # a slow tokenizer has none
            read = backend.decode(backend.encode(WORDS, add_special_tokens=False).ids)
            if not read.strip():
                raise LoadError("it makes no tokens of text")
        except Exception as error:  # transformers raises many kinds
            raise LoadError(_unusable(folder, error)) from error
        own = Templates.of(read_template(chat_template), wrapped.special_tokens_map) if chat_template else None
        templates = own or _templates(wrapped)
        return cls(wrapped, _end_ids(wrapped, folder, config, templates, ends), templates)

    # -- text and ids

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self._encoded(text, add_special_tokens).ids
        return ids

    def count_over(self, text: str, most: int) -> int | None:
        """A lower bound of the text's tokens if it exceeds `most`. Encodes no more of the text than needed."""
        count = 0
        for begin in range(0, len(text), SEGMENT):
            # A segment alone has at most a few tokens more than within the text.
            count += max(len(self._encoded(text[begin : begin + SEGMENT], False)) - EDGE, 0)
            if count > most:
                return count
        return None

    def _encoded(self, text: str, add_special_tokens: bool) -> Any:
        """Only the library's batch methods release the interpreter's lock while they encode."""
        if len(text) < SHORT:
            return self._backend.encode(text, add_special_tokens=add_special_tokens)
        return self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        if len(ids) < SHORT:
            text: str = self._backend.decode(list(ids), skip_special_tokens=skip_special_tokens)
            return text
        texts: list[str] = self._backend.decode_batch([list(ids)], skip_special_tokens=skip_special_tokens)
        return texts[0]

    def detokenizer(self, skip_special_tokens: bool = True, shown: frozenset[int] = frozenset()) -> Detokenizer:
        """`shown` are special tokens that are never skipped."""
        hidden = self.special_ids - shown if skip_special_tokens else frozenset()
        if self.pieces is None:
            return WindowDetokenizer(lambda ids: self.decode([id for id in ids if id not in hidden], False))
        if hidden:
            return ByteDetokenizer(lambda id: b"" if id in hidden else self.token_bytes(id))
        return ByteDetokenizer(self.token_bytes)

    def token_bytes(self, token_id: int) -> bytes:
        """The token's bytes (empty for an id without a token)."""
        if self.pieces is not None:
            return self.pieces.get(token_id, b"")
        return self.decode([token_id], skip_special_tokens=False).encode()

    def token_text(self, token_id: int) -> str:
        """The token as text; incomplete characters become U+FFFD."""
        return self.token_bytes(token_id).decode("utf-8", errors="replace")

    @cached_property
    def pieces(self) -> dict[int, bytes] | None:
        """The bytes of every token of a byte-level vocabulary; None for other vocabularies."""
        description = json.loads(self._backend.to_str())
        if not _is_byte_level(description.get("decoder")):
            return None
        added = {int(token["id"]): token["content"].encode() for token in description.get("added_tokens", [])}
        table = {character: byte for byte, character in bytes_to_unicode().items()}
        pieces = {}
        for piece, token_id in self._backend.get_vocab(with_added_tokens=False).items():
            if all(character in table for character in piece):
                pieces[token_id] = bytes(table[character] for character in piece)
            else:
                pieces[token_id] = piece.encode()
        return pieces | added

    def is_that_of(self, folder: Path) -> bool:
        """Whether the tokenizer in `folder` gives every text the same ids."""
        try:
            theirs = load_tokenizer(folder).backend_tokenizer
        except Exception as error:
            raise LoadError(f"The tokenizer of {folder} cannot be loaded: {one_line(error)}") from error
        return bool(theirs.get_vocab() == self._backend.get_vocab()) and bool(
            theirs.encode(PROBE).ids == self.encode(PROBE)
        )

    def is_token(self, text: str) -> bool:
        return self._backend.token_to_id(text) is not None

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token by its text in the tokenizer's own form."""
        found: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return found

    # -- conversations

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        """A normalized conversation as the model's template writes it, with the generation prompt."""
        return self.needed_templates().render(messages, tools, **options)

    def needed_templates(self) -> Templates:
        """Raises InvalidRequest if there are none."""
        if self.templates is None:
            raise InvalidRequest(NO_TEMPLATE, field="messages", code="no_chat_template")
        return self.templates

    def templates_of(self, source: str) -> Templates:
        """A request's own template. Raises InvalidRequest if it cannot be read."""
        try:
            return self._requested(source)
        except LoadError as error:
            raise InvalidRequest.at("chat_template", f": {error}") from error

    @cached_property
    def _requested(self) -> Callable[[str], Templates]:
        return lru_cache(REQUESTED)(lambda source: Templates.of(source, self._wrapped.special_tokens_map))

    @property
    def library_tool_parser(self) -> str | None:
        """The name of mlx-lm's tool parser for this checkpoint, if it knows one."""
        found: str | None = self._wrapped.init_kwargs.get("tool_parser_type")
        return found

    @property
    def chat_template(self) -> str | None:
        """The Jinja source of the template for tools; None if it is code of mlx-lm's, or there is none."""
        return None if self.templates is None else self.templates.with_tools.source


def _unusable(folder: Path, error: Exception) -> str:
    """Without tokenizer.json the library may build a tokenizer from other files, or a useless one."""
    if (folder / "tokenizer.json").is_file():
        return f"The tokenizer of {folder} cannot be loaded: {one_line(error)}"
    return (
        f"{folder} has no tokenizer.json, and no tokenizer can be made of its other files: {one_line(error)}. "
        "Download the model again, or copy tokenizer.json from the model that it was made from."
    )


def _templates(wrapped: Any) -> Templates | None:
    """The checkpoint's own. For a few families mlx-lm has code instead of a template, which is trusted."""
    if not wrapped.has_chat_template:
        return None
    source = wrapped.chat_template
    if source is not None and getattr(wrapped, "_chat_template", None) is None:
        return Templates.of(source, wrapped.special_tokens_map)

    def write(messages: list[Any], tools: list[Any] | None, options: Mapping[str, Any]) -> str:
        return str(wrapped.apply_chat_template(messages, tools=tools, tokenize=False, **options))

    return Templates(Template(write))


def _end_ids(
    wrapped: Any, folder: Path, config: Mapping[str, Any], templates: Templates | None, more: Sequence[Any] = ()
) -> frozenset[int]:
    """All end tokens: of config, generation_config and the tokenizer, and the template's turn end."""
    found: set[int] = set(wrapped.eos_token_ids)
    sources: list[Any] = [config.get("eos_token_id"), (config.get("text_config") or {}).get("eos_token_id"), *more]
    for name in ("config.json", "generation_config.json"):
        try:
            raw = json.loads((folder / name).read_text())
        except (OSError, ValueError):
            continue
        sources += [raw.get("eos_token_id"), (raw.get("text_config") or {}).get("eos_token_id")]
    for ids in sources:
        if isinstance(ids, int):
            found.add(ids)
        elif isinstance(ids, list):
            found.update(id for id in ids if isinstance(id, int))
    turn_end = None if templates is None else _turn_end(wrapped, templates)
    if turn_end is not None:
        found.add(turn_end)
    return frozenset(found)


def _turn_end(wrapped: Any, templates: Templates) -> int | None:
    """The special token that the template writes right after an assistant's words, if any."""
    probe = [{"role": "user", "content": "x"}, {"role": "assistant", "content": MARK}]
    try:
        text = templates.render(probe, add_generation_prompt=False)
    except InvalidRequest:  # a template may refuse anything
        return None
    tail = text.partition(MARK)[2]
    ids = wrapped.backend_tokenizer.encode(tail, add_special_tokens=False).ids if tail else []
    return int(ids[0]) if ids and ids[0] in _special_ids(wrapped) else None


def _special_ids(wrapped: Any) -> frozenset[int]:
    """The tokens that the backend's `decode` skips: transformers lists only those with a role."""
    added = wrapped.backend_tokenizer.get_added_tokens_decoder()
    return frozenset(token_id for token_id, token in added.items() if token.special)


def _is_byte_level(decoder: Any) -> bool:
    if not isinstance(decoder, dict):
        return False
    if decoder.get("type") == "Sequence":
        parts = decoder.get("decoders", [])
        return len(parts) == 1 and _is_byte_level(parts[0])
    return decoder.get("type") == "ByteLevel"
