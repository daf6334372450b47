"""What people say to their homes and assistants (`sources_intents`): calls of tools, one or two at once, and JSON of the slots."""

# ruff: noqa: E501, SIM905  (rows are easier to read than lists)

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import Any

from training import wide, wide_choose, wide_keyed, wide_kinds, wide_prompted
from training.data_chat import Chat, Turn
from training.held_words import free, held_phrase, taken
from training.sources import records
from training.wide_facts import capital
from training.wide_long import system
from training.wide_prompted import Form
from training.wide_talk import lines

Json = dict[str, Any]
# Intent and domain, names of the tool, what it is for.
TOOLS = """HassCancelAllTimers|cancel_all_timers clear_timers|Cancels all timers, or all of one area
HassCancelTimer|cancel_timer stop_timer timer_cancel|Stops a running timer for good
HassClimateGetTemperature|get_temperature climate_temperature read_temperature|Tells how warm it is
HassClimateSetFanMode|set_fan_mode climate_fan_mode|Sets the fan mode of the air conditioning
HassClimateSetTemperature|set_temperature climate_set thermostat_set|Sets the temperature that heating or cooling aims at
HassDecreaseTimer|decrease_timer shorten_timer timer_minus|Takes time off a timer
HassFanSetSpeed|set_fan_speed fan_speed|Sets the speed of fans in percent
HassGetCurrentDate current_date|get_date current_date date_today|Tells today's date
HassGetCurrentTime what_time_is_it|get_time current_time clock_time|Tells what time it is
HassGetWeather current_weather|weather_now current_weather weather_report|Tells the weather as it is now
HassIncreaseTimer|increase_timer extend_timer timer_plus|Adds time to a timer
HassLawnMowerDock|dock_mower mower_return|Sends the lawn mower back to its base
HassLawnMowerStartMowing|start_mowing mower_start mow_lawn|Lets the lawn mower mow
HassLightSet|light_set adjust_light set_light|Sets brightness or color of lights
HassListAddItem|list_add_item add_to_list todo_add|Puts an item on a list
HassListCompleteItem|list_complete_item check_off todo_done|Checks an item of a list off
HassListRemoveItem|list_remove_item remove_from_list|Removes an item from a list
HassMediaNext|media_next next_track skip_track|Goes on to the next track
HassMediaPause|media_pause pause_media|Pauses what is playing
HassMediaPlayerMute|mute_player media_mute|Mutes a player
HassMediaPlayerUnmute|unmute_player media_unmute|Gives a player its sound back
HassMediaPrevious|media_previous previous_track|Goes back to the track before
HassMediaSearchAndPlay|search_and_play media_play play_media|Looks for music or video and plays it
HassMediaUnpause|media_unpause resume_media|Goes on with what was paused
HassPauseTimer|pause_timer hold_timer|Pauses a timer
HassUnpauseTimer|unpause_timer resume_timer|Lets a paused timer go on
HassStartTimer|start_timer create_timer set_timer|Starts a timer
HassTimerStatus|timer_status timer_left|Tells how much time is left on a timer
HassSetPosition|set_position cover_position|Moves a cover to a position in percent
HassSetVolume|set_volume volume_set|Sets the volume to a level in percent
HassSetVolumeRelative|volume_step change_volume|Turns the volume up or down
HassShoppingListAddItem|shopping_list_add add_shopping_item|Puts an item on the shopping list
HassShoppingListCompleteItem|shopping_list_complete complete_shopping_item|Checks an item of the shopping list off
HassTurnOff:cover|close_cover cover_close|Closes doors, blinds and other covers
HassTurnOn:cover|open_cover cover_open|Opens doors, blinds and other covers
HassTurnOff:light|light_off turn_off_light lights_out|Switches lights off
HassTurnOn:light|light_on turn_on_light|Switches lights on
HassTurnOff:fan|fan_off turn_off_fan|Switches fans off
HassTurnOn:fan|fan_on turn_on_fan|Switches fans on
HassTurnOff:valve|close_valve valve_close|Closes a valve
HassTurnOn:valve|open_valve valve_open|Opens a valve
HassTurnOff:lock|unlock lock_open|Unlocks a lock
HassTurnOn:lock|lock lock_close|Locks a lock
HassTurnOn:scene|activate_scene scene_on|Activates a scene
HassTurnOn:button|press_button button_press|Presses a button
HassTurnOn:script|run_script script_start|Runs a script
HassVacuumCleanArea|clean_area vacuum_area|Lets the vacuum clean an area
HassVacuumReturnToBase|vacuum_return dock_vacuum|Sends the vacuum back to its base
HassVacuumStart|vacuum_start start_vacuum|Starts the vacuum
current_temperature|temperature_now outside_temperature|Tells the temperature outside
high_temperature|high_temperature daily_high|Tells the highest temperature of a day
low_temperature|low_temperature daily_low|Tells the lowest temperature of a day
humidity|humidity air_humidity|Tells the humidity
is_clear|is_clear clear_sky|Tells whether the sky is clear
is_fog|is_fog fog_check|Tells whether it is foggy
is_rain|is_rain rain_check|Tells whether it will rain
is_snow|is_snow snow_check|Tells whether it will snow
is_stormy|is_stormy storm_check|Tells whether a storm is coming
is_wind|is_wind wind_check|Tells whether it is windy
next_rain|next_rain when_rain|Tells when it will rain next
sunrise|sunrise sunrise_time|Tells when the sun rises
sunset|sunset sunset_time|Tells when the sun sets
weekend_forecast|weekend_forecast forecast_weekend|The weather of the weekend
next_leap_year|next_leap_year leap_year|Tells when the next leap year is
time_until|time_until countdown days_left|Tells how long it is until a date
weekday_for_date|weekday_for_date day_of_week|Tells which weekday a date is
genre_movie_search movie_genre_search|movies_by_genre search_movies|Lists movies of a genre
genre_tv_search|shows_by_genre search_tv|Lists television shows of a genre
movie_cast|movie_cast get_cast|Tells who acts in a movie
movie_description|movie_description describe_movie|Tells what a movie is about
movie_genres|movie_genres genres_of|Tells the genres of a movie
movie_information|movie_information movie_info|General information about a movie
movie_production|movie_production produced_by|Tells which company made a movie
movie_recommendations|similar_movies recommend_movies|Recommends movies that are like another
movie_runtime|movie_runtime runtime_of|Tells how long a movie is
movie_year|movie_year release_date|Tells when a movie came out
movie_popular movie_top|popular_movies top_movies|Lists popular movies
flip_a_coin|flip_coin coin_flip|Flips a coin
pick_a_number|pick_number random_number|Picks a number between two others
roll_multiple_dice roll_single_die|roll_dice dice_roll|Rolls dice
close|close_app quit_application|Closes an application
launch|launch_app open_application|Starts an application
start_dictation|start_dictation take_dictation|Starts writing down what is said
start_recording|start_recording record_audio|Starts an audio recording
picture_about|show_picture find_picture|Shows a picture of something
wallpaper_about|set_wallpaper change_wallpaper|Changes the wallpaper
births_in_history|born_today births_in_history|Tells who was born on this day
deaths_in_history|died_today deaths_in_history|Tells who died on this day
today_in_history|history_of_day today_in_history|Tells what happened on a day of the year
search_duck|web_search search_web look_up|Searches the web
speak|say speak repeat_text|Says a sentence aloud"""

