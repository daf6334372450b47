"""What can go wrong, in types. Nothing here knows HTTP: `server/errors` maps each to a status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self


class PacelineError(Exception):
    """Base of every error that Paceline raises on purpose. Its text is written for the user."""


class InvalidRequest(PacelineError):
    """The request cannot be served as written; `field` names the part that is wrong."""

    code: str | None = None

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.code = code or self.code

    @classmethod
    def at(cls, field: str, problem: str) -> Self:
        """The field's name, then what is wrong with it: "must be text." or ": this model takes no images."."""
        return cls(f"{field}{'' if problem.startswith(':') else ' '}{problem}", field=field)


class Unsupported(InvalidRequest):
    """The request is valid, and asks for what this server does not do."""

    code = "unsupported_parameter"


class UnknownLora(InvalidRequest):
    """There is no adapter of this name, or not any more."""

    code = "model_not_found"

    def __init__(self, name: str, known: Iterable[str], *, field: str = "model") -> None:
        names = ", ".join(map(repr, known)) or "none"
        super().__init__(f"There is no adapter {name!r} here; loaded are: {names}.", field=field)


class PromptTooLong(InvalidRequest):
    """The prompt does not fit the model's context; both numbers are in the text."""

    def __init__(
        self, prompt_tokens: int, context_length: int, *, field: str = "messages", at_least: bool = False
    ) -> None:
        found = f"at least {prompt_tokens}" if at_least else str(prompt_tokens)
        super().__init__(
            f"This model's context is {context_length} tokens, and the prompt has {found}, "
            "which leaves no room for an answer. Shorten the prompt.",
            field=field,
            code="context_length_exceeded",
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class RequestFailed(PacelineError):
    """One request failed while it ran; its neighbours did not."""


class EngineUnavailable(PacelineError):
    """The engine takes no work: not started, draining, stopped, or failed too many steps in a row."""


class EngineFailed(PacelineError):
    """The engine gave up, and the server has ended with it (the CLI exits with 3: a supervisor may start it again)."""


class LoadError(PacelineError):
    """A model cannot be loaded; the text says what is wrong and what to do (the CLI exits with 2)."""


class StartAbandoned(PacelineError):
    """The start was cancelled before it was done."""


class SettingsError(PacelineError):
    """A setting is unknown or has a bad value; the text says which, from where, and what to do."""


class NeverFits(InvalidRequest):
    """The prompt does not fit the memory even if nothing else ran; the numbers are in the text."""

    def __init__(self, tokens: int, need: int, room: int, *, field: str = "messages") -> None:
        super().__init__(
            f"A prompt of {tokens} tokens needs {need / 1e9:.2f} GB of memory, and this server has {room / 1e9:.2f} GB "
            "beside the model. Shorten the prompt, or give the server more (--memory-limit-gb).",
            field=field,
            code="memory_limit_exceeded",
        )


class Refused(PacelineError):
    """Not now: the request held nothing, or nothing any more. `retry_after`: seconds after which it may fit."""

    cause = "refused"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(Refused):
    """Too many requests wait already."""

    cause = "queue_full"


class QueueTimeout(Refused):
    """The request waited for its turn as long as it may."""

    cause = "queue_timeout"


class DeadlineExceeded(Refused):
    """The request had begun, or should have, and took longer than the server allows."""

    cause = "deadline"


class SlowReader(Refused):
    """The answer was not read, and waited for its reader until the buffer was full."""

    cause = "slow_reader"
