"""`python -m cairn ARGS` is `cairn ARGS`."""

import os
import sys

from .cli import binary
from .errors import BinaryNotFound

if __name__ == "__main__":
    try:
        program = binary()
        os.execv(program, [program, *sys.argv[1:]])
    except BinaryNotFound as e:
        sys.exit(f"cairn: {e.message}: {e.hint}")
    except OSError as e:
        sys.exit(f"cairn: {program}: {e.strerror}")