ROOMS = lines(
    """kitchen|living room|bedroom|bathroom|hallway|garage|office|study|attic|basement|cellar|nursery|guest room|dining room|laundry room|porch|balcony|terrace|garden|workshop|library|conservatory|pantry|playroom|gym|den|sauna|storage room|entrance|master bedroom|kids room|sunroom|utility room|shed|greenhouse|studio|music room|loft|patio|driveway"""
)
FLOORS = lines("first|second|third|ground|upper|lower|top|main|bottom|middle")
NAMED = {
    "light": "reading lamp|desk lamp|floor lamp|bedside lamp|chandelier|porch light|night light|ceiling light|spotlight|string lights|tree lights|hall lamp|mirror light|corner lamp|aquarium light",
    "cover": "front blinds|garage door|left curtain|right curtain|skylight|awning|roller shutter|patio door|bay window|sun shade|barn door|driveway gate|side gate",
    "valve": "water valve|sprinkler valve|main valve|gas valve|radiator valve|pool valve|garden tap",
    "lock": "front door|back door|side door|garden gate|safe|bike shed|cabinet|gun locker|mailbox",
    "scene": "movie night|party|sunrise|dinner|good morning|bedtime|romance|focus|relax|game night|autumn evening",
    "button": "doorbell|panic|reset|coffee|feeder|reboot|gate",
    "script": "morning routine|leaving home|feed the cat|water the plants|night patrol|close everything",
    "vacuum": "robot vacuum|Rosie|dust buster|sweeper|Wall-E|mopping robot|upstairs robot",
    "climate": "thermostat|radiator|heat pump|air conditioner|floor heating|boiler|ecobee|heater",
    "fan": "ceiling fan|tower fan|desk fan|extractor fan|window fan|box fan",
    "media_player": "kitchen speaker|television|soundbar|record player|stereo|projector|bedroom radio|jukebox|sonos|old radio",
    "lawn_mower": "Shaun|robo mower|green machine|lawn robot|Mowbot|back yard",
    "todo": "shopping|packing|birthday|wish|work|holiday|chores|camping|reading|party|garden|school",
    "timer": "pizza|laundry|tea|egg|pasta|bread|homework|meditation|oven|rice|nap|roast|workout|dough",
}  # fmt: skip
GENRES = lines(
    "comedy|horror|drama|western|science fiction|romantic|crime|fantasy|animated|war|mystery|action|thriller|musical|documentary"
)
FOODS = ("food", "fruit", "vegetable", "drink", "beverage", "tool", "clothing", "dish", "herb", "cheese")
SPOKEN = lines(
    "good night everyone|dinner is ready|the bus is here|mind the step|I love this place|welcome home|all is well|the tea is cold|time to get up|never give up"
)
# Other names for a slot. A slot that the examiner has under all of its names is never used.
OTHER = {
    "area": "area room area_name where zone_name", "floor": "floor storey floor_name on_floor", "name": "name device device_name entity which_one",
    "temperature": "temperature target_temperature degrees setpoint", "color": "color light_color hue tone", "brightness": "brightness brightness_pct level dim_level",
    "percentage": "percentage speed_percent percent", "position": "position percent_open position_pct", "volume_level": "volume_level volume loudness",
    "volume_step": "volume_step direction up_or_down", "item": "item list_item thing_to_add entry", "search_query": "search_query query what_to_play",
    "media_class": "media_class media_kind kind_of_media", "device_class": "device_class cover_kind kind_of_cover", "fan_mode": "fan_mode mode fan_setting",
    "hours": "hours hour_count h", "minutes": "minutes minute_count min", "seconds": "seconds second_count sec", "location": "location place city where",
    "date": "date day when on_date", "movie": "movie film movie_title title", "genre": "genre movie_genre kind_of_movie", "query": "query search_terms topic subject",
    "application": "application app app_name program", "lower": "lower minimum from_number at_least", "upper": "upper maximum to_number at_most",
    "faces": "faces sides sides_per_die", "number": "number dice_count how_many", "sentence": "sentence utterance words text_to_say",
    "color_temperature": "color_temperature kelvin light_kelvin", "scene": "scene scene_name mood", "list_name": "list_name list which_list",
    "timer_name": "timer_name timer name_of_timer", "label": "label name file_name recording_name", "script": "script script_name routine", "button": "button button_name",
    "start_hours": "start_hours set_hours", "start_minutes": "start_minutes set_minutes", "start_seconds": "start_seconds set_seconds",
}  # fmt: skip
OWN = {
    "scene": "scene",
    "todo": "list_name",
    "script": "script",
    "button": "button",
    "weather": "location",
    "": "label",
}  # names of a domain
SLOT = re.compile(r"\{(?:(\w+):)?(\w+)\}")


