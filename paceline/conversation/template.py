"""Chat templates. Probes find out what each template takes when it is loaded, and conversations are written to fit.

A Jinja template runs in our `Sandbox`: transformers' own rendering has no limits, and takes any template option for
one of its own arguments. `enable_thinking` comes from the client; without it the template decides (mlx-lm would turn
thinking on for every vocabulary that can think).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateError

from paceline.conversation.messages import REASONING
from paceline.conversation.normalize import Message, as_parts, is_blank, with_arguments
from paceline.conversation.sandbox import LimitExceeded, Sandbox
from paceline.conversation.template_fallbacks import Fallback, FallbackChange, Tools, apply_fallback, fallbacks_for
from paceline.errors import InvalidRequest, LoadError

log = logging.getLogger(__name__)

# Names that `chat_template_kwargs` may not set: our variables, the library's arguments, functions of templates.
RESERVED_TEMPLATE_OPTIONS = frozenset(
    {
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template"),
        *("conversation", "tokenize", "tokenizer", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
        *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
        *("additional_special_tokens", "image_token", "video_token", "audio_token"),
        *("raise_exception", "strftime_now", "range", "dict", "namespace", "cycler", "joiner", "lipsum"),
        *("self", "loop", "caller", "varargs", "kwargs"),
    }
)

# (messages, tools, options) to text; may raise anything.
Write = Callable[[list[Message], list[Mapping[str, Any]] | None, Mapping[str, Any]], str]

SANDBOX = Sandbox()


class Templates:
    """A model's templates: the default, and perhaps another for requests with tools. Thread-safe."""

    def __init__(
        self,
        default: Template,
        with_tools: Template | None = None,
        reserved: frozenset[str] = RESERVED_TEMPLATE_OPTIONS,
    ) -> None:
        self.default = default
        self.with_tools = with_tools or default
        self._reserved = reserved

    @classmethod
    def of(cls, source: str | Mapping[str, str], special_tokens: Mapping[str, Any] | None = None) -> Templates:
        """From Jinja source: one template, or several by name. Raises LoadError."""
        named = {"default": source} if isinstance(source, str) else dict(source)
        if "default" not in named and len(named) != 1:
            raise LoadError(f"The chat templates are {', '.join(sorted(named)) or 'none'}; one must be the default.")
        special = special_tokens or {}
        default = named.get("default") or next(iter(named.values()))
        with_tools = named.get("tool_use", default)
        first = Template(_jinja(default, special), default)
        second = Template(_jinja(with_tools, special), with_tools) if with_tools != default else None
        return cls(first, second, RESERVED_TEMPLATE_OPTIONS | special.keys())

    @property
    def writes_names(self) -> bool:
        return self.default.dialect.names or self.with_tools.dialect.names

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Tools | None = None,
        *,
        add_generation_prompt: bool = True,
        **options: Any,
    ) -> str:
        """A normalized conversation as text. Raises InvalidRequest if the template refuses it with every fallback."""
        for name in options:
            if name in self._reserved:
                raise InvalidRequest(
                    f"chat_template_kwargs.{name} cannot be set: the server sets it.", field="chat_template_kwargs"
                )
        template = self.with_tools if tools else self.default
        arguments = {**options, "add_generation_prompt": add_generation_prompt}
        try:
            return template.render([dict(message) for message in messages], tools or None, arguments)
        except InvalidRequest:
            if template is self.default:
                raise
        return self.default.render([dict(message) for message in messages], tools or None, arguments)


@dataclass(frozen=True, slots=True)
class TemplateDialect:
    """How a template expects what can be written in more than one way."""

    parts: bool = False  # content is always a list of parts; a string would be dropped
    objects: bool = True  # arguments of tool calls are objects, not JSON text
    null: bool = False  # empty content beside tool calls is None, not ""
    names: bool = False  # it writes a message's `name`


