"""schemathesis over /openapi.json: what the server answers is what it says it answers.

`make fuzz` runs the same for longer: PACELINE_TEST_FUZZ is then the number of requests that each path gets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from paceline.server.state import Backend
from paceline.service import Service
from paceline.settings import Settings
from tests.server.harness import Address, serve

HERE = Path(__file__).parent
EXAMPLES = int(os.environ.get("PACELINE_TEST_FUZZ", "6"))
# The second tries every border of every field, some two thousand requests: for `make fuzz`.
PHASES = ("fuzzing", "coverage") if "PACELINE_TEST_FUZZ" in os.environ else ("fuzzing",)
SECONDS = 20  # for any one answer, which the context's length bounds


@pytest.fixture(scope="module")
def small(hybrid: Path) -> Iterator[Address]:
    settings = Settings(model=str(hybrid), served_model_name="tiny", context_length=128)
    backend: Backend = Service(settings)
    with serve(backend, settings) as address:
        yield address


@pytest.mark.slow
@pytest.mark.timeout(7200 if "PACELINE_TEST_FUZZ" in os.environ else 240)
@pytest.mark.parametrize("phase", PHASES)
def test_schemathesis_finds_nothing(small: Address, tmp_path: Path, phase: str) -> None:
    """Every check but one: what a chat template takes cannot be said in a schema, so valid data may be refused."""
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{small}/openapi.json"]
    checks = ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
    bounds = ["--max-examples", str(EXAMPLES), "--request-timeout", str(SECONDS), "--phases", phase, "--seed", "1"]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE.parent / "schemathesis")}
    done = subprocess.run(
        [*command, *checks, *bounds], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    status = httpx.get(f"{small}/v1/status").json()
    assert status["num_requests_running"] == status["num_requests_waiting"] == 0


def test_a_refused_method_is_told_all_that_the_path_takes(http: httpx.Client) -> None:
    refused = http.put("/v1/responses/resp_none")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "DELETE, GET, HEAD"


def test_every_path_has_an_answer_with_a_schema_and_the_same_errors(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            answers = operation["responses"]
            assert {"200", "400", "401", "404", "413", "503"} <= answers.keys(), path
            assert "422" not in answers, path
            assert "$defs" not in str(operation), path
            for answer in answers.values():
                for content in answer["content"].values():
                    reference = content["schema"].get("$ref", "")
                    assert not reference or reference.rpartition("/")[2] in schemas, path


def test_the_schema_describes_the_bodies(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    schema = paths["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "temperature" in schema["properties"]
