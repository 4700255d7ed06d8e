"""Run the command `lorebind` by `python -m lorebind`."""

import sys

if not sys.flags.safe_path:  # `-m` makes Python import from the current folder first, even typer
    del sys.path[0]

from lorebind.cli import main

main()