@dataclass(frozen=True)
class Text:
    told: str
    domain: str
    slots: tuple[str, ...]


@dataclass(frozen=True)
class Tool:
    names: tuple[str, ...]
    about: str
    texts: tuple[Text, ...]
    lists: dict[str, str]  # slot to the list that its values are in

    @cached_property
    def sets(self) -> list[tuple[str, ...]]:
        return sorted({tuple(sorted(text.slots)) for text in self.texts if text.slots})


@cache
def known() -> tuple[list[Tool], Json]:
    """The tools, and the lists of values."""
    path = records() / "intents.json"
    read = json.loads(path.read_text()) if path.exists() else {"lists": {}, "intents": []}
    grouped: dict[str, list[Json]] = defaultdict(list)
    for one in read["intents"]:
        domain = one["domain"] or one["fixed"].get("domain", "")
        for key in (one["name"], f"{one['name']}:{domain}"):
            grouped[key].append(one | {"domain": domain})
    tools = []
    for row in TOOLS.split("\n"):
        keys, names, about = row.split("|")
        texts, lists = [], {}
        for one in (one for key in keys.split() for one in grouped[key]):
            for told in one["texts"]:
                told = told.replace("{color_temperature:temperature}", "{color_temperature}")
                told = told.replace("{timer_name:name}", "{timer_name}")
                told = told.replace("{name}", f"{{{OWN.get(one['domain'], 'name')}}}")
                found = SLOT.findall(told)
                if len({slot for _, slot in found}) == len(found) and all(map(_named, (slot for _, slot in found))):
                    lists.update({slot: inside or slot for inside, slot in found})
                    texts.append(Text(told, one["domain"], tuple(slot for _, slot in found)))
        left = tuple(name for name in names.split() if not taken(name))
        texts = [text for text in texts if not held_phrase(text.told)]
        if left and texts:
            tools.append(Tool(left, about, tuple(texts), lists))
    return tools, read["lists"]


