"""Addresses and names as people write them, with their parts (`sources_labels`), in letters, forms and lists, as JSON."""

# ruff: noqa: E501, SIM905  (rows are easier to read than lists)

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from random import Random
from string import capwords
from typing import Any

from training import wide, wide_keyed, wide_kinds, wide_prompted
from training.data_chat import Chat
from training.held_words import free, taken
from training.sources import records
from training.wide_facts import capital
from training.wide_prompted import Form
from training.wide_talk import lines

Json = dict[str, Any]
Parts = list[tuple[str, str]]
# What a part may be called. One that the examiner has under all of its names is never asked for.
NAMES = {
    "number": "house_number street_number building_number house_no", "street": "street street_name road thoroughfare", "city": "city town municipality place",
    "state": "state us_state state_code province", "zip": "zip zip_code postal_code postcode", "country": "country nation", "unit": "unit apartment suite unit_number apt",
    "building": "building building_name landmark", "floor": "department sub_unit section", "box": "po_box box box_number mailbox", "recipient": "recipient addressee attention care_of",
    "first": "first_name given_name forename firstname", "last": "last_name surname family_name lastname", "middle": "middle_name middle second_name",
    "title": "title prefix salutation honorific", "suffix": "suffix name_suffix", "nickname": "nickname called alias short_name",
    "company": "company firm business organization employer", "form": "legal_form company_type legal_type", "branch": "branch chapter local_branch",
    "person": "full_name name contact contact_person person", "phone": "phone phone_number telephone tel", "mail": "email mail e_mail email_address",
    "address": "address full_address street_address location",
}  # fmt: skip
WHERE = lines(
    """Ship it to {a}.|Please deliver to {a}.|Our new address is {a}.|The house is at {a}.|I live at {a} these days.|Send the parcel to {a}, please.|We moved to {a} last month.|Pick me up at {a}.|{a}|{a}|Address: {a}|Deliver to: {a}|The meeting is at {a}, second door on the left.|Is {a} still your address?|There was a fire at {a} last night.|You will find the shop at {a}.|Return to sender: {a}|Crew needed at {a}.|Open house on Sunday, {a}.|The package for {a} came back.|Taxi to {a}.|Please change my address to {a}.|mail goes to {a} from now on"""
)
WHO = lines(
    """{p}|{p}|Name: {p}|This is {p} speaking.|The form was signed by {p}.|Please put {p} on the guest list.|We hired {p} last week.|Dear {p},|My name is {p}.|Patient: {p}|{p} is here for you.|A letter came for {p}.|The author is {p}.|Room 12 belongs to {p}.|{p} won the raffle.|In attendance: {p}|The license was issued to {p}.|yours, {p}|Passenger {p} is missing."""
)


def _rows(text: str) -> list[str]:
    """`~` is a new line."""
    return [one.replace("~", "\n") for one in lines(text)]


BOTH = _rows(
    """{p}, {a}|{p}~{a}|{p}~{a}|Ship to {p}, {a}.|Deliver this to {p} at {a}.|{p} lives at {a}.|Bill to:~{p}~{a}|Customer: {p}~Address: {a}|Order for {p}; send it to {a}.|{p} has moved to {a}.|Invoice for {p}, {a}. Due in 30 days.|The owner of {a} is {p}.|From: {p}, {a}|Visit {p} at {a} tomorrow.|{p} wants the catalog sent to {a}.|Name: {p}; Address: {a}"""
)
FIRM = _rows(
    """{p} works for {c}.|{c}, attn: {p}|{p}, {c}|{p}~{c}|I am {p} from {c}.|Contact at {c}: {p}|The invoice of {c} was approved by {p}.|{c} is run by {p}.|{p} joined {c} in May.|{c}~{a}|{c}, {a}|The office of {c} is at {a}.|{c} has opened a store at {a}.|Vendor: {c}~Location: {a}|Our client {c} moved to {a}.|{p}~{c}~{a}|{p} of {c}, {a}"""
)
REACH = (". Phone {t}", ", tel. {t}", "\n{t}", "; call {t}", ". You can call {t}.", " ({t})", "\nPhone: {t}")
WRITE = (". Write to {m}", ", {m}", "\n{m}", ". Mail: {m}", " <{m}>", "\nE-mail: {m}")


@cache
def known() -> dict[str, list[Parts]]:
    path = records() / "labels.json"
    read = json.loads(path.read_text()) if path.exists() else {}
    return {kind: [[(told, name) for told, name in one] for one in many] for kind, many in read.items()}


@cache
def pool() -> dict[tuple[str, bool, bool], list[str]]:
    """Parts by name, and by whether they are in small or in capital letters."""
    found: dict[tuple[str, bool, bool], set[str]] = defaultdict(set)
    for one in (one for many in known().values() for one in many):
        for told, name in one:
            found[name, told.islower(), told.isupper()].add(told)
    return {key: sorted(values) for key, values in found.items()}


REDRAWN = ("street", "city", "first", "last", "middle", "nickname", "company", "state", "recipient", "building")


def _anew(told: str, name: str, rng: Random) -> str:
    """Another part of the same look: other digits, or the same part of somebody else."""
    if name in ("number", "zip", "box", "unit", "floor") and rng.random() < 0.7:
        first = re.search(r"[1-9]", told)
        return re.sub(
            r"\d", lambda found: str(rng.randint(1 if first and found.start() == first.start() else 0, 9)), told
        )
    if name in REDRAWN and rng.random() < 0.6:
        return rng.choice(pool()[name, told.islower(), told.isupper()])
    return told


def _cased(parts: Parts, rng: Random) -> Parts:
    """In small letters, as many are in the source, or as most people write."""
    if rng.random() < 0.5 and all(told.islower() or not re.search("[a-z]", told) for told, _ in parts):
        return [(capwords(told) if name != "state" or len(told) > 2 else told.upper(), name) for told, name in parts]
    return parts


