"""What people asked for and were told about hotels, tables, trains and taxis: MultiWOZ's sentences, with open slots."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

Json = dict[str, Any]
USER, SYSTEM = 220, 50  # sentences for one set of slots
PARTED = 400  # thanks, and goodbyes
SLOT = re.compile(r"#([A-Z]+)-([A-Z]+)-([A-Z]+)#")
LEFT = re.compile(  # values that are no slot: a call would have to have them
    r"\b((mon|tues|wednes|thurs|fri|satur|sun)day|thurs|tomorrow|today|tonight|two|three|four|five|six|seven|eight|nine|ten"
    r"|cheap|moderate(ly)?|expensive|north|south|east|west|centre|center|not an?|noon|midnight)\b"
)
TOLD = ("Inform", "Recommend", "Book", "OfferBook", "OfferBooked")


def _tidy(text: str) -> str:
    """Text without the spaces that a tokenizer put between words and signs."""
    text = re.sub(r" ?' ?(m|s|d|ve|re|ll)\b", r"'\1", " ".join(text.split()))
    text = re.sub(r" n't\b", "n't", text).replace(" ' ", "' ")
    text = re.sub(r" ([.,;:!?)])", r"\1", text)
    return re.sub(r"(\() ", r"\1", re.sub(r"(?<=[a-z]) - (?=[a-z])", "-", text))


def _right(text: str, slots: list[str]) -> bool:
    """Whether it says what its slots are for: one slot is often taken for another, and values are left in the text."""
    if re.search(r"\d", SLOT.sub("", text)) or not text.isascii() or not 4 <= len(text.split()) <= 30:
        return False
    if re.search(r"\ban? an?\b", text):
        return False
    lower, bare = text.lower(), SLOT.sub("", text).lower()
    arriving = re.search(r"arriv|get (me )?(there|to|in)|there by|reach", bare)
    if "arrive" in slots and not (arriving or re.search(r"by #\w+-\w+-arrive", lower)):
        return False
    if "leave" in slots and ("arriv" in bare or "there by" in bare) and "arrive" not in slots:
        return False
    swapped = r"\b(from|leave|leaving|depart|departing) (the )?#\w+-\w+-dest#|\bto (the )?#\w+-\w+-depart#"
    if re.search(rf"choice# #\w+-\w+-area|{swapped}", lower):
        return False
    return not ("stay" in slots and not re.search(r"night|days|stay", bare))


def pick_booking(folder: Path) -> Json:
    """`asked` and `told`: domain, slots, sentences with `{slot}`. `values`: what stood in some. `thanks`, `bye`."""
    (root,) = folder.glob("*/convlab")
    found: Json = {"asked": [], "told": []}
    values = json.loads((root / "e2e/damd/multiwoz/db/value_set_processed.json").read_text(encoding="utf-8"))
    named = {one for domain, slot in (("restaurant", "food"), ("train", "departure")) for one in values[domain][slot]}
    left = re.compile(rf"{LEFT.pattern}|\b({'|'.join(map(re.escape, sorted(named)))})\b")
    for kind, side, acts, most in (("asked", "user", ("Inform",), USER), ("told", "system", TOLD, SYSTEM)):
        path = root / f"nlg/template/multiwoz/auto_{side}_template_nlg.json"
        for act, sets in json.loads(path.read_text(encoding="utf-8")).items():
            domain, _, deed = act.lower().partition("-")
            if deed not in [one.lower() for one in acts]:
                continue
            for sentences in sets.values():
                grouped: dict[tuple[str, ...], list[str]] = {}
                for sentence in sentences:
                    slots = [slot.lower() for _, _, slot in SLOT.findall(sentence)]
                    if kind == "asked" and left.search(SLOT.sub("", sentence).lower()):
                        continue
                    if slots and len(set(slots)) == len(slots) and _right(_tidy(sentence), slots):
                        text = SLOT.sub(lambda one: f"{{{one[3].lower()}}}", _tidy(sentence))
                        grouped.setdefault(tuple(sorted(slots)), []).append(text)
                for slots_, texts in grouped.items():
                    texts = list(dict.fromkeys(texts))
                    Random(1).shuffle(texts)
                    found[kind].append({"domain": domain, "deed": deed, "slots": slots_, "texts": texts[:most]})
    said = json.loads((root / "nlg/template/multiwoz/auto_user_template_nlg.json").read_text(encoding="utf-8"))
    for name, act, has, never in (("thanks", "thank", "thank|apprecia", "bye|night"), ("bye", "bye", "bye", "$^")):
        texts = [_tidy(text) for many in said.get(f"general-{act}", {}).values() for text in many]
        texts = [text for text in texts if text.isascii() and len(text.split()) < 13 and not re.search(r"[\d#?]", text)]
        kept = [text for text in texts if re.search(has, text.lower()) and not re.search(never, text.lower())]
        found[name] = sorted(set(kept))
        Random(1).shuffle(found[name])
        del found[name][PARTED:]
    wanted = {
        "restaurant": ("name", "food"),
        "hotel": ("name",),
        "attraction": ("name", "type"),
        "hospital": ("department",),
    }
    found["values"] = {
        f"{domain} {slot}": [
            text
            for text in map(_tidy, values[domain][slot])
            if text.isascii() and len(text) < 32 and not re.search(r"care|\||/", text)
        ]
        for domain, slots_ in wanted.items()
        for slot in slots_
    }
    return found