@cache
def _named(slot: str) -> tuple[str, ...]:
    return tuple(name for name in free(OTHER.get(slot, slot).split()) if not taken(name))


def _value(slot: str, inside: str, domain: str, rng: Random) -> tuple[str, Any]:
    """What is said, and what it means."""
    lists = known()[1]
    entry = lists.get(inside, {})
    if "values" in entry:
        said, meant = rng.choice(entry["values"])
        return said, meant
    if "range" in entry:
        low, high = entry["range"]
        number = rng.randint(low, high) if rng.random() < 0.7 else rng.randint(low, min(high, low + 30))
        number = number // 100 * 100 if low >= 1000 else number
        return str(number), number
    if slot in ("lower", "upper", "faces", "number"):
        number = rng.randint(2, 20) if slot != "upper" else rng.randint(21, 999)
        return str(number), number
    said = _word(slot, "timer" if slot == "timer_name" else domain, rng)
    return said, said


def _word(slot: str, domain: str, rng: Random) -> str:
    if slot == "area":
        return rng.choice(ROOMS) if rng.random() < 0.85 else f"{wide.first_name(rng)}'s room"
    if slot == "floor":
        return rng.choice(FLOORS)
    if slot == "item":
        kinds = wide_kinds.kinds()
        kind = rng.choice([name for name in kinds if name in FOODS] or list(kinds))
        return rng.choice(kinds[kind][:40]) if rng.random() < 0.7 else f"{wide.adjective(rng)} {wide.noun(rng)}"
    if slot == "location":
        return wide.town(rng)
    if slot == "date":
        return wide.date(rng)
    if slot == "genre":
        return rng.choice(GENRES)
    if slot == "sentence":
        return rng.choice(SPOKEN) if rng.random() < 0.6 else f"the {wide.noun(rng)} is {wide.adjective(rng)}"
    if slot == "application":
        return rng.choice((wide.noun(rng), capital(wide.made_up(rng)), "firefox", "the calculator", "spotify"))
    if slot in ("name", "timer_name", OWN.get(domain)) and domain in NAMED:
        return rng.choice(NAMED[domain].split("|"))
    return rng.choice((wide.phrase(rng), capital(wide.noun(rng)), f"The {capital(wide.noun(rng))}", wide.person(rng)))


PLEASE = lines(
    "please {t}|{t}, please|{t} please|can you {t}|could you {t}|would you {t}|hey, {t}|{t} for me|{t} now|i want you to {t}|ok {t}|{t}, thanks"
)