def _drawn(kind: str, rng: Random) -> tuple[str, Parts]:
    """One of a kind as text, and its parts."""
    parts = _cased([(_anew(told, name, rng), name) for told, name in rng.choice(known()[kind])], rng)
    text, comma = "", rng.choice((", ", ", ", ", ", " ", "\n"))
    for place, (told, name) in enumerate(parts):
        before = parts[place - 1][1] if place else ""
        if kind == "address":
            tight = before == "number" or (before, name) == ("state", "zip") or (name == "unit" and rng.random() < 0.4)
            sign = " " if tight else comma
            sign = ", " if sign == "\n" and name in ("state", "unit", "zip") else sign
        elif kind == "person":
            sign = ", " if before == "last" and name == "first" else " "
            told_ = {"nickname": rng.choice((f'"{told}"', f"({told})"))}.get(name, told)
            text += (sign if place else "") + told_
            continue
        else:
            sign = rng.choice((" ", ", ")) if name == "form" else " "
        text += (sign if place else "") + told
    return text, parts


@dataclass(frozen=True)
class LabelForm(Form):
    """`named`: what every part is called; `frames`: what the text is like; parts that the text has not got are null."""

    named: tuple[tuple[str, str], ...] = ()
    frames: tuple[str, ...] = ()

    def told(self, rng: Random) -> tuple[str, Json]:
        names = dict(self.named)
        for _ in range(200):
            text, parts = _letter(rng.choice(self.frames), set(names), rng)
            if set(names) <= set(parts):
                return text, {name: parts[part] for part, name in self.named}
        return text, {name: parts.get(part) for part, name in self.named}


def _letter(frame: str, wanted: set[str], rng: Random) -> tuple[str, dict[str, str]]:
    """A text, and all its parts."""
    parts: dict[str, str] = {}
    frame = frame.rstrip(".,") if wanted & {"phone", "mail"} else frame
    for slot, kind in (("{a}", "address"), ("{p}", "person"), ("{c}", "company")):
        if slot in frame:
            if kind == "company" and "company" in wanted and "form" not in wanted and rng.random() < 0.6:
                told = rng.choice(known()[kind])
                text = next(told for told, name in told if name == "company")
                found = [(text, "company")]
            else:
                text, found = _drawn(kind, rng)
            text = text.replace("\n", ", ") if kind in wanted else text
            frame = frame.replace(slot, text)
            parts |= {name: told for told, name in found}
            if kind != "company":
                parts[kind] = text
    if "phone" in wanted:
        parts["phone"] = wide.phone(rng)
        frame += rng.choice(REACH).replace("{t}", parts["phone"])
    if "mail" in wanted:
        parts["mail"] = wide.mail(rng)
        frame += rng.choice(WRITE).replace("{m}", parts["mail"])
    return frame, parts


@cache
def _called(part: str) -> tuple[str, ...]:
    return tuple(name for name in free(NAMES.get(part, part).split()) if not taken(name))


TITLES = {"a": ("Address", "Delivery", "Place", "Location", "Parcel"), "p": ("Person", "Name", "Guest", "Signer"), "b": ("Contact", "Customer", "Order", "Recipient", "Card")}  # fmt: skip


def form(rng: Random) -> LabelForm:
    """A text is drawn first; what it has is asked for."""
    kind = rng.choices((WHERE, WHO, BOTH, FIRM), (5, 3, 5, 3))[0]
    while True:
        frame = rng.choice(kind)
        extra = {one for one in ("phone", "mail") if rng.random() < (0.2 if kind in (BOTH, FIRM) else 0.05)}
        _, parts = _letter(frame, extra, rng)
        have = [part for part in parts if _called(part)]
        whole = {"first", "last", "middle", "title", "suffix", "nickname"}
        if "person" in have and (kind in (BOTH, FIRM)) and rng.random() < 0.6:  # the name as a whole
            have = [part for part in have if part not in whole]
        else:
            have = [part for part in have if part != "person"]
        split = {"number", "street", "city", "state", "zip", "unit", "building", "floor", "box", "country", "recipient"}
        if "address" in have and kind in (BOTH, FIRM) and rng.random() < 0.25:
            have = [part for part in have if part not in split]
        else:
            have = [part for part in have if part != "address"]
        if have:
            break
    if len(have) > 1 and rng.random() < 0.3:
        have = [part for part in have if rng.random() < 0.6] or have[:1]
    if rng.random() < 0.5:
        rng.shuffle(have)
    style = rng.choice((0, 0, 0, 0, 1, 2))
    named = {part: wide_kinds.styled(rng.choice(_called(part)), style) for part in have}
    if len(set(named.values())) < len(named):
        return form(rng)
    titles = TITLES["a" if kind is WHERE else "p" if kind is WHO else "b"]
    title = rng.choice([one for one in titles if not taken(one)] or ["Entry"])
    slots = set(re.findall(r"\{[apc]\}", frame))
    frames = tuple(one for one in kind if set(re.findall(r"\{[apc]\}", one)) == slots)
    values: dict[str, Json] = {name: {"type": "string"} for name in named.values()}
    return LabelForm(capital(title), values, None, {}, (), tuple(named.items()), frames)


def json_answer(rng: Random) -> Chat:
    one = form(rng)
    draw = rng.random()
    if draw < 0.45:
        text, values = one.told(rng)
        while None in values.values():
            text, values = form(rng).told(rng)
        return wide_kinds.json_answer(rng, wide_kinds.Drawn(text, text, "", values, values))
    return (wide_keyed if draw < 0.75 else wide_prompted).json_answer(rng, one)
