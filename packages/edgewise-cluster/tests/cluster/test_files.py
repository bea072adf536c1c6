"""The files of deploy/ for clusters: what they say about edgewise and Ray is compared with both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.errors import SettingsError
from edgewise.server.metrics import GAUGES, Metrics
from edgewise.server.serve import require_key
from edgewise.settings import Settings
from edgewise_cluster.launch import ray_variables
from edgewise_cluster.plan import Plan, check_plan, notes

PACKAGE, ROOT = Path(__file__).parents[2], Path(__file__).parents[4]
BOARD = json.loads((ROOT / "deploy/grafana/edgewise.json").read_text("utf-8"))
MANIFESTS = {
    each["kind"]: each
    for each in yaml.safe_load_all((ROOT / "deploy/kuberay/edgewise.yaml").read_text("utf-8"))
}
SERVE = yaml.safe_load(MANIFESTS["RayService"]["spec"]["serveConfigV2"])
CLUSTER = MANIFESTS["RayService"]["spec"]["rayClusterConfig"]
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))


def series() -> dict[str, set[str]]:
    """Every series that a server may write, with its labels."""
    found = {name: {"model", "provider", "calibration", "key", "window"} for name in GAUGES}
    metrics = Metrics(list)
    for made in vars(metrics).values():
        for family in made.describe() if hasattr(made, "describe") else ():
            labels = set(made._labelnames) | {"le"}
            ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
            found |= {family.name + end: labels for end in ends[family.type]}
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def test_the_board_shows_series_that_exist_by_labels_that_they_have() -> None:
    known = series()
    assert "edgewise_request_seconds_bucket" in known and "edgewise_requests_total" in known
    for expression in expressions():
        names = re.findall(r"edgewise_\w+", expression)
        assert names and set(names) <= known.keys(), expression
        labels = set().union(*(known[name] for name in names)) | {"replica"}
        for words in re.findall(r"by \(([^)]*)\)", expression):
            assert set(words.split(", ")) <= labels, expression
    for variable in BOARD["templating"]["list"]:
        assert set(re.findall(r"edgewise_\w+", variable["query"])) <= known.keys()


def test_the_board_leaves_no_series_out() -> None:
    shown = set(re.findall(r"edgewise_\w+", " ".join(expressions())))
    whole = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series()}
    assert whole == {re.sub(r"_bucket$", "", name) for name in shown}


def test_alerts_are_about_series_that_exist_and_the_guide_says_what_to_do() -> None:
    known = series()
    guide = (ROOT / "docs/guide/operating.md").read_text("utf-8")
    (group,) = yaml.safe_load((ROOT / "deploy/grafana/alerts.yaml").read_text("utf-8"))["groups"]
    assert len(group["rules"]) >= 10
    for rule in group["rules"]:
        names = re.findall(r"edgewise_\w+", rule["expr"])
        assert set(names) <= known.keys() and (names or "up{" in rule["expr"]), rule["alert"]
        labels = set().union(*(known[name] for name in names))
        for words in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            assert set(words.split(", ")) <= labels, rule["alert"]
        assert f"| `{rule['alert']}` |" in guide, rule["alert"]
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "warn")


def test_a_file_that_lets_others_in_is_not_right_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_HOME", str(tmp_path))
    monkeypatch.delenv("EDGEWISE_SERVER_KEY", raising=False)
    here = check_plan({"host": "0.0.0.0"}, "here")
    with pytest.raises(SettingsError, match="no key: a front refuses to start"):
        notes(here)
    (told,) = notes(check_plan({"host": "0.0.0.0", "address": "auto"}, "there"))[:1]
    assert "this machine knows no key" in told
    said = check_plan({"host": "0.0.0.0", "settings": {"server": {"open": True}}}, "open")
    assert any("WITHOUT A KEY" in note for note in notes(said))
    monkeypatch.setenv("EDGEWISE_SERVER_KEY", "k")
    assert any("with a key; without TLS" in note for note in notes(here))


def test_panels_do_not_cover_each_other() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in BOARD["panels"]})


# -- Kubernetes ------------------------------------------------------------------------------------


def plan() -> Plan:
    return check_plan(tomllib.loads(MANIFESTS["ConfigMap"]["data"]["deploy.toml"]), "ConfigMap")


def containers() -> Iterator[dict[str, Any]]:
    for group in (CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        yield container


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_the_manifests_have_the_shape_that_kuberay_reads() -> None:
    kinds = {kind: each["apiVersion"] for kind, each in MANIFESTS.items()}
    assert kinds == {
        "ConfigMap": "v1",
        "RayService": "ray.io/v1",
        "NetworkPolicy": "networking.k8s.io/v1",
    }
    assert set(MANIFESTS["RayService"]["spec"]) == {"serveConfigV2", "rayClusterConfig"}
    assert set(CLUSTER) == {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    for group in CLUSTER["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


READ = """\
import json, sys
from ray.serve._private.utils import import_attr
from ray.serve.schema import ServeDeploySchema
read = ServeDeploySchema.model_validate(json.load(sys.stdin))
assert callable(import_attr(read.applications[0].import_path))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="HAProxy comes for Linux only")
def test_ray_reads_the_config_and_finds_our_application() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ], input=json.dumps(SERVE), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_they_run_the_ray_that_we_pin() -> None:
    (application,) = SERVE["applications"]
    assert application["args"]["file"] == "/etc/edgewise/deploy.toml"
    extra = PROJECT["project"]["optional-dependencies"]["ray"]
    assert f"ray[serve]=={CLUSTER['rayVersion']}" in extra
    assert SERVE["http_options"] == {
        "host": plan().host,
        "port": plan().port,
        "request_timeout_s": plan().longest_s,
    }


def test_every_pod_gets_ray_s_variables_and_keys_from_secrets_only() -> None:
    wanted = ray_variables(plan(), {}, "/tmp/x")
    for container in containers():
        given = variables(container)
        for name in (
            "RAY_USAGE_STATS_ENABLED",
            "RAY_SERVE_ENABLE_HA_PROXY",
            "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S",
        ):
            assert given[name] == wanted[name]
        ours = {name for name in given if name.startswith("EDGEWISE_")}
        assert ours == {"EDGEWISE_HOME", "EDGEWISE_LEDGER"}
        (store,) = [each for each in container["env"] if each["name"] == "EDGEWISE_LEDGER"]
        assert store["valueFrom"]["secretKeyRef"] == {"name": "edgewise-store", "key": "ledger"}
        assert container["envFrom"] == [{"secretRef": {"name": "edgewise-keys"}}]
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        assert mounted == {"/etc/edgewise", given["EDGEWISE_HOME"]}
    assert "Secret" not in MANIFESTS


def test_pods_end_after_the_longest_stream_and_strangers_need_a_key() -> None:
    for group in (CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]):
        assert group["template"]["spec"]["terminationGracePeriodSeconds"] > plan().longest_s
    require_key(plan().load_settings({"EDGEWISE_SERVER_KEY": "any"}))
    assert "edgewise-serve-svc" in plan().load_settings({}).server.hosts


def test_only_the_server_s_port_is_open_to_other_pods() -> None:
    rules = MANIFESTS["NetworkPolicy"]["spec"]["ingress"]
    (anybody,) = [rule for rule in rules if "from" not in rule]
    assert anybody["ports"] == [{"port": plan().port, "protocol": "TCP"}]
    labels = MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    for group in (CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]):
        assert labels.items() <= group["template"]["metadata"]["labels"].items()


def test_the_settings_of_the_pods_are_settings() -> None:
    assert plan().load_settings({}).server.total_s == Settings().server.total_s