class Template:
    """One template. `source` is its Jinja text; None if it is code of mlx-lm's."""

    def __init__(self, write: Write, source: str | None = None) -> None:
        self._write = write
        self.source = source
        self._fallbacks = fallbacks_for(source)
        self._logged: set[Fallback] = set()
        try:
            self.dialect = self._learn_dialect()
            self._needs = {feature: self._learn_need(probe) for feature, probe in PROBES.items()}
        except LimitExceeded:  # every conversation will exceed them too: the other probes can be skipped
            self.dialect = TemplateDialect()
            self._needs = dict.fromkeys(PROBES, frozenset())

    def render(self, messages: list[Message], tools: Tools | None, options: Mapping[str, Any]) -> str:
        if not messages:
            raise InvalidRequest.at("messages", "must be a list with at least one message.")
        refusal: Exception | None = None
        tried: list[tuple[list[Message], Tools | None]] = []
        for fallback in self._fallbacks:
            try:
                fallback = fallback.union(*(self._needs[feature] for feature in _features(messages, tools)))
                attempt = apply_fallback(fallback, messages, tools)
                if attempt in tried:
                    continue
                tried.append(attempt)
                text = self._written(*attempt, options)
            except LimitExceeded as error:
                raise InvalidRequest(
                    f"The model's chat template was stopped: {error}. Send less, or other chat_template_kwargs.",
                    field="messages",
                ) from error
            except Exception as error:  # a template may fail in any way
                refusal = refusal or error
                continue
            self._log(fallback, refusal)
            return text
        raise _refused(refusal) from refusal

    def _written(self, messages: Sequence[Message], tools: Tools | None, options: Mapping[str, Any]) -> str:
        """The messages, rendered in the template's dialect."""
        return self._write([self._spoken(message) for message in messages], list(tools) if tools else None, options)

    def _spoken(self, message: Message) -> Message:
        dialect = self.dialect
        message = with_arguments(message, as_objects=dialect.objects)
        if dialect.parts:
            message = {**message, "content": as_parts(message["content"])}
        if dialect.null and message.get("tool_calls") and is_blank(message["content"]):
            message = {**message, "content": None}
        thought = next((message[field] for field in REASONING if message.get(field) is not None), None)
        if thought is not None:  # GPT-OSS's template reads `thinking`, most others `reasoning_content`
            message = {"thinking": thought, **message, "reasoning_content": thought}
        return message

    def _log(self, fallback: Fallback, refusal: Exception | None) -> None:
        if fallback and fallback not in self._logged:
            self._logged.add(fallback)
            how = "; ".join(change.value for change in FallbackChange if change in fallback)
            why = f" (it refuses the usual form: {_words(refusal)})" if refusal else ""
            log.warning("the chat template needs conversations in another form%s: %s", why, how)

    # -- probing

    def _learn_dialect(self) -> TemplateDialect:
        parts = (
            self._keeps(_SAID, TemplateDialect()) is False and self._keeps(_SAID, TemplateDialect(parts=True)) is True
        )
        names = self._keeps(_NAMED, TemplateDialect(parts=parts)) is True
        for objects, null in ((True, False), (True, True), (False, False), (False, True)):
            dialect = TemplateDialect(parts, objects, null, names)
            if self._keeps(_CALLED, dialect):
                return dialect
        return TemplateDialect(parts, names=names)

    def _keeps(self, probe: Probe, dialect: TemplateDialect) -> bool | None:
        """Whether the template writes all of a probe's words; None: it refuses the probe."""
        self.dialect = dialect
        return self._keeps_in(frozenset(), probe)

    def _learn_need(self, probe: Probe) -> Fallback:
        """The first fallback with which the template writes all of the probe; the empty one if there is none."""
        return next((fallback for fallback in self._fallbacks if self._keeps_in(fallback, probe)), frozenset())

    def _keeps_in(self, fallback: Fallback, probe: Probe) -> bool | None:
        try:
            text = self._written(
                *apply_fallback(fallback, probe.messages, probe.tools), {"add_generation_prompt": True}
            )
        except LimitExceeded:
            raise
        except Exception:  # a template may refuse anything
            return None
        said = text.partition("user-probe")[2]
        return all(word in text for word in probe.words) and not any(sign in said for sign in _MISREAD)


# -- probes: each has one thing that some templates refuse or silently drop


@dataclass(frozen=True, slots=True)
class Probe:
    messages: list[Message]
    words: tuple[str, ...]  # that must be in the rendering
    tools: Tools | None = None


# Signs of a misread probe: a Python repr, JSON text inside JSON text, a missing content.
_MISREAD = ("'argument-probe'", '\\"argument-probe', "None")


def _user(words: str = "user-probe", **fields: Any) -> Message:
    return {"role": "user", "content": words, **fields}


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def _calls(content: str, *ids: str) -> list[Message]:
    calls = [
        {
            "id": id,
            "type": "function",
            "function": {"name": f"call-probe-{place}", "arguments": {"argument-probe": "x"}},
        }
        for place, id in enumerate(ids)
    ]
    results = [
        {"role": "tool", "tool_call_id": id, "name": f"call-probe-{place}", "content": f"result-probe-{place}"}
        for place, id in enumerate(ids)
    ]
    asked = [_user(), {"role": "assistant", "content": content, "tool_calls": calls}, *results]
    return [*asked, {"role": "assistant", "content": "answer-probe"}, _user("last-probe")]