def _said(text: Text, tool: Tool, names: dict[str, str], rng: Random, exact: bool = False) -> tuple[str, Json]:
    """The text with its slots filled, and the values; `exact`: words as they are said, not the choice they stand for."""
    values: Json = {}
    told = text.told
    for slot in text.slots:
        for _ in range(20):
            said, meant = _value(slot, tool.lists[slot], text.domain, rng)
            if str(said) not in told and not any(str(said) == str(other) for other in values.values()):
                break
        told = SLOT.sub(lambda found, slot=slot, said=said: said if found[2] == slot else found[0], told)
        values[names[slot]] = said if exact and isinstance(meant, str) else meant
    return told, values


def _phrased(told: str, rng: Random) -> str:
    """Spoken text as people type it."""
    question = re.match(
        r"(?i)(what|how|who|when|is|are|was|will|do|does|can|could|would|which|where|should|at|i)\b", told
    )
    if not question and rng.random() < 0.3:
        told = rng.choice(PLEASE).format(t=told)
    if rng.random() < 0.55:
        told = capital(told) + ("?" if question else rng.choice((".", ".", "", "!")))
    return told


def _names(tool: Tool, rng: Random) -> dict[str, str]:
    style = rng.choice((0, 0, 0, 0, 1))
    found: dict[str, str] = {}
    for slot in tool.lists:
        first = _named(slot)[0]
        name = wide_kinds.styled(first if rng.random() < 0.4 else rng.choice(_named(slot)), style)
        found[slot] = slot if name in found.values() else name
    return found


def _schema(slot: str, tool: Tool) -> Json:
    entry = known()[1].get(tool.lists[slot], {})
    if "values" in entry:
        return {"type": "string", "enum": list(dict.fromkeys(meant for _, meant in entry["values"]))}
    whole = "range" in entry or slot in ("lower", "upper", "faces", "number")
    return {"type": "integer" if whole else "string"}


def _signature(tool: Tool, name: str, names: dict[str, str], slots: set[str], style: Random) -> Json:
    """With the slots that are wanted and some of the others."""
    every = [slot for slot in names if all(slot in text.slots for text in tool.texts)]
    shown = [
        slot for slot in names if slot in slots or slot in every or style.random() < (0.5 if len(names) < 6 else 0.25)
    ]
    style.shuffle(shown)
    values = {names[slot]: _schema(slot, tool) for slot in shown or list(names)[:1]}
    parameters = {"type": "object", "properties": values, "required": [names[slot] for slot in every]}
    return {"type": "function", "function": {"name": name, "description": tool.about, "parameters": parameters}}


AND = lines(
    "{a} and {b}|{a}, then {b}|{a}. {b}|{a} and then {b}|{a}; {b}|{a}, and {b}|first {a}, then {b}|{a}. Also {b}"
)


def tool_call(rng: Random) -> Chat:
    """One wish, sometimes two at once, and tools that have to do with the same home."""
    tools = known()[0]
    style = rng.choice((0, 0, 0, 1, 2))
    wanted = rng.sample(tools, min(len(tools), rng.choice((1, 1, 1, 1, 1, 2))))
    shown: dict[str, Json] = {}
    calls, said = [], []
    for tool in list(wanted):
        names, name = _names(tool, rng), _tool_name(tool, style, rng)
        text = rng.choice(
            [one for one in tool.texts if set(one.slots) == set(rng.choice(tool.sets or [()]))] or tool.texts
        )
        told, values = _said(text, tool, names, rng)
        shown[name] = _signature(tool, name, names, set(text.slots), rng)
        order = [key for key in shown[name]["function"]["parameters"]["properties"] if key in values]
        calls.append((name, {key: values[key] for key in order}))
        said.append(told)
    missing = len(wanted) == 1 and rng.random() < 0.08
    others = [tool for tool in tools if tool not in wanted]
    words = set(wanted[0].names[0].split("_"))
    near = [tool for tool in others if words & set(tool.names[0].split("_"))]
    for _ in range(rng.choice((1, 2, 3, 4, 6))):
        tool = rng.choice(near if near and not missing and rng.random() < 0.5 else others or tools)
        name = _tool_name(tool, style, rng)
        if name not in shown and tool not in wanted:
            wanted.append(tool)
            shown[name] = _signature(tool, name, _names(tool, rng), set(), rng)
    text = _phrased(said[0], rng) if len(said) == 1 else capital(rng.choice(AND).format(a=said[0], b=said[1]))
    answer = Turn("assistant", calls=calls)
    if missing and len(shown) > 1 and not any(words & set(tool.names[0].split("_")) for tool in wanted[1:]):
        shown.pop(calls[0][0])
        answer = Turn("assistant", wide_choose.NONE)
    signatures = rng.sample(list(shown.values()), len(shown))
    return Chat([Turn("user", text), answer], "people_tools", (), system(rng) if rng.random() < 0.2 else "", signatures)


