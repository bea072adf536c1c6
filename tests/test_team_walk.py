"""From nothing to three apps with keys, budgets and alerts: docs/guide/team.md, walked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from edgewise import Settings
from edgewise.cli.main import cli
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend
from tests.server.served import Served

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "team.md"
OPERATING = (ROOT / "docs" / "guide" / "operating.md").read_text("utf-8")
ALERTS = ROOT / "deploy" / "grafana" / "alerts.yaml"


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


def said(section: str) -> list[list[str]]:
    """The commands that the page shows below a heading."""
    text = PAGE.read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^ {4}edgewise (.*?)(?: {2,}#.*)?$", text, re.M)
    assert lines, section
    return [shlex.split(line.partition(" > ")[0]) for line in lines]


def nearly_spent(figures: str) -> set[str]:
    """The keys for which EdgewiseBudgetNearlySpent rings, by the rule of the file."""
    (rules,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    (rule,) = (e["expr"] for e in rules["rules"] if e["alert"] == "EdgewiseBudgetNearlySpent")
    by = r"min by \(key, window\) \((\w+)\)"
    left, share, limit = re.fullmatch(f"{by} < ([0-9.]+) \\* {by}", rule).groups()  # type: ignore[union-attr]

    def series(metric: str) -> dict[str, float]:
        found = re.findall(rf'^{metric}{{key="(\w+)",window="\w+"}} (\S+)$', figures, re.M)
        assert found, metric
        return {key: float(value) for key, value in found}

    limits = series(limit)
    return {key for key, value in series(left).items() if value < float(share) * limits[key]}


def run(*words: str) -> str:
    ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def test_from_nothing_to_a_team_of_three_apps(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEWISE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-cloud-key-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
    cloud.always(Answer(text="Forty-two.", input_tokens=1_000, output_tokens=500))

    # Three apps, a lead and Prometheus get their keys, as the page says.
    keys = {}
    for words in said("Three apps"):
        if words[0] == "keys":
            keys[words[2]] = run(*words).splitlines()[-1]
    assert set(keys) == {"wiki", "bot", "webui", "lead", "prometheus"}
    (serve,) = (words for words in said("Three apps") if words[0] == "serve")
    assert serve[:4] == ["serve", "--host", "0.0.0.0", "--allow-host"]
    name = serve[4]
    assert f"OPENAI_BASE_URL=http://{name}:8484/v1" in PAGE.read_text("utf-8")

    with ExitStack() as stack:
        settings = Settings.load(server={"port": 0, "hosts": (name,)})
        backend = ScriptedBackend.confident("Paris.")
        served = stack.enter_context(Served.started(settings, backend))

        def ask(app: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
            key = {"authorization": f"Bearer {keys[app]}", "host": f"{name}:8484"}
            return served.chat(headers=key | (headers or {}), **body)

        def read(app: str, path: str) -> Any:
            return served.http.get(path, headers={"authorization": f"Bearer {keys[app]}"})

        # The apps ask. The wiki may not choose a cloud model; the bot may not leave its policy.
        assert ask("wiki").json()["edgewise"]["source"] == "local"
        assert ask("wiki", model="cloud").status_code == 403
        assert ask("bot").status_code == 200
        assert ask("bot", model="cloud").json()["error"]["code"] == "policy_not_allowed"

        # Two people ask through Open WebUI. Bob uses up his cap; Ann does not notice.
        ann, bob = ({"x-openwebui-user-email": f"{name}@team.example"} for name in ("ann", "bob"))
        assert ask("webui", ann, model="cloud", max_tokens=100).status_code == 200
        assert ask("webui", bob, model="cloud", max_tokens=1_000_000).status_code == 429
        assert ask("webui", ann, model="cloud", max_tokens=100).status_code == 200
        assert ask("bot", ann).json()["error"]["code"] == "user_not_trusted"

        # The lead sees who spends what; an app sees itself; Prometheus sees figures alone.
        rows = read("lead", "/edgewise/usage/key/all/30d").json()["rows"]
        spent = {row["key"]: row["spent_microdollars"] for row in rows}
        assert spent["webui"] > 0 and spent["wiki"] == spent["bot"] == 0
        assert 'key="webui"' not in read("wiki", "/metrics").text
        assert "edgewise_key_spent_microdollars_total" in read("prometheus", "/metrics").text
        assert ask("prometheus").status_code == 403

        # Prometheus scrapes as the page says. Nothing rings; then webui has a tenth left.
        scrape = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", OPERATING, re.S)[0])
        (job,) = scrape["scrape_configs"]
        assert job["static_configs"][0]["targets"] == [f"{name}:8484"]
        assert job["job_name"] == "edgewise", "as EdgewiseDown has it"
        assert nearly_spent(read("prometheus", "/metrics").text) == set()
        run("keys", "change", "webui", "--budget", f"${spent['webui'] * 1.1 / 1e6:.6f}/day")
        served.state.clients._looked = -1e9  # a second has passed
        assert nearly_spent(read("prometheus", "/metrics").text) == {"webui"}

        # A key is rotated while the server runs, another one revoked.
        old = keys["wiki"]
        for words in said("Rotate, revoke, look"):
            out = run(*words)
            if words[1] == "rotate":
                keys["wiki"] = out.splitlines()[-1]
        served.state.clients._looked = -1e9  # a second has passed
        assert ask("wiki").status_code == 200
        assert ask("bot").status_code == 401
        now, keys["wiki"] = keys["wiki"], old
        assert ask("wiki").status_code == 200, "the old one still counts for a day"
        keys["wiki"] = now

    # At the end of the month: the table, and the same as CSV.
    by_key, by_week = (run(*words) for words in said("Which app spends what"))
    assert [line.split()[0] for line in by_key.splitlines()][:2] == ["key", "webui"]
    assert by_week.startswith("period,key,user,group,requests")
    assert "ann@team.example" in run("ledger", "--by", "user")
    shown = run("keys", "list")
    assert not any(key in shown for key in keys.values())
