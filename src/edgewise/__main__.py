"""`python -m edgewise`: the same as the `edgewise` command."""

from edgewise.cli.main import main

if __name__ == "__main__":
    main()
