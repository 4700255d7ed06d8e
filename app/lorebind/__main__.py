"""`python -m lorebind` is the command `lorebind`."""

import sys

if not sys.flags.safe_path:  # `-m` has Python look into the current folder first, even for typer
    del sys.path[0]

from lorebind.cli import main

main()
