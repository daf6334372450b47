"""Addresses and names whose parts people have labelled by hand, out of the training data of two parsers."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

Labelled = list[tuple[str, str]]  # text and label, in the order of the text
STREET = ("StreetNamePreModifier", "StreetNamePreDirectional", "StreetNamePreType", "StreetName", "StreetNamePostType",
          "StreetNamePostDirectional", "StreetNamePostModifier")  # fmt: skip
JOINT = {one: "street" for one in STREET} | {
    "AddressNumber": "number", "PlaceName": "city", "StateName": "state", "ZipCode": "zip", "CountryName": "country",
    "OccupancyType": "unit", "OccupancyIdentifier": "unit", "BuildingName": "building", "LandmarkName": "building",
    "SubaddressType": "floor", "SubaddressIdentifier": "floor", "USPSBoxType": "box", "USPSBoxID": "box",
    "Recipient": "recipient",
    "GivenName": "first", "Surname": "last", "MiddleName": "middle", "MiddleInitial": "middle",
    "PrefixMarital": "title", "PrefixOther": "title", "SuffixGenerational": "suffix", "SuffixOther": "suffix",
    "Nickname": "nickname", "FirstInitial": "first",
    "CorporationName": "company", "CorporationNameOrganization": "company", "CorporationNameAndCompany": "company",
    "CorporationLegalType": "form", "CorporationNameBranchType": "branch", "CorporationNameBranchIdentifier": "branch",
}  # fmt: skip


def _entries(text: str, tag: str) -> list[Labelled]:
    found: list[Labelled] = []
    for entry in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL):
        parts: Labelled = []
        for label, word in re.findall(r"<(\w+)>([^<]*)</\1>", entry):
            told = " ".join(html.unescape(word).split()).strip(" ,;()'\"")
            name = JOINT.get(label, "?")
            if parts and parts[-1][1] == name:
                parts[-1] = (f"{parts[-1][0]} {told}", name)
            else:
                parts.append((told, name))
        names = [name for _, name in parts]
        whole = " ".join(told for told, _ in parts)
        clear = "?" not in names and len(set(names)) == len(names) > 1 and all(told for told, _ in parts)
        if clear and whole.isascii() and len(whole) < 110 and "@" not in whole and parts not in found:
            found.append(parts)
    return found


def pick_labels(addresses: Path, names: Path) -> dict[str, Any]:
    (places,) = addresses.glob("*/training/labeled.xml")
    found = {"address": _entries(places.read_text(encoding="utf-8"), "AddressString")}
    for kind in ("person", "company"):
        (path,) = names.glob(f"*/name_data/labeled/{kind}_labeled.xml")
        found[kind] = _entries(path.read_text(encoding="utf-8"), "Name")
    return found
