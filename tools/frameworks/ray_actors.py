#!/usr/bin/env python3
"""Actors of Ray that are killed and come back, at their levels, on two nodes with a simulated GPU and a daemon each.

    pip install ray
    PATH=build/bin:$PATH PYTHONPATH=tools/packaging python3 tools/frameworks/ray_actors.py

The second node's daemon grants best effort alone at first: an actor that asks for more there has to fail once, with
a sentence, while the others work. Then that rule is widened. Kills some of the actors while they have work, waits for
Ray to start them again, asks each node's daemon who is there at which level, and compares what actors have computed
that have done as much. At last one node is removed. Exit status 0 only when all came back, at their levels each time.
Needs a build, and Ray; it sees no GPU of this machine. A daemon refuses neither root nor its own user, so Ray runs as
`nobody` where root starts this; without root nothing is refused, and it says so. After a failure the logs stay.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--actors", type=int, default=20, help="actors on both nodes together (20)")
parser.add_argument("--kills", type=int, default=200, help="kills in all (200)")
parser.add_argument("--at-once", type=int, default=5, help="actors killed at the same time (5)")
parser.add_argument("--seed", type=int, default=1, help="random seed of the choice of actors (1)")
options = parser.parse_args()
try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError as why:
    print(f"ray_actors.py needs Ray: {why}", file=sys.stderr)
    sys.exit(77)

NOBODY = 65534
PATIENCE_S = 600
LEVELS = ("rt", "be", "be", "2", "be")
WORK = 20  # kernels of a work, of 0.2 ms


class Actor:
    """Work on the GPU, and who does it."""

    def __init__(self):
        import driver  # beside this file

        self.chain = driver.Chain(driver.Gpu(), WORK, 200)
        self.works = 0

    def work(self):
        self.chain.gpu.attach()
        self.works += 1
        self.chain.run(self.works)
        return self.works, self.chain.checksum()

    def pid(self):
        return os.getpid()


@contextlib.contextmanager
def as_root():
    """For what concerns the daemons. Nothing where root did not start this."""
    mine = os.geteuid()
    if ROOT_STARTED:
        os.seteuid(0)
    yield
    os.seteuid(mine)


def become_nobody(home):
    """For Ray and all that it starts. This process can be root again, what it starts cannot."""
    os.chmod(folder, 0o755)
    os.mkdir(home)
    os.chown(home, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    os.environ.update(HOME=home, USER="nobody", RAY_TMPDIR=home)
    if not os.access(os.__file__, os.R_OK, effective_ids=True):
        sys.exit(f"ray_actors.py: user {NOBODY} cannot read {os.__file__}; use a Python that everybody can read")


class Node:
    """A device and a daemon, and what Ray is told of them."""

    def __init__(self, folder, number, rule):
        self.socket, self.conf, self.log = (f"{folder}/{number}.{kind}" for kind in ("sock", "conf", "log"))
        self.write(rule)
        with open(self.log, "w") as log:
            self.daemon = subprocess.Popen([ROOT / "build/bin/cutind", "--socket", self.socket, "--config", self.conf],
                                           stderr=log)
        while not self.taken():
            if self.daemon.poll() is not None:
                sys.exit(f"ray_actors.py: no daemon: {pathlib.Path(self.log).read_text()}")
            time.sleep(0.01)
        self.kind, self.node = f"node{number}", None
        self.environment = {"SIMGPU_ID": f"ray-{os.getpid()}-{number}", "CUTIN_SOCKET": self.socket}

    def join(self, cluster):
        self.node = cluster.add_node(num_cpus=1, num_gpus=1, resources={self.kind: options.actors},
                                     object_store_memory=100 << 20, include_dashboard=False, env_vars=self.environment)

    def write(self, rule):
        pathlib.Path(self.conf).write_text(f"[allow]\n{rule}\n")

    def allow(self, rule):
        """Gives the daemon another rule, and waits until it has taken it."""
        with as_root():
            said = self.taken()
            self.write(rule)
            self.daemon.send_signal(signal.SIGHUP)
            while self.taken() == said:
                time.sleep(0.01)

    def taken(self):
        return pathlib.Path(self.log).read_text().count("configuration: ")

    def stop(self):
        with as_root():
            self.daemon.terminate()
            self.daemon.wait()

    def levels(self):
        """{pid: level} of all clients, as the daemon has them."""
        out = subprocess.run(["cutin", "list", "--json"], env={**os.environ, "CUTIN_SOCKET": self.socket},
                             stdout=subprocess.PIPE, check=True).stdout
        return {client["pid"]: client["level"] for client in json.loads(out)["clients"]}


def ask(actor, method):
    """Until it is there again: what was under way when it was killed is lost, as Ray says."""
    by = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ray.get(getattr(actor, method).remote(), timeout=PATIENCE_S)
        except ray.exceptions.RayActorError:
            if time.monotonic() > by:
                raise


def look(nodes, actors):
    """Each actor is where it belongs, at its level, and each client is one of them. Returns their processes."""
    global looks
    looks += 1
    pids = [ask(actor["handle"], "pid") for actor in actors]
    wrong = []
    for node in nodes:
        there = node.levels()
        mine = {pid: actor["level"] for pid, actor in zip(pids, actors) if actor["node"] is node}
        wrong += [f"{pid} is not there" for pid in mine if pid not in there]
        wrong += [f"{pid} is at {there[pid]}, not {level}" for pid, level in mine.items()
                  if there.get(pid, level) != level]
        wrong += [f"{pid} at {level} is none of the actors" for pid, level in there.items() if pid not in mine]
    if wrong:
        sys.exit("ray_actors.py: " + "; ".join(wrong))
    return pids


def make(node, level, weight=1):
    made = ray.remote(num_cpus=0, num_gpus=1 / options.actors, resources={node.kind: 1}, max_restarts=-1,
                      runtime_env={"cutin": {"priority": level, "weight": weight}})(Actor).remote()
    return {"node": node, "level": level, "handle": made}


def workers_started():
    """Processes that Ray's nodes have started for actors and tasks, as they log it."""
    logs = pathlib.Path(cluster.head_node.get_session_dir_path()).glob("logs/raylet*.out")
    return sum(log.read_text().count("Started worker process") for log in logs)


