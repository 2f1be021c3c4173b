"""kubernetes.py - the manifests of docs/kubernetes, without a cluster.

Each is held against the schemas of Kubernetes, unknown fields being mistakes (kubernetes-validate), and the
policies of levels.yaml are evaluated for pods (cel-python): the examples come in, and pods that ask for more
than they may do not. A kind without a schema has to be one of OTHERS. What only an API server has, the type
JSONPatch, is played by a map.
"""
import copy
import glob
import os
import re
import subprocess
import sys
import tempfile

import celpy
import kubernetes_validate
import yaml

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "kubernetes")
VERSIONS = ("1.36", "1.37")  # the first with all that is used, and the newest known here
OTHERS = {("monitoring.coreos.com/v1", "PodMonitor")}
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)


def documents():
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.yaml"))):
        with open(path) as f:
            for document in yaml.safe_load_all(f):
                yield os.path.basename(path), document


def validate(file, document):
    for version in VERSIONS:
        name = f"{file}: {document['kind']} {document['metadata']['name']}, {version}"
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            failures.append(f"{name}: {e.message}")
        except kubernetes_validate.SchemaNotFoundError:
            expect((document["apiVersion"], document["kind"]) in OTHERS, f"{name}: no such kind")


# ---- policies --------------------------------------------------------------------------------------

ENVIRONMENT = celpy.Environment()
FUNCTIONS = {
    "substring": lambda text, begin: celpy.celtypes.StringType(text[begin:]),
    "replace": lambda text, old, new: celpy.celtypes.StringType(str(text).replace(old, new)),
    "escapeKey": lambda key: celpy.celtypes.StringType(key.replace("~", "~0").replace("/", "~1")),
}


def evaluate(expression, activation):
    expression = " ".join(expression.split()).replace("jsonpatch.escapeKey", "escapeKey")
    expression = re.sub(r"JSONPatch\{op: (.*?), path: (.*?), value: (.*?)\}(?=[,\]])",
                        r'{"op": \1, "path": \2, "value": \3}', expression)
    program = ENVIRONMENT.program(ENVIRONMENT.compile(expression), functions=FUNCTIONS)
    return program.evaluate(activation)


class Policy:
    def __init__(self, document):
        self.spec = document["spec"]

    def activation(self, pod, old=None):
        request = {"operation": "UPDATE" if old else "CREATE", "subResource": ""}
        known = {"object": celpy.json_to_cel(pod), "oldObject": celpy.json_to_cel(old),
                 "request": celpy.json_to_cel(request)}
        for condition in self.spec["matchConditions"]:
            if not evaluate(condition["expression"], known):
                return None
        known["variables"] = celpy.celtypes.MapType()
        for variable in self.spec["variables"]:
            value = evaluate(variable["expression"], known)
            known["variables"][celpy.celtypes.StringType(variable["name"])] = value
        return known

    def mutate(self, pod):
        known = self.activation(pod)
        pod = copy.deepcopy(pod)
        for mutation in self.spec["mutations"] if known else []:
            for patch in evaluate(mutation["jsonPatch"]["expression"], known):
                steps = [re.sub("~1", "/", s).replace("~0", "~") for s in patch["path"].split("/")[1:]]
                at = pod
                for step in steps[:-1]:
                    at = at[step]
                value = patch["value"]
                at[steps[-1]] = {} if isinstance(value, dict) else str(value)
        return pod

    def refusal(self, pod, old=None):
        known = self.activation(pod, old)
        for validation in self.spec["validations"] if known else []:
            if not evaluate(validation["expression"], known):
                return validation["message"]
        return None


def policies():
    found = {document["kind"]: Policy(document) for file, document in documents()
             if file == "levels.yaml" and document["kind"].endswith("AdmissionPolicy")}
    return found["MutatingAdmissionPolicy"], found["ValidatingAdmissionPolicy"]


def changed(pod, **changes):
    """The pod with other annotations, class, user or security of its container; None takes away."""
    pod = copy.deepcopy(pod)
    for name, value in changes.items():
        at, key = {"annotations": (pod["metadata"], "annotations"), "class_": (pod["spec"], "priorityClassName"),
                   "user": (pod["spec"].setdefault("securityContext", {}), "runAsUser"),
                   "security": (pod["spec"]["containers"][0], "securityContext")}[name]
        if value is None:
            at.pop(key, None)
        else:
            at[key] = value
    return pod


