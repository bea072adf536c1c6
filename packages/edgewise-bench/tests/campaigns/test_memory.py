"""`edgewise bench memory`: the worst request of each endpoint, and what it costs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from edgewise.local.store import InstalledModel
from edgewise.server.app import ROUTES
from edgewise_bench.campaigns.memory import worst_requests
from edgewise_bench.commands import bench


@pytest.mark.real_model
def test_one_request_has_its_peak_and_what_stays(default_model: InstalledModel) -> None:
    arguments = ["memory", "--only", "chat_schema_choices", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    metrics = json.loads(result.stdout)["metrics"]
    assert (
        metrics["peak_mb"]
        == metrics["peak_mb_chat_schema_choices"]
        >= metrics["idle_mb_chat_schema_choices"]
        > 50
    )
    assert metrics["status_chat_schema_choices"] in (200, 400)
    assert not [name for name in metrics if name.endswith("_sound")]


def test_every_endpoint_that_takes_a_body_has_a_worst_request() -> None:
    says = " ".join(each.says for each in worst_requests(100_000))
    # The same work behind another name.
    same = {"/api/generate", "/api/embed", "/api/embeddings", "/api/show"}
    same.add("/v1/models/{model:path}")
    paths = {path for method, path, _, _ in ROUTES if method == "POST"} - same
    assert {path for path in (*paths, "/v1/realtime") if f"`{path}`" not in says} == set()


def test_a_name_that_is_not_known_is_refused() -> None:
    result = CliRunner().invoke(bench, ["memory", "--only", "nothing"])
    assert result.exit_code == 2
    assert "'nothing' is not among" in result.output
