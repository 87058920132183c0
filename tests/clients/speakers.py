"""The clients behind one face: `list()`, `ask(tool, arguments)` and then `answer()`, with `cancel()` between them or not.

An answer is `{"failed": bool, "structured": ..., "text": ...}`, or `{"raised": ...}` when the client threw, or
`{"cancelled": True}` when it was told to give up.
Every process is added to the list it is given, whose owner ends it.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

from installed import node_program

HERE = Path(__file__).parent


class Wire:
    """A client object that lives in a process of its own and takes lines (see python_client.py)."""

    def __init__(self, command, environment, key, processes):
        environment = os.environ | environment | ({"CLIENT_KEY": key} if key else {})
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(self.process)

    def list(self):
        self.send({"list": True})
        answer = self.answer()
        assert "tools" in answer, answer
        return answer["tools"]

    def ask(self, tool, arguments):
        self.send({"call": tool, "arguments": arguments})

    def cancel(self):
        self.send({"cancel": True})

    def send(self, asked):
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client ended: {self.process.stderr.read()[-2000:]}")
        return json.loads(line)


def python(venv, kind, mode, url, key, processes):
    return Wire([venv / "bin/python", HERE / "python_client.py", kind, url, mode], {}, key, processes)


def node(folder, kind, mode, url, key, processes):
    return Wire([node_program(folder), HERE / "node_client.cjs", kind, url, mode], modules(folder), key, processes)


def modules(folder):
    return {"NODE_PATH": str(folder / "npm/node_modules")}


class Inspector:
    """The Inspector's command line: one process for each question, judged by its exit code, too."""

    SAID_IS_ERROR = 5

    def __init__(self, folder, era, url, key, processes):
        launcher = folder / "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        self.command = [node_program(folder), launcher, "--cli", url, "--transport", "http", "--protocol-era", era]
        self.command += ["--header", f"Authorization: Bearer {key}"] if key else []
        self.processes = processes

    def list(self):
        self.run("tools/list", "--strict")
        out, err = self.process.communicate()
        assert self.process.returncode == 0, f"exit code {self.process.returncode}: {err}"
        return [tool["name"] for tool in json.loads(out)["result"]["tools"]]

    def ask(self, tool, arguments):
        self.run("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))

    def cancel(self):
        """As at a terminal: Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def run(self, method, *more):
        command = [*self.command, "--method", method, "--format", "json", *more]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(self.process)

    def answer(self):
        out, err = self.process.communicate()
        if self.process.returncode in (-signal.SIGINT, 128 + signal.SIGINT):
            return {"cancelled": True}
        if self.process.returncode not in (0, self.SAID_IS_ERROR):
            return {"raised": f"exit code {self.process.returncode}: {err.strip()}"}
        result = json.loads(out)["result"]
        failed = result.get("isError", False)
        assert failed == (self.process.returncode == self.SAID_IS_ERROR), (out, self.process.returncode)
        return {
            "failed": failed,
            "structured": result.get("structuredContent"),
            "text": result["content"][0]["text"],
        }
