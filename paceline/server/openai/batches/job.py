"""A batch: its requests, its state, and the files in which both outlive the process."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from paceline.errors import InvalidRequest
from paceline.server.http.body import parse_json
from paceline.server.openai.batches.store import new_id, write_json

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
MAX_REQUESTS = 50_000  # OpenAI's
LINE_FIELDS = ("custom_id", "method", "url", "body")
MAX_PROBLEMS = 100  # that a failed batch names
WINDOW_SECONDS = 24 * 3600
LONGEST_ID = 512  # characters of a custom_id

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
ENDED = ("failed", "completed", "expired", "cancelled")


@dataclass(slots=True)
class Job:
    """Times are in whole seconds since 1970; None: it has not happened."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    owner: str | None
    endpoint: str
    input_file_id: str
    metadata: dict[str, str] | None = None
    id: str = field(default_factory=lambda: new_id("batch_"))
    status: Status = "validating"
    created_at: int = field(default_factory=lambda: int(time.time()))
    expires_at: int = 0
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.expires_at = self.expires_at or self.created_at + WINDOW_SECONDS

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def become(self, status: Status) -> None:
        self.status = status
        setattr(self, f"{status}_at", int(time.time()))

    def described(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        hidden = ("owner", "total", "completed", "failed", "problems")
        shown = {name: value for name, value in asdict(self).items() if name not in hidden}
        counts = {"total": self.total, "completed": self.completed, "failed": self.failed}
        if not self.ended:  # named already, but not the client's yet
            shown |= {"output_file_id": None, "error_file_id": None}
        errors = {"object": "list", "data": self.problems} if self.problems else None
        more = {"completion_window": "24h", "errors": errors, "request_counts": counts}
        return {**shown, "object": "batch", **more}

    # -- on disk

    def save(self, folder: Path) -> None:
        write_json(folder / f"{self.id}.json", asdict(self))


@dataclass(frozen=True, slots=True)
class Line:
    custom_id: str
    body: dict[str, Any]
    fields: dict[str, Any]  # all that the line has


class BadLine(Exception):
    """What is wrong with a line of the input."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def problems_of(path: Path, endpoint: str) -> tuple[int, list[dict[str, Any]]]:
    """How many requests the input has, and what is wrong with it. Blocks its thread."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    count = 0

    def add(code: str, message: str, line: int | None = None, param: str | None = None) -> None:
        found.append({"code": code, "message": message, "line": line, "param": param})

    for number, text in numbered_lines(path):
        count += 1
        if count > MAX_REQUESTS:
            add("too_many_requests", f"A batch has at most {MAX_REQUESTS} requests.")
            break
        try:
            line = read_line(text, endpoint)
            if line.custom_id in seen:
                raise BadLine("duplicate_custom_id", f"The custom_id {line.custom_id!r} is there twice.", "custom_id")
            seen.add(line.custom_id)
        except BadLine as problem:
            add(problem.code, str(problem), number, problem.param)
            if len(found) >= MAX_PROBLEMS:
                break
    if not count:
        add("empty_file", "The input file has no requests.")
    return count, found


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, each with its number from 1."""
    with path.open("rb") as lines:
        for number, text in enumerate(lines, 1):
            if text.strip():
                yield number, text


def read_line(text: bytes, endpoint: str) -> Line:
    """Raises BadLine."""
    try:
        fields = parse_json(text)
    except InvalidRequest as error:
        raise BadLine("invalid_json_line", str(error)) from None
    if not isinstance(fields, dict):
        raise BadLine("invalid_json_line", "A line must be a JSON object.")
    id, method, url, body = (fields.get(name) for name in LINE_FIELDS)
    if not isinstance(id, str) or not 1 <= len(id) <= LONGEST_ID:
        raise BadLine(
            "missing_required_parameter", f"custom_id must be text of 1 to {LONGEST_ID} characters.", "custom_id"
        )
    if method not in (None, "POST"):
        raise BadLine("invalid_method", f"method is {method!r}; it must be POST.", "method")
    if url != endpoint:
        raise BadLine("mismatched_endpoint", f"url is {url!r}; the batch is for {endpoint}.", "url")
    if not isinstance(body, dict):
        raise BadLine("missing_required_parameter", "body must be an object.", "body")
    for name in ("stream", "background"):
        if body.get(name):
            raise BadLine("invalid_request", f"A request of a batch cannot ask for {name}.", f"body.{name}")
    return Line(id, body, fields)


def finished(path: Path) -> dict[str, bool]:
    """The requests whose results are in a file, and whether each was answered. What a process that was killed left at
    its end, half a line, is cut off."""
    if not path.exists():
        return {}
    found: dict[str, bool] = {}
    whole = 0
    with path.open("rb") as lines:
        for text in lines:
            try:
                result = json.loads(text if text.endswith(b"\n") else b"")
                found[result["custom_id"]] = result.get("error") is None
            except (ValueError, LookupError, TypeError, AttributeError):
                break
            whole += len(text)
    with path.open("r+b") as file:
        file.truncate(whole)
    return found


def result_line(
    line: Line, *, response: dict[str, Any] | None = None, error: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": line.custom_id,
        "response": response,
        "error": error,
    }
