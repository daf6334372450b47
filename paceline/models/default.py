"""The model that `paceline serve` takes when it is given none."""

from __future__ import annotations

from paceline.models.files import EMBEDDED

NAME = "paceline-mini"
FOLDER = EMBEDDED / NAME  # that of the package, whatever lies under this name where the server is started
WHAT_IT_IS = "a small demonstration model trained by this project, with no knowledge to rely on"
