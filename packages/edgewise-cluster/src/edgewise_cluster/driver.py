"""Talks to Ray for `edgewise deploy`, as a process of its own: `python -m edgewise_cluster.driver`.

Ray reads its variables when it is imported, so whoever starts this gives it the right ones. One
JSON object comes in on standard input, one goes out on standard output.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from edgewise.errors import EdgewiseError, ExtraMissing
from edgewise_cluster.plan import Plan

LOOK_S = 0.25


def main() -> None:
    asked = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr  # Ray prints
    try:
        told = _do(asked)
    except EdgewiseError as error:
        told = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - the process that started this one says it
        told = {"error": f"Ray: {type(error).__name__}: {str(error).strip().splitlines()[-1]}"}
    json.dump(told, output)
    output.flush()


def _do(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        import ray  # noqa: PLC0415 - an extra
        from ray import serve  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissing("cluster", error.name or str(error)) from error
    name = asked["name"]
    ray.init(address=asked["address"], namespace="edgewise", logging_level=logging.WARNING)
    match asked["do"]:
        case "up":
            _up(serve, Plan.model_validate(asked["plan"]))
            return _wait(serve, name, asked["timeout_s"])
        case "down":
            if name in serve.status().applications:
                serve.delete(name)
            if not serve.status().applications:
                serve.shutdown()
            return {}
    return _status(serve, name)


def _up(serve: Any, plan: Plan) -> None:
    from edgewise_cluster.replicas import application  # noqa: PLC0415 - needs Ray

    serve.start(
        proxy_location="EveryNode",
        http_options={"host": plan.host, "port": plan.port, "request_timeout_s": plan.longest_s},
    )
    # Running streams of replicas that are replaced go on until their end.
    target = serve.RunTarget(application(plan), name=plan.name, route_prefix="/")
    serve.run_many([target], wait_for_applications_running=False)


def _wait(serve: Any, name: str, timeout_s: float) -> dict[str, Any]:
    until = time.monotonic() + timeout_s
    while True:
        told = _status(serve, name)
        if told["status"] in ("running", "deploy_failed") or time.monotonic() > until:
            return told
        time.sleep(LOOK_S)


def _status(serve: Any, name: str) -> dict[str, Any]:
    found = serve.status().applications.get(name)
    if found is None:
        return {"status": "not_running", "deployments": {}}
    return {
        "status": str(found.status.value).lower(),
        "message": found.message,
        "deployments": {
            deployment: {
                "status": str(each.status.value).lower(),
                "replicas": {str(state).lower(): n for state, n in each.replica_states.items()},
                "message": each.message,
            }
            for deployment, each in sorted(found.deployments.items())
        },
    }


if __name__ == "__main__":
    main()
