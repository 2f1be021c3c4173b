"""Levels of Ray's workers: a plugin of its runtime environments.

Where Ray is started on each node, and nowhere else:

    export RAY_RUNTIME_ENV_PLUGINS='[{"class": "cutin.ray.Priority", "priority": 100}]'

and in the program `runtime_env={"cutin": {"priority": "rt", "weight": 2}}`, of a job, task, actor or Serve
deployment. Ray starts such a worker by `cutin run`. Where that can do nothing, or not at that level, no worker
starts, and who waits for one gets a RuntimeEnvSetupError that says why.
"""

import asyncio
import importlib.metadata
import json
import os
import shlex
import shutil
import socket
import struct

from ray._private.runtime_env.plugin import RuntimeEnvPlugin

__all__ = ["Priority", "runtime_env"]

_LEVELS = {"be": 0, "0": 0, "1": 1, "2": 2, "rt": 3, "3": 3}
_NAMES = ("be", "1", "2", "rt")
_WEIGHT_MOST = 1000

# scheduler/wire/protocol.h: numbers and places are for ever, within a version.
_VERSION, _HELLO, _WELCOME = 10, 1, 2
_HELLO_LAYOUT, _WELCOME_LAYOUT = "=IHH8I16s", "=IHHQIIII320s"
_ANSWER_S = 10


def _check(wanted):
    """The level as a number, and the weight; a ValueError with a sentence for what is neither."""
    if not isinstance(wanted, dict):
        raise ValueError(f"runtime_env['cutin'] is {wanted!r}; wanted: a dict such as {{'priority': 'rt'}}")
    for key in wanted:
        if key not in ("priority", "weight"):
            raise ValueError(f"runtime_env['cutin'] has a key {key!r}; there are 'priority' and 'weight'")
    level, weight = wanted.get("priority", "be"), wanted.get("weight", 1)
    if isinstance(level, bool) or str(level) not in _LEVELS:
        raise ValueError(f"runtime_env['cutin'] has priority {level!r}; levels are 'be', 1, 2 and 'rt'")
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= _WEIGHT_MOST:
        raise ValueError(f"runtime_env['cutin'] has weight {weight!r}; it is a number from 1 to {_WEIGHT_MOST}")
    return _LEVELS[str(level)], weight


def runtime_env(priority="be", weight=1, **others):
    """A runtime environment with that level; what is wrong raises a ValueError here, before Ray is asked."""
    wanted = {"priority": priority, "weight": weight}
    _check(wanted)
    return {"cutin": wanted, **others}


def _command():
    """`cutin` as it was installed with this module, or on PATH."""
    try:
        files = importlib.metadata.files("cutin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((str(file.locate().resolve()) for file in files if file.match("bin/cutin")), shutil.which("cutin"))
    if not found:
        raise RuntimeError("no command `cutin` on this node: install the wheel where Ray runs, on each node")
    return found


async def _output(environment, *argv):
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment)
    out, err = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{shlex.join(argv)} failed on this node: {err.decode(errors='replace').strip()}")
    return out.decode(), err.decode(errors="replace").strip()


def _ask(path, level, weight):
    """Registers at the daemon for a moment. None: the level is granted; otherwise its reason."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.settimeout(_ANSWER_S)
        daemon.connect(path)
        daemon.send(struct.pack(_HELLO_LAYOUT, struct.calcsize(_HELLO_LAYOUT), _HELLO, _VERSION, level, level,
                                weight, 0, 0, 0, 0, 0, b"cutin ray"))
        answer = daemon.recv(4096)
    size = struct.calcsize(_WELCOME_LAYOUT)
    if len(answer) < size or struct.unpack_from("=H", answer, 4)[0] != _WELCOME:
        return "the daemon does not accept this process: it is another version, or its user has too many"
    fields = struct.unpack(_WELCOME_LAYOUT, answer[:size])
    return fields[8].split(b"\0")[0].decode(errors="replace") if fields[5] else None


class Priority(RuntimeEnvPlugin):
    name = "cutin"
    priority = 100  # last: what others make of the worker's command is what runs under cutin

    @staticmethod
    def validate(runtime_env_dict):
        _check(runtime_env_dict[Priority.name])

    async def create(self, uri, runtime_env, context, logger=None):
        level, weight = _check(runtime_env[self.name])
        command = _command()
        if not json.loads((await _output(None, command, "version", "--json"))[0])["library"]:
            raise RuntimeError(f"libcutin.so is not installed beside {command} on this node")
        environment = {**os.environ, **context.env_vars}
        # It starts the daemon where none runs, and knows where that is.
        path, said = await _output(environment, command, "run", "--", "printenv", "CUTIN_SOCKET")
        path = path.rstrip("\n")
        try:
            if not path:
                raise OSError("no socket that could be used")
            refused = await asyncio.get_running_loop().run_in_executor(None, _ask, path, level, weight)
        except OSError as why:
            raise RuntimeError(f"no daemon of cutin on this node, at {path!r}: {why}. {said}") from None
        if refused is not None:
            raise RuntimeError(f"level {_NAMES[level]} is refused on this node: {refused}")
        return 0

    def modify_context(self, uris, runtime_env, context, logger=None):
        level, weight = _check(runtime_env[self.name])
        # Ray makes a shell's line of it. Each worker finds or starts the daemon anew.
        context.py_executable = (f"{shlex.quote(_command())} run --priority {_NAMES[level]} --weight {weight} -- "
                                 f"{context.py_executable}")
