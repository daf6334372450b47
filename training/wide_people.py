"""Other people's sentences, tools and slots: to their homes, about their journeys, their addresses and names."""

from __future__ import annotations

from random import Random

from training import wide_booking, wide_intents, wide_labels
from training.data_chat import Chat


def tool_call(rng: Random) -> Chat:
    return rng.choices((wide_intents, wide_booking), (5, 4))[0].tool_call(rng)


def json_answer(rng: Random) -> Chat:
    return rng.choices((wide_booking, wide_labels, wide_intents), (6, 4, 3))[0].json_answer(rng)