def refuse(node, others):
    """An actor that asks for what its node does not grant: one sentence that says so, each time it is asked, and no
    process. The others work, and are who they were."""
    pids, started, begin = look(nodes, others), workers_started(), time.monotonic()
    actor = make(node, "rt", weight=2)["handle"]
    took = []
    for _ in range(2):
        try:
            ray.get(actor.pid.remote(), timeout=PATIENCE_S)
            sys.exit("ray_actors.py: an actor got a level that no rule grants")
        except ray.exceptions.RuntimeEnvSetupError as why:
            said = str(why)
        took.append(time.monotonic() - begin)
        if said.count("level rt is refused on this node: ") != 1 or f"rt = uid:{NOBODY}" not in said:
            sys.exit(f"ray_actors.py: unexpected message of Ray about a refused level: {said}")
        for other in others:
            ray.get(other["handle"].work.remote(), timeout=PATIENCE_S)
    if (more := workers_started() - started) or look(nodes, others) != pids:
        sys.exit(f"ray_actors.py: {more} processes started for a level that was refused, or others ended")
    print(f"refused after {took[0]:.1f} s: {said.strip().splitlines()[-1]}\n"
          f"asked again after {took[1]:.1f} s: the same; no process started, {len(others)} others worked", flush=True)


ROOT_STARTED = os.geteuid() == 0
chance, folder = random.Random(options.seed), tempfile.mkdtemp(prefix="cutin-ray.")
os.environ["RAY_RUNTIME_ENV_PLUGINS"] = '[{"class": "cutin.ray.Priority", "priority": 100}]'
os.environ["PYTHONPATH"] = f"{os.environ.get('PYTHONPATH', '')}:{ROOT / 'tools/frameworks'}"
os.environ["LD_LIBRARY_PATH"] = str(ROOT / "build/lib/simgpu")
begin, nodes, looks = time.monotonic(), [], 0
cluster = Cluster()
try:
    nodes += [Node(folder, 1, "rt = everybody"), Node(folder, 2, "")]
    if ROOT_STARTED:
        become_nobody(f"{folder}/r")  # no longer: Ray's sockets are below it
    for node in nodes:
        node.join(cluster)
    ray.init(address=cluster.address, log_to_driver=False)
    wanted = [(nodes[i % 2], LEVELS[i // 2 % len(LEVELS)]) for i in range(options.actors)]
    wanted.sort(key=lambda want: want[0] is nodes[1] and want[1] != "be")  # last those that need the wider rule
    granted = [want for want in wanted if want[0] is nodes[0] or want[1] == "be"]
    actors = [make(*want) for want in granted]
    if ROOT_STARTED:
        refuse(nodes[1], actors)
        nodes[1].allow("rt = everybody")
    else:
        print("nothing was refused: a daemon refuses nothing to its own user, and only root can start one for others")
    actors += [make(*want) for want in wanted[len(granted):]]
    look(nodes, actors)
    print(f"{options.actors} actors after {time.monotonic() - begin:.0f} s", flush=True)
    killed = works = 0
    answers = {}  # what the n-th work of an actor makes, whoever it is
    while killed < options.kills:
        pids = look(nodes, actors)
        under_way = [actor["handle"].work.remote() for actor in actors]
        victims = chance.sample(range(len(actors)), min(options.at_once, options.kills - killed))
        time.sleep(chance.random() * 0.02)
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
        killed += len(victims)
        for i, answer in enumerate(under_way):
            try:
                count, made = ray.get(answer, timeout=PATIENCE_S)
                if answers.setdefault(count, made) != made:
                    sys.exit(f"ray_actors.py: {count} tasks computed two different sums")
                works += 1
            except ray.exceptions.RayActorError:
                if i not in victims:
                    raise
        if killed % 20 < len(victims):
            print(f"{killed} kills, {works} tasks, {time.monotonic() - begin:.0f} s", flush=True)
    look(nodes, actors)
    cluster.remove_node(nodes[1].node)
    rest = [actor for actor in actors if actor["node"] is nodes[0]]
    for actor in rest:
        ask(actor["handle"], "work")
    look(nodes[:1], rest)
    print(f"a node removed: {len(rest)} actors work on; {killed} kills, {works} tasks, "
          f"levels right {looks} times, {time.monotonic() - begin:.0f} s")
finally:
    ray.shutdown()
    cluster.shutdown()
    for node in nodes:
        node.stop()
with as_root():
    shutil.rmtree(folder)
