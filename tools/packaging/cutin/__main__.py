"""`python -m cutin` is the command `cutin` that was installed with this module."""

import importlib.metadata
import os
import sys

files = importlib.metadata.files("cutin") or []
command = next((file.locate() for file in files if file.match("bin/cutin")), "cutin")
os.execvp(command, ["cutin", *sys.argv[1:]])
