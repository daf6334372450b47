"""Tests of all APIs at once ask the server that tests/server has: one over a service without a model."""

from __future__ import annotations

from tests.server.conftest import address, client, http, service

__all__ = ["address", "client", "http", "service"]