_ONE_CALL = ("user-probe", "call-probe-0", "argument-probe", "result-probe-0", "answer-probe", "last-probe")
_SAID = Probe([_user()], ("user-probe",))
_NAMED = Probe([_user(name="name-probe")], ("user-probe", "name-probe"))
_CALLED = Probe(_calls("", "paceline1"), _ONE_CALL)  # an id that even Mistral's templates take
_TOOL = {
    "type": "function",
    "function": {"name": "tool-probe", "description": "x", "parameters": {"type": "object", "properties": {}}},
}

PROBES = {
    "system": Probe([{"role": "system", "content": "system-probe"}, _user()], ("system-probe", "user-probe")),
    "system, no last question": Probe(  # Mistral Nemo's stands in the last question, if that is the end
        [{"role": "system", "content": "system-probe"}, *_calls("", "call_probe_zero")[:3]],
        ("system-probe", "user-probe", "call-probe-0", "result-probe-0"),
    ),
    "call at the front": Probe(  # a history that was cut: Llama 3 takes its beginning for a question
        _calls("", "call_probe_zero")[1:], tuple(word for word in _ONE_CALL if word != "user-probe"), [_TOOL]
    ),
    "system alone": Probe([{"role": "system", "content": "system-probe"}], ("system-probe",)),
    "system of parts": Probe(
        [{"role": "system", "content": [_text("system-probe"), {"type": "image"}, _text("more-probe")]}, _user()],
        ("system-probe", "more-probe", "user-probe"),
    ),
    "calls": Probe(_calls("", "call_probe_zero"), _ONE_CALL),
    "calls beside text": Probe(_calls("text-probe", "call_probe_zero"), (*_ONE_CALL, "text-probe")),
    "several calls": Probe(
        _calls("", "call_probe_zero", "call_probe_one"), (*_ONE_CALL, "call-probe-1", "result-probe-1")
    ),
    "empty answer": Probe(
        [_user(), {"role": "assistant", "content": ""}, _user("last-probe")], ("user-probe", "last-probe")
    ),
    "tools": Probe([_user()], ("user-probe", "tool-probe"), [_TOOL]),
    "tools, no user": Probe(
        [{"role": "assistant", "content": "answer-probe"}], ("answer-probe", "tool-probe"), [_TOOL]
    ),
}


def _features(messages: Sequence[Message], tools: Tools | None) -> Iterator[str]:
    """The names of the probes that a conversation resembles."""
    asked = any(message["role"] == "user" for message in messages)
    if tools:
        yield "tools" if asked else "tools, no user"
    if messages[0].get("tool_calls"):
        yield "call at the front"
    if messages[0]["role"] == "system":
        yield "system" if asked else "system alone"
        if asked and messages[-1]["role"] != "user":
            yield "system, no last question"
        if isinstance(messages[0]["content"], list):
            yield "system of parts"
    for message in messages:
        calls = message.get("tool_calls")
        if message["role"] == "assistant" and not calls and is_blank(message["content"]):
            yield "empty answer"
        if calls or message["role"] == "tool":
            yield "calls"
        if calls and not is_blank(message["content"]):
            yield "calls beside text"
        if calls and len(calls) > 1:
            yield "several calls"


# -- Jinja


def read_template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else _words(error)
        raise LoadError(f"The chat template {file} cannot be read: {why}") from error


def check_template(file: Path) -> None:
    """Raises LoadError if the file is missing or is no Jinja."""
    _jinja(read_template(file), {})


def _jinja(source: str, special_tokens: Mapping[str, Any]) -> Write:
    try:
        template = SANDBOX.prepare(source)
    except Exception as error:  # the parser recurses, and Jinja computes constants
        raise LoadError(f"The chat template cannot be read: {_words(error)}") from error

    def write(messages: list[Message], tools: list[Mapping[str, Any]] | None, options: Mapping[str, Any]) -> str:
        own = {"messages": messages, "tools": tools, "documents": None}
        return SANDBOX.render(template, {**options, **special_tokens, **own})

    return write


def _refused(error: Exception | None) -> InvalidRequest:
    verb = "refuses this" if isinstance(error, TemplateError) else "fails"
    return InvalidRequest(f"The model's chat template {verb}: {_words(error)}", field="messages")


def _words(error: Exception | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__
