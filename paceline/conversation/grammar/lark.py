"""Pieces of llguidance's grammars: literals, free text, schemas.

`markers` are special tokens by their text. A grammar must name them, because text never contains them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# A blank, or a new line and its indentation. Small models that may write more blanks often do nothing else any more.
OPTIONS = {"whitespace_pattern": r"( |\r?\n[ \t]{0,24})?"}
ANYTHING = "/(?s:.*)/"

Part = dict[str, Any]


def literal(text: str, markers: Mapping[str, int]) -> list[str]:
    return [token(piece, markers) if piece in markers else quoted(piece) for piece in pieces(text, markers)]


def pieces(text: str, markers: Mapping[str, int]) -> list[str]:
    """`text` cut at the markers in it."""
    if not markers or not text:
        return [text] if text else []
    longest_first = sorted(markers, key=len, reverse=True)
    return [piece for piece in re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if piece]


def token(marker: str, markers: Mapping[str, int]) -> str:
    return f"<[{markers[marker]}]>"


def free_text(rule: str, marker: str, markers: Mapping[str, int]) -> list[str]:
    """Rules of any text and the marker that ends it, as a special token or as text."""
    ended = f" | {ANYTHING} {token(marker, markers)}" if marker in markers else ""
    return [f"{rule}: {rule}_written{ended}", f"{rule}_written[lazy]: {ANYTHING} {quoted(marker)}"]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def schema_part(name: str, schema: Mapping[str, Any]) -> Part:
    return {"name": name, "json_schema": {**schema, "x-guidance": OPTIONS}}


def lark_part(name: str, text: str) -> Part:
    return {"name": name, "lark_grammar": text}
