"""What Ollama's clients send, field by field: honoured, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from paceline.conversation.grammar import GrammarSpec
from paceline.errors import InvalidRequest, Unsupported
from paceline.server.common.fields import (
    Lenient,
    Many,
    RequestBody,
    check_repeat_penalty,
    read_request,
    thinking_options,
)
from paceline.server.common.refused_fields import NOTHING, not_supported
from paceline.server.common.tools import FUNCTION_OPTIONS
from paceline.server.common.unknown_fields import note_unknown
from paceline.server.http.openapi import TEXT, Answers, list_of, object_of
from paceline.server.state import AppState
from paceline.types import Sampling

LINES = "application/x-ndjson"  # a stream: one object a line

# Fields that would change the answer, each with the values that ask for nothing.
UNSUPPORTED_IN_OLLAMA: Mapping[str, tuple[Any, ...]] = {
    "template": (None, ""),
    "context": (None, []),
    "logprobs": NOTHING,
    "top_logprobs": (None, 0),
    "truncate": NOTHING,  # a prompt that is too long is refused, never cut
    "shift": NOTHING,
    "width": (None, 0),
    "height": (None, 0),
    "steps": (None, 0),
}

# What says how a model is run. That is the server's business, and changes no answer.
RUNNING = frozenset(
    ("num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mmap", "use_mlock")
    + ("embedding_only", "num_thread", "numa", "num_keep")
)
# Ways of sampling that the engine has not got, each with the values that ask for nothing.
UNSUPPORTED_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "tfs_z": (None, 1),
    "mirostat": (None, 0),
    "mirostat_tau": (None, 5),
    "mirostat_eta": (None, 0.1),
    "penalize_newline": (None, True),
}

# What messages may hold. Most clients' calls have no id; those of some libraries have what OpenAI's have.
MESSAGE_OPTIONS: Mapping[str, frozenset[str]] = {
    "messages": frozenset(
        {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id", "name", "id"}
    ),
    "messages.tool_calls": frozenset({"id", "type", "index", "function"}),
    "messages.tool_calls.function": frozenset({"name", "arguments", "index"}),
}

Body = TypeVar("Body", bound=RequestBody)


def _whole(value: Any) -> Any:
    """Ollama takes 4096.0 for a whole number, and clients send it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(_whole)]
Texts = Annotated[Many[str], BeforeValidator(_texts), WithJsonSchema({"anyOf": [TEXT, list_of(TEXT)]})]


class Options(Lenient):
    """Others are kept: each is known and harmless, known and refused, or named in the log."""

    model_config = ConfigDict(extra="allow")

    temperature: float | None = None
    top_p: float | None = None
    top_k: Whole | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: Annotated[Whole, Field(ge=-(2**63), lt=2**64)] | None = None
    num_predict: Whole | None = None
    num_ctx: Whole | None = None
    stop: Texts | None = None
    repeat_penalty: float | None = None
    repeat_last_n: Whole | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class OllamaBody(RequestBody):
    options: Options | None = None
    keep_alive: float | str | None = None


class AnswerBody(OllamaBody):
    """What /api/chat and /api/generate have in common."""

    stream: bool | None = None  # true where it is not given
    format: Any = None
    think: bool | str | None = None


class ChatBody(AnswerBody):
    options_of: ClassVar[Mapping[str, frozenset[str]]] = {
        **MESSAGE_OPTIONS,
        "tools": frozenset({"type", "function", "items"}),  # the last has no effect
        "tools.function": FUNCTION_OPTIONS,
    }
    messages: Annotated[list[Any] | None, WithJsonSchema(list_of(object_of({"role": TEXT}, content=TEXT)))] = None
    tools: list[Any] | None = None


class GenerateBody(AnswerBody):
    prompt: str | None = None
    system: str | None = None
    images: Many[str] | None = None
    raw: bool | None = None


class EmbedBody(OllamaBody):
    input: Annotated[Texts, Field(description="a text, or a list of texts")]
    truncate: bool | None = None  # true where it is not given
    dimensions: Whole | None = None


class EmbeddingsBody(OllamaBody):
    """The older form of /api/embed."""

    prompt: str


