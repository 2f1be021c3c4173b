"""The plugin for Ray without Ray: what it refuses, how a worker starts, and what a daemon's refusal becomes."""

import asyncio
import os
import socket
import struct
import sys
import threading
import types

stub = types.ModuleType("ray._private.runtime_env.plugin")
stub.RuntimeEnvPlugin = type("RuntimeEnvPlugin", (), {})
for package in ("ray", "ray._private", "ray._private.runtime_env"):
    sys.modules[package] = types.ModuleType(package)
sys.modules[stub.__name__] = stub

import cutin.ray  # noqa: E402

plugin = cutin.ray.Priority()


def context():
    return types.SimpleNamespace(env_vars={}, py_executable="python3")


def refusal(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as why:
        return str(why)
    raise AssertionError("not refused")


def create(wanted):
    asyncio.run(plugin.create(None, {"cutin": wanted}, context()))


for wanted, said in (({"priorty": "rt"}, "priorty"), ({"priority": "high"}, "levels are"), ("rt", "a dict"),
                     ({"priority": True}, "levels are"), ({"weight": 0}, "1 to 1000"), ({"weight": 1001}, "1 to 1000"),
                     ({"weight": "2"}, "1 to 1000")):
    assert said in refusal(ValueError, plugin.validate, {"cutin": wanted}), wanted
assert "levels are" in refusal(ValueError, cutin.ray.runtime_env, "high")
assert cutin.ray.runtime_env("rt", 2, env_vars={}) == {"cutin": {"priority": "rt", "weight": 2}, "env_vars": {}}

worker = context()
plugin.modify_context([], {"cutin": {"priority": "rt", "weight": 2}}, worker)
print(os.popen(f"exec {worker.py_executable} -c 'import os, cutin; "
               "print(os.environ[\"CUTIN_PRIORITY\"], os.environ[\"CUTIN_WEIGHT\"], cutin.loaded)'").read().strip())
create({"priority": "rt"})  # the real daemon

refusing = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.environ["CUTIN_SOCKET"] = os.path.join(os.environ["TMPDIR"], "refusing")
refusing.bind(os.environ["CUTIN_SOCKET"])
refusing.listen()


def serve():
    while True:
        client = refusing.accept()[0]
        if len(hello := client.recv(4096)) == 56:  # and not one that only looks whether somebody is here
            assert struct.unpack("=IHHII", hello[:16]) == (56, 1, 10, 3, 3)
            client.send(struct.pack("=IHHQIIII320s", 352, 2, 10, 1, 0, 1, 0, 0, b"rt = uid:1000 would grant it"))
        client.close()


threading.Thread(target=serve, daemon=True).start()
print(refusal(RuntimeError, create, {"priority": "rt"}))
os.environ["PATH"] = "/usr/bin:/bin"
print(refusal(RuntimeError, create, {}))
