"""`python -m edgewise_bench.campaigns.plain_gateway FOLDER CLOUD [BUDGET]`: our server there."""

from __future__ import annotations

import json
import sys

from edgewise.server.serve import log_to, serve
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend


def announce(url: str, *_: object) -> None:
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()


def main() -> None:
    folder, cloud, *budgets = sys.argv[1:]
    variables = {"OPENAI_API_KEY": "sk-bench-0123456789", "OPENAI_BASE_URL": f"{cloud}/v1"}
    settings = Settings.load(
        variables,
        data_dir=folder,
        config_dir=f"{folder}/config",
        server={"port": 0},
        budgets=budgets,
    )
    log_to()
    serve(settings, announce, backend=ScriptedBackend.confident("Yes."))


if __name__ == "__main__":
    main()
