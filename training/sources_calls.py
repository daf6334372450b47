"""What people asked of functions, with the right calls: bfcl-eval's questions whose values stand in them.

BFCL is a public test of function calling. The embedded model learns from it, so it must not be judged by it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SETS = ("simple_python", "multiple", "live_simple", "live_multiple", "exec_simple", "exec_multiple")
NONE = ("irrelevance", "live_irrelevance")
LONGEST, MAX_TOOLS = 320, 12  # characters of a question; functions beside it
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SAME = ("string", "integer", "number", "boolean", "array")
TYPES = {"float": "number"} | {name: name for name in SAME}


def pick_calls(folder: Path) -> list[Json]:
    """`text`, `tools`, and the right call's `name` and `arguments`; no name where none of the tools is for it."""
    found = []
    for name in (*SETS, *NONE):
        right = {line["id"]: line["ground_truth"] for line in _lines(folder, f"possible_answer/BFCL_v4_{name}.json")}
        for line in _lines(folder, f"BFCL_v4_{name}.json"):
            text = line["question"][0][-1]["content"].strip()
            tools = [tool for tool in map(_tool, line["function"][:MAX_TOOLS]) if tool]
            if not 12 <= len(text) <= LONGEST or not text.isascii() or len(line["question"][0]) != 1 or not tools:
                continue
            called = _call(right.get(line["id"], []), text, tools)
            if called is not None or name in NONE:
                found.append(
                    {"text": " ".join(text.split()), "tools": tools} | (called or {"name": "", "arguments": {}})
                )
    return found


def _lines(folder: Path, name: str) -> Iterator[Json]:
    data = folder / "bfcl_eval/data"
    older = data / "unused_datasets" / (name if "/" in name else f"question/{name}")
    for path in (data / name, older):
        if path.exists():
            yield from map(json.loads, filter(str.strip, path.read_text(encoding="utf-8").splitlines()))
            return


def _tool(told: Json) -> Json | None:
    """A function with values of plain types, told in few words. Others are left out."""
    values = {}
    for name, value in told["parameters"].get("properties", {}).items():
        one = TYPES.get(value.get("type", ""))
        if one is None or (one == "array" and TYPES.get(value.get("items", {}).get("type", "")) is None):
            continue
        values[name] = {"type": one, "description": _brief(value.get("description", ""))}
        if one == "array":
            values[name]["items"] = {"type": TYPES[value["items"]["type"]]}
        if value.get("enum") and len(value["enum"]) <= 12:
            values[name]["enum"] = value["enum"]
    required = told["parameters"].get("required", [])
    if any(name not in values for name in required) or not values:
        return None
    about = {"name": told["name"], "description": _brief(told.get("description", ""))}
    return about | {"values": values, "required": required}


def _brief(text: str) -> str:
    sentence = re.split(r"(?<=[a-z)])\.\s|\s\(|\. Note|, in the format|, such as|, e\.g\.", text.strip())[0]
    return sentence[:90].rsplit(" ", 1)[0] if len(sentence) > 90 else sentence


def _call(right: list[Any], text: str, tools: list[Json]) -> Json | None:
    """The one call, if every value of it can be read in the text."""
    if len(right) != 1:
        return None
    if isinstance(right[0], str):
        try:
            called = ast.parse(right[0], mode="eval").body
            assert isinstance(called, ast.Call)
            name, given = ast.unparse(called.func), {one.arg: [ast.literal_eval(one.value)] for one in called.keywords}
        except (SyntaxError, ValueError, AssertionError):
            return None
    else:
        ((name, given),) = right[0].items()
    tool = next((tool for tool in tools if tool["name"] == name), None)
    if tool is None:
        return None
    arguments = {}
    for key, choices in given.items():
        schema = tool["values"].get(key)
        left_out = "" in choices and key not in tool["required"]
        told = ({"items": {}} if left_out else schema) if schema else {}  # what may be left out is, if it is a guess
        value = next((one for one in choices if one != "" and _told(one, text, told)), None)
        if schema is None or value is None or (left_out and isinstance(value, bool)):
            if left_out:
                continue
            return None
        arguments[str(key)] = value
    return {"name": name, "arguments": arguments} if arguments and not set(tool["required"]) - set(arguments) else None


def _told(value: Any, text: str, schema: Json) -> bool:
    """Whether the value stands in the text as it is, or can be chosen by it."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        said = f"{value:g}"
        spelled = WORDS[value] if isinstance(value, int) and 0 <= value < len(WORDS) else said
        return re.search(rf"(?<![\d.]){re.escape(said)}(?![\d])|\b{spelled}\b", text.replace(",", ""), re.I) is not None
    if isinstance(value, list):
        return bool(value) and all(_told(one, text, schema.get("items", {})) for one in value)
    return isinstance(value, str) and (value.lower() in text.lower() or value in schema.get("enum", ()))


# -- several calls at once, and conversations

MANY = (
    "parallel",
    "parallel_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "exec_parallel",
    "exec_parallel_multiple",
)
TURNS = ("multi_turn_base",)


def pick_many(folder: Path) -> list[Json]:
    """`text`, `tools`, and the right `calls`, two to four of them."""
    found = []
    for name in MANY:
        right = {line["id"]: line["ground_truth"] for line in _lines(folder, f"possible_answer/BFCL_v4_{name}.json")}
        for line in _lines(folder, f"BFCL_v4_{name}.json"):
            text = " ".join(line["question"][0][-1]["content"].split())
            tools = [tool for tool in map(_tool, line["function"][:MAX_TOOLS]) if tool]
            calls = [_call([one], text, tools) for one in right.get(line["id"], [])]
            if text.isascii() and len(text) <= 420 and 2 <= len(calls) <= 4 and None not in calls:
                found.append({"text": text, "tools": tools, "calls": calls})
    return found


def pick_turns(folder: Path) -> list[Json]:
    """What is wanted in one turn of a conversation, if one call does it and its words tell all values."""
    documents = folder / "bfcl_eval/data/multi_turn_func_doc"
    files: dict[str, list[Json]] = {}
    for path in sorted(documents.glob("*.json")):
        told = map(json.loads, filter(str.strip, path.read_text(encoding="utf-8").splitlines()))
        files[path.stem.replace("_", "")] = [tool for tool in map(_tool, told) if tool]
    found: dict[str, Json] = {}
    for name in TURNS:
        right = {line["id"]: line["ground_truth"] for line in _lines(folder, f"possible_answer/BFCL_v4_{name}.json")}
        for line in _lines(folder, f"BFCL_v4_{name}.json"):
            for turn, calls in zip(line["question"], right.get(line["id"], []), strict=False):
                text = " ".join(turn[-1]["content"].split()) if turn else ""
                if not 12 <= len(text) <= LONGEST or not text.isascii() or len(calls) != 1:
                    continue
                for tools in files.values():
                    called = _call(calls, text, tools)
                    if called and all(_exact(value, text) for value in called["arguments"].values()):
                        called["arguments"] = {key: _whole(value) for key, value in called["arguments"].items()}
                        first = [tool for tool in tools if tool["name"] == called["name"]]
                        others = [tool for tool in tools if tool not in first]
                        found[text] = {"text": text, "tools": (first + others)[:MAX_TOOLS]} | called
    return list(found.values())


def _exact(value: Any, text: str) -> bool:
    """Not only a choice or a part of a word, which in a conversation may come from what was said before."""
    return not isinstance(value, str) or re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