class NamedBody(RequestBody):
    """For what names a model and nothing else that matters."""

    name: str | None = None  # the older name of `model`


class Line(BaseModel):
    """What every line of an answer has, and a whole answer."""

    model: str
    created_at: str
    done: bool


def returns_lines(model: type[BaseModel]) -> Answers:
    """The `responses` of a route that answers whole, or with lines."""
    return {200: {"model": model, "content": {LINES: {"schema": TEXT}}}}


async def read(
    state: AppState, request: Request, model: type[Body], unsupported: Mapping[str, tuple[Any, ...]] | None = None
) -> tuple[Body, dict[str, Any]]:
    refused = UNSUPPORTED_IN_OLLAMA if unsupported is None else unsupported
    return await read_request(state, request, model, refused, streams=_streams)


def _streams(body: RequestBody) -> bool:
    return isinstance(body, AnswerBody) and body.stream is not False


def sampling_of(given: Options | None, state: AppState) -> Sampling:
    options = checked_options(given, state)
    predicted = options.num_predict
    sampling: dict[str, Any] = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": None if options.top_k is None else max(options.top_k, 0),
        "min_p": options.min_p,
        "typical_p": options.typical_p,
        "seed": None if options.seed is None or options.seed == -1 else options.seed % 2**64,
        # Zero and less: as far as it goes. So does more than the context.
        "max_tokens": None if predicted is None or predicted <= 0 else min(predicted, state.backend.context_length),
        "stop": tuple(options.stop or ()),
        **_penalties(options),
    }
    return state.backend.sampling(**sampling)


def checked_options(given: Options | None, state: AppState) -> Options:
    options = given or Options()
    extra = options.model_extra or {}
    for name, harmless in UNSUPPORTED_OPTIONS.items():
        if extra.get(name) not in (None, *harmless):
            raise Unsupported.at(f"options.{name}", f"{not_supported(name)}; leave it out.")
    known = {f"options.{name}" for name in (*Options.model_fields, *UNSUPPORTED_OPTIONS, *RUNNING)}
    note_unknown(state, "ollama", {f"options.{name}": value for name, value in extra.items()}, known)
    most = state.backend.context_length
    if options.num_ctx is not None and options.num_ctx > most:
        raise InvalidRequest.at(
            "options.num_ctx",
            f"is {options.num_ctx}, and this server's context is {most} tokens: ask for no more, or leave it out "
            "(every request has the whole context; --context-length sets it at the start).",
        )
    return options


def _penalties(options: Options) -> dict[str, float | None]:
    asked = {
        "repetition_penalty": options.repeat_penalty,
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
    }
    neutral = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    check_repeat_penalty(options.repeat_penalty, "options.repeat_penalty")
    window = options.repeat_last_n
    if window == 0:  # Ollama's word for "none"
        return dict(neutral)
    if window not in (None, -1) and any(asked[name] not in (None, neutral[name]) for name in asked):
        raise Unsupported.at(
            "options.repeat_last_n", f"is {window}: here penalties look at everything; leave it out, or use -1."
        )
    return {**asked}


def grammar_of(format: Any) -> GrammarSpec | None:
    if format is None or format == "":
        return None
    if format == "json":
        return GrammarSpec.json_object(field="format")
    if not isinstance(format, Mapping):
        raise InvalidRequest.at("format", 'must be "json" or a JSON schema.')
    return GrammarSpec.json_schema(format, field="format")


def thinking_of(think: bool | str | None, state: AppState) -> dict[str, Any]:
    """The template's options. A level is one where the template has levels, else it only says: think."""
    if isinstance(think, str) and think not in ("low", "medium", "high"):
        raise InvalidRequest.at("think", f"is {think!r}; it must be true, false, low, medium or high.")
    template = state.backend.tokenizer.chat_template or ""
    levels = "reasoning_effort" in template
    if think and not levels and state.backend.answer_format.reasoning == "none":
        raise InvalidRequest.at("think", f": the model {state.model_name!r} does not support thinking; leave it out.")
    if think is None:
        return {}
    effort = think if isinstance(think, str) and levels else None
    return thinking_options(state, effort, None if effort else bool(think))
