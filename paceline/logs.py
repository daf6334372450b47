"""How log lines are written: as text for people, or as one JSON object a line for what collects them."""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar
from typing import Any

from paceline.setting_values import LogFormat

TEXT = "%%(asctime)s %%(levelname)-7s %%(name)s%s: %%(message)s"
FIELDS = "fields"  # a record's attribute: what its line says, as data

request_id: ContextVar[str] = ContextVar("request_id", default="")  # of the HTTP request that is being answered
prompts = logging.getLogger("paceline.prompts")


def log_prompt(id: str, tokens: int, text: str) -> None:
    """`id`: the engine's, which answers show. The text is a Python literal: what a client writes can neither begin a
    line nor reach a terminal."""
    fields = {"request_id": request_id.get(), "id": id, "prompt_tokens": tokens, "prompt": text}
    prompts.info("%s %s prompt=%d %r", request_id.get() or "-", id, tokens, text, extra={FIELDS: fields})


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(level: str, format: LogFormat, name: str = "") -> None:
    """Once, before the first line. `name`: of a model among several, which text lines show."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if format == "json" else logging.Formatter(TEXT % name.replace("%", "%%"), "%H:%M:%S")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