def check_policies():
    mutating, validating = policies()
    pods = {document["metadata"]["name"]: document["spec"]["template"] for file, document in documents()
            if file == "pods.yaml"}
    serve, train = pods["serve"], pods["train"]
    serve.setdefault("metadata", {})
    asks, injects = "cdi.k8s.io/cutin", "cdi-devices.nri.io"

    for pod, level in ((serve, "rt"), (train, "be")):
        annotations = mutating.mutate(pod)["metadata"]["annotations"]
        expect(annotations[asks] == f"cutin.dev/level={level}", f"{level}: {annotations}")
        expect(annotations[injects] == f"- cutin.dev/level={level}", f"{level}: {annotations}")
        expect(validating.refusal(mutating.mutate(pod)) is None, f"{level} is refused")
    plain = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    expect(mutating.mutate(plain) == plain and validating.refusal(plain) is None, "a pod that asks nothing")

    def refused(pod, why):
        said = validating.refusal(mutating.mutate(pod))
        expect(said is not None and why in said, f"wanted a refusal with `{why}`, got {said}")

    rt = {asks: "cutin.dev/level=rt"}
    refused(changed(train, annotations=rt, user=64203), "needs the PriorityClass")
    refused(changed(train, annotations=rt, user=64203, class_="cutin-2"), "needs the PriorityClass")
    refused(changed(train, annotations={asks: "cutin.dev/level=3"}), "is cutin.dev/level=be, 1, 2 or rt")
    refused(changed(train, annotations={asks: "nvidia.com/gpu=0"}), "is cutin.dev/level=be, 1, 2 or rt")
    refused(changed(serve, class_="cutin-top"), "is cutin.dev/level=be, 1, 2 or rt")
    refused(changed(serve, user=1000), "runAsUser has to be")
    refused(changed(serve, user=None), "runAsUser has to be")
    for user in (None, 0, 64200, 64203):
        refused(changed(train, user=user), "runAsUser has to be")
    refused(changed(plain, annotations={injects + "/pod": "- cutin.dev/level=rt"}), "alone")
    refused(changed(train, annotations={asks: "cutin.dev/level=be", "cdi.k8s.io/b": "cutin.dev/level=rt"}), "alone")
    for security in (None, {}, {"allowPrivilegeEscalation": True},
                     {"allowPrivilegeEscalation": False, "runAsUser": 0},
                     {"allowPrivilegeEscalation": False, "privileged": True},
                     {"allowPrivilegeEscalation": False, "capabilities": {"add": ["SETUID"]}}):
        refused(changed(serve, security=security), "of their own")
    init = copy.deepcopy(serve)
    init["spec"]["initContainers"] = [{"name": "i"}]
    refused(init, "of their own")

    old = changed(plain, annotations={"a": "b"})
    expect(validating.refusal(changed(plain, annotations={"a": "c"}), old) is None, "an annotation of somebody else")
    expect(validating.refusal(changed(plain, annotations={injects: "- cutin.dev/level=rt"}), old), "a later device")
    expect(validating.refusal(changed(serve, user=0), changed(serve, user=1)) is None, "what the policy met there")


def check_configuration(cutind):
    for _, document in documents():
        text = document.get("data", {}).get("cutind.conf")
        if not text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cutind.conf")
            with open(path, "w") as f:
                f.write(re.sub(r"listen = .*", f"listen = unix:{folder}/metrics", text))
            os.chmod(path, 0o644)
            ended = subprocess.run([cutind, "--socket", os.path.join(folder, "s"), "--config", path,
                                    "--idle-exit", "1"], capture_output=True, text=True)
            expect(ended.returncode == 0, f"cutind: {ended.stderr}")


def main():
    count = 0
    for file, document in documents():
        validate(file, document)
        count += 1
    expect(count > 20, f"only {count} resources")
    check_policies()
    if len(sys.argv) > 1:
        check_configuration(sys.argv[1])
    for failure in failures:
        print(failure)
    print(f"{count} resources, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
