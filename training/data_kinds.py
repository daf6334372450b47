"""The stages and their kinds: how many tokens each has, and what draws them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training import (
    facts_find,
    facts_forms,
    facts_talk,
    pictures_talk,
    wide_asked,
    wide_beside,
    wide_beyond,
    wide_calls,
    wide_checks,
    wide_choose,
    wide_common,
    wide_copy,
    wide_daily,
    wide_empty,
    wide_focus,
    wide_forms,
    wide_keyed,
    wide_kinds,
    wide_near,
    wide_needs,
    wide_pairs,
    wide_people,
    wide_pick,
    wide_pictures,
    wide_plain,
    wide_prompted,
    wide_scenes,
    wide_small,
    wide_spans,
    wide_talk,
    wide_told,
    wide_tools,
    wide_truths,
    wide_wants,
    wide_world,
)
from training.data_chat import Chat, Split

Draw = Callable[[Random, Split], Chat]
TEXT = "text"  # the kind of rows that are plain text


@dataclass(frozen=True)
class Recipe:
    """A stage: its rows' length, and how many million tokens of which kind it has."""

    length: int
    shares: dict[str, float]
    about: str


STAGES = {
    "text": Recipe(1024, {}, "all of the corpus, prose twice"),
    "chat": Recipe(
        1024,
        {"talk": 1.0, "persona": 0.2, "dialogue": 0.1, "lookup": 0.6, "scene": 0.3, "memory": 0.6, "json": 0.3,
        "tools": 0.4, "wide": 11.0, "wide_talk": 10.0, "common": 7.0, "wide_json": 3.0, "wide_keyed": 3.0,
        "wide_tools": 3.0, "wide_acts": 5.5, "wide_prompted": 4.0, "told_json": 6.0, "told_keyed": 8.0,
        "told_prompted": 5.0, "told_tools": 6.0, "wide_beyond": 8.5, "wide_daily": 8.5,
        "wide_copy": 5.0, "wide_pick": 6.0, "wide_near": 3.2, "called_tools": 6.5, "called_json": 4.0,
        "people_tools": 6.0, "people_json": 7.5, "wide_beside": 6.0, "wide_world": 6.5, "wide_small": 6.0,
        "wide_spans": 11.0, "wide_truths": 7.5, "wide_wants": 11.5},
        "conversations of up to 1,024 tokens",
    ),
    "pics": Recipe(
        1024,
        {"picture": 0.3, "picture_groups": 0.2, "picture_position": 0.2, "picture_word": 0.4, "picture_emoji": 0.3,
        "pictures_two": 0.3, "wide_picture": 2.0, "wide_scene": 3.0, "wide_view": 4.5, "wide_focus": 2.3,
        "wide_empty": 0.5},
        "conversations about one or two pictures",
    ),
    "pics_wide": Recipe(1024, {"wide_view": 1.0, "wide_focus": 0.5, "wide_empty": 0.1},
    "pictures of 96 by 128 pixels"),
    "pics_tall": Recipe(1024, {"wide_view": 1.0, "wide_focus": 0.5, "wide_empty": 0.1},
    "pictures of 128 by 96 pixels"),
    "pics_flat": Recipe(1024, {"wide_view": 0.7, "wide_focus": 0.35, "wide_empty": 0.1},
    "pictures of 64 by 128 pixels"),
    "pics_slim": Recipe(1024, {"wide_view": 0.6, "wide_focus": 0.3, "wide_empty": 0.1},
    "pictures of 128 by 64 pixels"),
    "long4k": Recipe(4096, {"hidden": 1.0, "dense": 0.4, "memory": 0.4, "wide": 16.0},
    "facts hidden in up to 4,096 tokens"),
    "long16k": Recipe(16384, {"hidden": 1.5, "dense": 0.4, "memory": 0.3, "wide": 9.0},
    "facts hidden in up to 16,384 tokens"),
}  # fmt: skip
KINDS = sorted({TEXT, *(kind for recipe in STAGES.values() for kind in recipe.shares)})


def _two(rng: Random, split: Split) -> Chat:
    return pictures_talk.two_emoji(rng, split) if rng.random() < 0.15 else pictures_talk.two_pictures(rng, split)


DRAWS: dict[str, Draw] = {
    "talk": facts_talk.talk,
    "persona": facts_talk.persona,
    "dialogue": lambda rng, split: facts_talk.dialogue(rng),
    "lookup": facts_find.lookup,
    "scene": facts_find.scene,
    "json": facts_forms.json_answer,
    "tools": facts_forms.tool_call,
    "picture": pictures_talk.one_group,
    "picture_groups": pictures_talk.two_groups,
    "picture_position": pictures_talk.position,
    "picture_word": pictures_talk.word,
    "picture_emoji": pictures_talk.emoji,
    "pictures_two": _two,
    "wide_talk": lambda rng, split: rng.choices((wide_asked, wide_talk, wide_checks, wide_plain), (5, 3, 3, 3))[0].draw(
        rng
    ),
    "wide_json": lambda rng, split: (wide_kinds if rng.random() < 0.75 else wide_forms).json_answer(rng),
    "wide_tools": lambda rng, split: rng.choices((wide_kinds, wide_forms, wide_prompted), (6, 3, 2))[0].tool_call(rng),
    "wide_prompted": lambda rng, split: wide_prompted.json_answer(rng),
    "wide_keyed": lambda rng, split: wide_keyed.json_answer(rng),
    "common": lambda rng, split: wide_common.draw(rng),
    "wide_beyond": lambda rng, split: wide_beyond.draw(rng),
    "wide_daily": lambda rng, split: wide_daily.draw(rng),
    "told_tools": lambda rng, split: (wide_choose.tool_call if rng.random() < 0.75 else wide_choose.told_call)(rng),
    "told_json": lambda rng, split: wide_kinds.json_answer(rng, wide_told.drawn(rng)),
    "told_keyed": lambda rng, split: wide_keyed.json_answer(rng, wide_told.form(rng)),
    "told_prompted": lambda rng, split: wide_prompted.json_answer(rng, wide_told.form(rng)),
    "wide_acts": lambda rng, split: rng.choices(
        (wide_tools.tool_call, wide_tools.thing_call, wide_needs.tool_call), (4, 2, 5)
    )[0](rng),
    "wide_picture": lambda rng, split: wide_pictures.draw(rng),
    "wide_scene": lambda rng, split: wide_scenes.draw(rng),
    "wide_view": lambda rng, split: wide_pairs.draw(rng),
    "wide_focus": lambda rng, split: wide_focus.draw(rng),
    "wide_empty": lambda rng, split: wide_empty.draw(rng),
    "wide_beside": lambda rng, split: wide_beside.draw(rng),
    "wide_spans": lambda rng, split: wide_spans.draw(rng),
    "wide_truths": lambda rng, split: wide_truths.draw(rng),
    "wide_wants": lambda rng, split: wide_wants.draw(rng),
    "wide_world": lambda rng, split: wide_world.draw(rng),
    "wide_small": lambda rng, split: wide_small.draw(rng),
    "wide_copy": lambda rng, split: wide_copy.draw(rng),
    "wide_pick": lambda rng, split: wide_pick.draw(rng),
    "wide_near": lambda rng, split: wide_near.draw(rng),
    "called_tools": lambda rng, split: wide_calls.draw(rng),
    "called_json": lambda rng, split: wide_calls.json_answer(rng),
    "people_tools": lambda rng, split: wide_people.tool_call(rng),
    "people_json": lambda rng, split: wide_people.json_answer(rng),
}
