"""`python -m lorebind` is the command `lorebind`."""

import os
import sys

# `-m` has Python look for modules in the current folder first, which may be anybody's.
if sys.path[:1] == [os.getcwd()] and not sys.flags.safe_path:
    del sys.path[0]

from lorebind.cli import main  # noqa: E402

main()
