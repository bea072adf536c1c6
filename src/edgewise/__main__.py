"""`python -m edgewise`: the same as the `edgewise` command, which has no current folder either."""

import os
import sys

# Before anything else is imported: modules are not looked for where the user happens to be.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from edgewise.cli.main import main

if __name__ == "__main__":
    main()
