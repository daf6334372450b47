"""Fields of requests and answers that the APIs share, and those that are known and refused.

Types are strict (the string "0.5" is not a number), null means "not given", NaN and infinity are never valid.
Ranges are not checked here but by the service, for every caller alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from paceline.errors import InvalidRequest, Unsupported
from paceline.server.common.refused_fields import UNSUPPORTED, not_supported
from paceline.server.common.unknown_fields import HARMLESS, note_unknown
from paceline.server.http.body import read_body
from paceline.server.http.openapi import TEXT, list_of, object_of
from paceline.server.state import AppState
from paceline.types import Sampling

Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]  # the first wrong item is enough: there may be a million
Metadata = Annotated[  # OpenAI's limits
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
Priority = Annotated[int, Field(ge=-1000, le=1000)]  # lower comes first, under the policies that use it


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class RequestBody(Lenient):
    # What objects inside the body may hold, by their path; a list on it stands for its members. "tools function": only
    # those of this type.
    options_of: ClassVar[Mapping[str, frozenset[str]]] = {}
    formats: ClassVar[tuple[str, ...]] = ()  # those of GUIDED and FORMATS that mean something here
    model: str | None = None


Body = TypeVar("Body", bound=RequestBody)


class KeptTokens(BaseModel):
    specprefill_kept_tokens: int = 0  # there only where the prompt was wanted sparsely


# What messages hold, as /openapi.json describes it; it is checked where it is read.
TEXT_PART = object_of({"type": {"const": "text"}, "text": TEXT})
OTHER_PART = object_of({"type": TEXT})  # images, and in Anthropic's API tool calls and their results
CONTENT = {"anyOf": [TEXT, list_of(TEXT_PART), list_of(OTHER_PART)]}

GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")
FORMATS = ("response_format", "structured_outputs")  # like GUIDED, read from the plain object
AnyBody = TypeVar("AnyBody", bound=BaseModel)


async def read_request(
    state: AppState,
    request: Request,
    model: type[Body],
    unsupported: Mapping[str, tuple[Any, ...]],
    also: Collection[str] = (),
    *,
    streams: Callable[[Body], bool] = lambda body: False,
) -> tuple[Body, dict[str, Any]]:
    """The body as `model`, and as the plain object that the client sent; checked to be for the model that is served.
    `also`: fields that mean nothing here, and that clients send anyway. `streams`: will the answer be a stream? One can
    wait until the model is loaded."""
    body, fields = await read_body(request, model)
    refuse_unsupported(fields, unsupported, model.model_fields)
    known = _known(model).union(unsupported, also)
    note_unknown(state, request.url.path, fields, known, _unknown_inside(model, fields))
    state.check_ready(may_load=streams(body))
    state.check_model(body.model)
    return body, fields


async def read_other(state: AppState, request: Request, model: type[AnyBody]) -> tuple[AnyBody, dict[str, Any]]:
    """The same for a body that asks no model for anything."""
    body, fields = await read_body(request, model)
    note_unknown(state, request.url.path, fields, model.model_fields)
    return body, fields


def _unknown_inside(model: type[RequestBody], fields: Mapping[str, Any]) -> list[str]:
    """What the body's objects hold and may not, as in `stream_options.include_usge`."""
    unknown: dict[str, None] = {}
    for path, kinds in _known_inside(model).items():
        for given in _objects(fields, path.split(".")):
            given_kind = given.get("type")
            known = kinds.get("", kinds.get(given_kind) if isinstance(given_kind, str) else None)
            if known is not None:
                unknown |= {f"{path}.{name}": None for name in given if name not in known}
    return list(unknown)


@cache
def _known(model: type[RequestBody]) -> frozenset[str]:
    """Names that the body and its objects may hold."""
    inside = _known_inside(model).items()
    inner = {f"{path}.{name}" for path, kinds in inside for each in kinds.values() for name in each}
    return frozenset({*model.model_fields, *UNSUPPORTED, *model.formats, *inner})