def _tool_name(tool: Tool, style: int, rng: Random) -> str:
    name = rng.choice(tool.names)
    return capital(wide_kinds.styled(name, 1)) if style == 2 else wide_kinds.styled(name, style)


# -- JSON


@dataclass(frozen=True)
class IntentForm(Form):
    """Tools that have the same slots; under `key` it stands which of them is meant, if that is asked for."""

    tools: tuple[tuple[str, Tool], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    key: str = ""
    exact: bool = True

    def told(self, rng: Random) -> tuple[str, Json]:
        names = dict(self.names)
        name, tool = rng.choice(self.tools)
        text = rng.choice([one for one in tool.texts if set(one.slots) == set(names)])
        told, values = _said(text, tool, names, rng, self.exact)
        values |= {self.key: name} if self.key else {}
        return _phrased(told, rng), {key: values[key] for key in self.values}


KEYS = lines("intent|action|command|wish|request|what_to_do|operation|function|task|job")


def form(rng: Random, chosen: bool, exact: bool) -> IntentForm:
    """`chosen`: with a key that says which tool is meant, out of several. `exact`: without choices, which no prompt shows."""
    tools = [tool for tool in known()[0] if tool.sets]
    first = rng.choice(tools)
    slots = max(rng.sample(first.sets, min(2, len(first.sets))), key=len)
    lists = {slot: first.lists[slot] for slot in slots}
    alike = [tool for tool in tools if slots in tool.sets and {slot: tool.lists[slot] for slot in slots} == lists]
    same = [tool for tool in alike if tool is not first]
    many = [first, *rng.sample(same, min(len(same), rng.choice((0, 1, 2, 3))))] if chosen else [first]
    named = [(rng.choice(tool.names), tool) for tool in many]
    names = {slot: name for slot, name in _names(first, rng).items() if slot in slots}
    values = {names[slot]: _schema(slot, first) for slot in slots}
    values = {name: {"type": one["type"]} if exact else one for name, one in values.items()}
    key = rng.choice([name for name in KEYS if not taken(name) and name not in values]) if chosen else ""
    if key:
        others = [tool for tool in tools if tool not in alike]
        enum = [name for name, _ in named]
        enum += [rng.choice(tool.names) for tool in rng.sample(others, min(len(others), rng.randint(1, 4)))]
        rng.shuffle(enum)
        values = {key: {"type": "string", "enum": list(dict.fromkeys(enum))}} | values
    order = list(values) if rng.random() < 0.5 else rng.sample(list(values), len(values))
    spoken = [one for one in ("Command", "Request", "Wish") if not taken(one)] or ["Order"]
    title = rng.choice(spoken) if chosen else "".join(map(capital, first.names[0].split("_")))
    shown = {name: values[name] for name in order}
    return IntentForm(title, shown, None, {}, (), tuple(named), tuple(names.items()), key, exact)


def json_answer(rng: Random) -> Chat:
    draw = rng.random()
    if draw < 0.35:
        text, values = form(rng, False, True).told(rng)
        return wide_kinds.json_answer(rng, wide_kinds.Drawn(text, text, "", values, values))
    if draw < 0.65:
        return wide_keyed.json_answer(rng, form(rng, False, True))
    return wide_prompted.json_answer(rng, form(rng, rng.random() < 0.6, False))
