from __future__ import annotations

import json

import pytest

from paceline.ranks.orders import PROTOCOL, BadOrder, Order


def test_an_order_survives_the_round_trip() -> None:
    order = Order(7, "plan", {"value": ["text", True], "now": 1.25, "nothing": None, "word": "é\n"})
    assert Order.decoded(order.encoded()) == order


def test_numbers_without_bounds_survive_it() -> None:
    order = Order(1, "bytes", {"value": [float("inf"), 1 << 60]})
    assert Order.decoded(order.encoded()) == order


def test_an_order_is_json() -> None:
    assert json.loads(Order(1, "step").encoded()) == {"version": PROTOCOL, "number": 1, "kind": "step", "body": {}}


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"\x80\x04K\x01.", "no order"),  # a pickle
        (b"[]", "no order"),
        (b"{}", "no order"),
        (b'{"version": 99, "number": 1, "kind": "step", "body": {}}', "version 99"),
        (b'{"version": 1, "number": "1", "kind": "step", "body": {}}', "number '1'"),
        (b'{"version": 1, "number": 1, "kind": "format the disk", "body": {}}', "format the disk"),
        (b'{"version": 1, "number": 1, "kind": "step", "body": []}', "no order"),
    ],
)
def test_what_is_no_order_is_refused(payload: bytes, said: str) -> None:
    with pytest.raises(BadOrder, match=said):
        Order.decoded(payload)
