"""What people say to voice assistants: sentences with slots, written by the authors of Home Assistant and OpenVoiceOS.

Their sentences are small grammars: `[maybe]`, `(one|other)`, `(first;second)` in any order, `<rule>` and `{list:slot}`.
A few ways through each are kept, with the slots open; the values are drawn when a conversation is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Json = dict[str, Any]
MOST = 24  # ways through the sentences of one block
SKIPPED = ("HassRespond", "HassNevermind", "HassBroadcast", "HassGetState")
GUESSED = re.compile(
    r"command|timer_half|brightness_level|temperature_names|volume_step_"
)  # slots that stand for other values
# Intent files whose name tells what they are for; the others are about the assistant itself, or the same again.
SKILLS = {
    "ovos-skill-weather": r"sunset|sunrise|humidity|is_|next_rain|(current|high|low)_temp|current_weather|weekend",
    "ovos-skill-date-time": r"what\.time\.is|time\.until|weekday\.for|current_date|next\.leap",
    "ovos-skill-moviemaster": r"^movie\.|genre",
    "ovos-skill-randomness": r"roll|pick|coin",
    "ovos-skill-application-launcher": r"close|launch",
    "ovos-skill-dictation": r"start",
    "ovos-skill-audio-recording": r"start",
    "ovos-skill-wallpapers": r"about",
    "ovos-skill-days-in-history": r"history",
    "ovos-skill-ddg": r"search",
    "ovos-skill-parrot": r"^speak",
}  # fmt: skip


def ways(sentence: str, rules: dict[str, str], rng: Random) -> str:
    """One way through a sentence, drawn."""
    text, place = _sequence(sentence, 0, rules, rng)
    assert place == len(sentence), sentence
    return " ".join(text.split())


def _sequence(text: str, place: int, rules: dict[str, str], rng: Random) -> tuple[str, int]:
    """Up to the end of a group: one of its alternatives, its parts in any order where `;` stands between them."""
    choices: list[list[str]] = [[""]]
    while place < len(text) and text[place] not in ")]":
        sign = text[place]
        if sign == "|":
            choices.append([""])
        elif sign == ";":
            choices[-1].append("")
        elif sign in "([":
            inner, place = _sequence(text, place + 1, rules, rng)
            choices[-1][-1] += inner if sign == "(" or rng.random() < 0.4 else ""
        elif sign == "<":
            end = text.index(">", place)
            choices[-1][-1] += _sequence(rules[text[place + 1 : end]], 0, rules, rng)[0]
            place = end
        else:
            choices[-1][-1] += sign
        place += 1
    parts = rng.choice(choices)
    rng.shuffle(parts)
    return " ".join(parts), place


def _kept(draw: Callable[[], str], most: int) -> list[str]:
    found = {
        text: None for text in (draw() for _ in range(most * 3)) if text.isascii() and 2 <= len(text.split()) <= 22
    }
    return list(found)[:most]


def pick_home(folder: Path) -> Json:
    """`lists`: what may stand in a slot; `intents`: sentences with open slots, and values that none has."""
    told = json.loads((folder / "home_assistant_intents/data/en.json").read_text(encoding="utf-8"))
    rng, rules = Random(1), told["expansion_rules"]
    found = []
    for name, intent in told["intents"].items():
        if name in SKIPPED:
            continue
        for block in intent["data"]:
            texts: list[str] = []
            for sentence in block["sentences"]:
                texts += _kept(
                    lambda sentence=sentence: ways(sentence, rules, rng), MOST // len(block["sentences"]) + 2
                )
            texts = [text for text in texts if not GUESSED.search(text)]
            if not texts:
                continue
            domains = block.get("requires_context", {}).get("domain", [])
            about = {"name": name, "domain": domains[0] if isinstance(domains, list) and domains else ""}
            found.append(about | {"fixed": block.get("slots", {}), "texts": list(dict.fromkeys(texts))})
    lists: Json = {}
    for name, entry in told["lists"].items():
        if "range" in entry:
            lists[name] = {"range": [entry["range"]["from"], entry["range"]["to"]]}
        elif "values" in entry:
            pairs = [(ways(one["in"], rules, rng), one["out"]) for one in entry["values"] for _ in range(4)]
            lists[name] = {"values": list(dict.fromkeys(pairs))}
    return {"lists": lists, "intents": found}


def pick_skills(folders: dict[str, Path]) -> list[Json]:
    """The intent files of skills: the file's name, and its sentences."""
    rng, found = Random(2), []
    for package, wanted in SKILLS.items():
        for path in sorted(folders[package].glob("**/locale/[eE][nN]-[uU][sS]/**/*.intent")):
            if not re.search(wanted, path.stem) or "vocabulary" in path.parts:
                continue
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
            lines = [line for line in lines if line and line[0] != "#" and "{{" not in line]
            even = [line for line in lines if line.count("(") == line.count(")")]
            every = [ways(line, {}, rng) for line in even for _ in range(12 if "(" in line or "[" in line else 1)]
            texts = [text for text in dict.fromkeys(every) if text.isascii() and 2 <= len(text.split()) <= 18]
            rng.shuffle(texts)
            if texts:
                found.append({"name": re.sub(r"\W+", "_", path.stem), "domain": "", "fixed": {}, "texts": texts[:60]})
    return found


def pick_intents(folders: dict[str, Path]) -> Json:
    home = pick_home(folders["home-assistant-intents"])
    return home | {"intents": home["intents"] + pick_skills(folders)}
