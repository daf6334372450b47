"""What every route is given."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.errors import EngineUnavailable
from paceline.server.backend import Backend
from paceline.server.http.drain import DrainGate
from paceline.server.http.errors import ModelNotFound
from paceline.server.http.requests import Requests
from paceline.server.metrics import Metrics
from paceline.settings import Settings


@dataclass(frozen=True, slots=True)
class AppState:
    backend: Backend
    settings: Settings
    metrics: Metrics
    gate: DrainGate
    requests: Requests

    @property
    def model_name(self) -> str:
        """The name that clients see."""
        return self.settings.served_model_name or self.backend.model_name

    def check_ready(self) -> None:
        if self.backend.failure is not None:
            raise EngineUnavailable(self.backend.failure)
        if not self.backend.ready:
            raise EngineUnavailable("The model is still loading.")

    def check_model(self, name: str | None) -> None:
        """A request may leave the model out; one that names another model is not ours to answer."""
        if name is not None and name not in (self.model_name, self.backend.model_name):
            raise ModelNotFound(name, self.model_name)
