"""What judges the endpoint without using it: the conformance suite, and the size of the list of tools."""

import json
import os
import re
import subprocess
import tempfile
import urllib.request

from installed import node_program
from speakers import HERE, modules

# Every conversation pays for the list; with more than this, agents would rather not be given it.
TOKENS = 5000


def conformance(folder, revision, pod, processes):
    """Every scenario that the revision requires passes, but for those that conformance-REVISION.yml names."""
    expected = HERE / f"conformance-{revision}.yml"
    return judged(folder, pod, processes, "--requirements", revision, "--expected-failures", expected)


def headers(folder, pod, processes):
    """The modern revision's headers are not part of its score, and we pass them."""
    chosen = ("--scenario", "http-header-validation", "--spec-version", "2026-07-28")
    return judged(folder, pod, processes, *chosen)


def judged(folder, pod, processes, *chosen):
    index = folder / "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"
    with tempfile.TemporaryDirectory() as out:
        command = [node_program(folder), index, "server", "--url", pod.mcp, "-o", out, *chosen]
        status, said = finished(command, processes)
    if status != 0:
        raise AssertionError(f"exit code {status}\n{said[max(said.find('=== SUMMARY ==='), 0):]}")
    total = re.search(r"^(?:Total|Passed): .*$", said, re.M)
    return f"{total.group()}, as expected" if total else None


def token_budget(folder, pod, processes):
    asked = urllib.request.Request(
        pod.mcp, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        listed = json.dumps(json.load(answer)["result"], separators=(",", ":"), ensure_ascii=False)
    count = "console.log(require('gpt-tokenizer/cjs/encoding/o200k_base').encode(process.argv[1]).length)"
    status, said = finished([node_program(folder), "-e", count, listed], processes, modules(folder))
    assert status == 0, said
    assert int(said) < TOKENS, f"{said.strip()} tokens"
    return f"{said.strip()} of {TOKENS}"


def finished(command, processes, environment=None):
    """Exit code and everything it said."""
    process = subprocess.Popen(
        command,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    processes.append(process)
    said, _ = process.communicate()
    return process.returncode, said
