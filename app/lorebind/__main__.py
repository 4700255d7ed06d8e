"""`python -m lorebind` is the command `lorebind`."""

from lorebind.cli import main

main()
