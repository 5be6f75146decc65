"""`python -m mlcheck` is the same as the `mlcheck` command."""

from mlcheck.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