@cache
def _known_inside(model: type[RequestBody]) -> dict[str, dict[str, Collection[str]]]:
    """By the path of the body's objects and their type: what they may hold."""
    kinds_at: dict[str, dict[str, Collection[str]]] = {}
    for where, options in {**_declared(model), **model.options_of}.items():
        path, _, kind = where.partition(" ")
        kinds_at.setdefault(path, {})[kind] = options
    return kinds_at


def _declared(model: type[RequestBody]) -> dict[str, Collection[str]]:
    """Options that have a schema of their own."""
    return {
        name: kind.model_fields
        for name, info in model.model_fields.items()
        for kind in (info.annotation, *get_args(info.annotation))
        if isinstance(kind, type) and issubclass(kind, Lenient) and kind.model_config["extra"] == "ignore"
    }


def _objects(value: Any, path: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _objects(each, path)
    elif isinstance(value, dict) and path:
        yield from _objects(value.get(path[0]), path[1:])
    elif isinstance(value, dict):
        yield value


def refuse_unsupported(
    fields: Mapping[str, Any], more: Mapping[str, tuple[Any, ...]], honoured: Collection[str] = ()
) -> None:
    """A field that would change the answer is refused by name: silence would be a wrong answer. `honoured`: those that
    the endpoint knows, though others do not."""
    for name, value in fields.items():
        harmless = more.get(name, None if name in honoured else UNSUPPORTED.get(name))
        if harmless is None and name.startswith("guided_") and name not in GUIDED and name not in HARMLESS:
            harmless = (None,)
        if harmless is not None and value not in harmless:
            raise Unsupported.at(name, f"{not_supported(name)}; leave it out.")


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def thinking_options(state: AppState, effort: str | None, enabled: bool | None) -> dict[str, Any]:
    """The template's options for `reasoning_effort` and `enable_thinking`; what it has no word for is refused."""
    template = state.backend.tokenizer.chat_template or ""
    options: dict[str, Any] = {}
    if enabled is not None:
        options["enable_thinking"] = enabled
    if effort is not None:
        if effort not in EFFORTS:
            raise InvalidRequest.at("reasoning_effort", f"is {effort!r}; it must be one of {', '.join(EFFORTS)}.")
        if "reasoning_effort" in template:
            options["reasoning_effort"] = effort
        elif "enable_thinking" in template:
            options.setdefault("enable_thinking", effort != "none")
        elif effort != "none" and not _thinks(state):
            raise InvalidRequest.at(
                "reasoning_effort", ": this model's chat template knows no levels of reasoning; leave it out."
            )
    return options


# Reasoning tokens for an effort that the template has no word for; the others are as long as the model likes.
EFFORT_BUDGETS: Mapping[str, int] = {"none": 0, "minimal": 256, "low": 1024, "medium": 8192}


def with_effort(sampling: Sampling, state: AppState, effort: str | None) -> Sampling:
    """An effort as a thinking budget, where the template knows no levels and the request sets no budget."""
    template = state.backend.tokenizer.chat_template or ""
    if effort is None or sampling.thinking_token_budget is not None or "reasoning_effort" in template:
        return sampling
    if not _thinks(state) or (effort == "none" and "enable_thinking" in template):
        return sampling
    return replace(sampling, thinking_token_budget=EFFORT_BUDGETS.get(effort))


def _thinks(state: AppState) -> bool:
    """Does the model reason, in a way that can be ended?"""
    return state.backend.answer_format.reasoning != "none" and state.backend.no_thinking_budget is None


def top_k_of(given: int | None) -> int | None:
    """-1 is vLLM's word for off."""
    if given is not None and given < -1:
        raise InvalidRequest.at("top_k", f"is {given}; it must be -1 or 0 (off), or more.")
    return 0 if given == -1 else given


def check_repeat_penalty(penalty: float | None, field: str) -> None:
    """The engine has another name for it: checked here, so that the client reads the name it wrote."""
    if penalty is not None and not 0 < penalty <= 100:
        raise InvalidRequest.at(field, f"is {penalty}; it must be above 0 and at most 100.")
