from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from paceline.logs import FIELDS, JsonFormatter, log_prompt


def test_a_line_is_one_json_object_with_its_fields() -> None:
    record = logging.LogRecord("paceline.x", logging.WARNING, "f", 1, "two\nlines of %s", ("wörds",), None)
    setattr(record, FIELDS, {"tokens": 3})
    line = JsonFormatter().format(record)
    assert "\n" not in line
    parsed = json.loads(line)
    assert parsed.pop("time").endswith("Z")
    assert parsed == {"level": "warning", "logger": "paceline.x", "message": "two\nlines of wörds", "tokens": 3}


def test_an_exception_is_in_the_same_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), sys.exc_info())
    assert "ValueError: no" in json.loads(JsonFormatter().format(record))["exception"]


def test_the_whole_program_logs_in_the_format() -> None:
    code = (
        "import logging; from paceline.logs import configure; configure('info', '{}'); logging.getLogger('a').info('b')"
    )
    lines = {
        format: subprocess.run(
            [sys.executable, "-c", code.format(format)], capture_output=True, text=True, check=True
        ).stderr
        for format in ("text", "json")
    }
    assert json.loads(lines["json"])["message"] == "b"
    assert lines["text"].endswith("INFO    a: b\n")


def test_a_prompt_is_one_line_without_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    text = "one\ntwo\r\x1b[31m\x9b0m\u2028\u202e ' \""
    with caplog.at_level("INFO", "paceline.prompts"):
        log_prompt("chatcmpl-1", 3, text)
    [record] = caplog.records
    assert record.getMessage().isprintable() and record.getMessage().startswith("- chatcmpl-1 prompt=3 '")
    assert json.loads(JsonFormatter().format(record))["prompt"] == text
