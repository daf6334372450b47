"""Fields that no endpoint knows: named in the log and in a header of the answer, or refused with --strict-fields."""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from paceline.errors import InvalidRequest
from paceline.server.http.identity import current
from paceline.server.state import AppState

HEADER = "x-paceline-ignored-fields"
MAX_NAMED = 8  # fields in one header
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # of what is repeated to anybody
LOG_SECONDS = 600.0  # between two lines about one name
MAX_LOGGED = 128  # names in that time

# Known elsewhere, and without an effect on the answer.
HARMLESS = frozenset(
    {
        *("metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prompt_cache_options", "user", "extra_headers", "extra_query", "cache_control", "betas", "client_metadata"),
        *("request_id", "spaces_between_special_tokens", "detokenize", "output_kind"),
        *("guided_decoding_backend", "id_slot", "slot_id", "n_keep", "n_discard", "timings_per_token"),
        *("return_progress", "mirostat_tau", "mirostat_eta", "dynatemp_exponent", "rid", "keep_alive"),
        *("adaptive_decay", "session_id", "stream_interval", "sse_ping_interval", "n_cache_reuse", "backend_sampling"),
        "stream_options.include_obfuscation",
    }
)

logger = logging.getLogger("paceline.server")


def note_unknown(
    state: AppState, path: str, fields: Mapping[str, Any], known: Collection[str], inside: Sequence[str] = ()
) -> None:
    """Tells of the fields that are not `known`, and of those `inside` its objects that are not known where they stand.
    Raises InvalidRequest where the server is strict."""
    unknown = [name for name in (*(name for name in fields if name not in known), *inside) if name not in HARMLESS]
    if not unknown:
        return
    meant = [_meant(name, known) for name in unknown[:MAX_NAMED]]
    if state.settings.strict_fields:
        raise InvalidRequest(f"The request has an unknown field: {meant[0]}.", field=_shown(unknown[0]))
    more = [f"and {len(unknown) - MAX_NAMED} more"] if len(unknown) > MAX_NAMED else []
    headers = current().headers
    before = [headers[HEADER]] if HEADER in headers else []  # of the body, where these are its options'
    headers[HEADER] = ", ".join([*before, *meant, *more])
    for name, words in zip(unknown, meant, strict=False):
        if LOGGED.is_due(name):
            logger.warning("%s: a field that this server does not know was ignored: %s", path, words)


def _shown(name: str) -> str:
    return name if NAME.fullmatch(name) else "?"


def _meant(name: str, known: Collection[str]) -> str:
    """With the nearest name beside it: of options, among those of the same object."""
    inside, _, last = name.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == inside and each != name}
    near = difflib.get_close_matches(last.lower(), beside, n=1, cutoff=0.7) if NAME.fullmatch(name) else []
    return f"{_shown(name)} (did you mean {beside[near[0]]}?)" if near else _shown(name)


class Occasionally:
    """Is it time for another line about a name? Names come from clients: only so many are remembered, and told of."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.most, self.clock = seconds, most, clock
        self._told: dict[str, float] = {}

    def is_due(self, name: str) -> bool:
        now = self.clock()
        if now - self._told.get(name, -self.seconds) < self.seconds:
            return False
        if len(self._told) >= self.most:
            self._told = {each: then for each, then in self._told.items() if now - then < self.seconds}
        if len(self._told) >= self.most:
            return False
        self._told[name] = now
        return True


LOGGED = Occasionally(LOG_SECONDS, MAX_LOGGED)
