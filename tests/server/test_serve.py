"""Starting and stopping; the rest of serving is in the tests of what is served."""

from __future__ import annotations

import subprocess
import sys

from edgewise.extras import install_command


def test_without_its_extra_the_server_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['uvicorn'] = None\n"
        "from edgewise.errors import ExtraMissing\n"
        "try:\n    import edgewise.server.serve\n"
        "except ExtraMissing as error:\n    print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert install_command("server") in found.stdout
