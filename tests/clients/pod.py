"""One pod in a temporary folder, restartable at the same address; on a private cluster unless it is given a database."""

import base64
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

SECRET_KEY = base64.b64encode(bytes(range(32))).decode()


class Pod:
    """As a context: started on a free port, gone with its cluster and folder afterwards. No limits on rates."""

    def __init__(self, program, **settings):
        self.program = program
        self.settings = settings
        self.listen = "127.0.0.1:0"

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="waypost-tests-"))
        # As root the server programs run as another user, who must be able to come by.
        self.folder.chmod(0o711)
        self.log = open(self.folder / "log", "ab")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        settings = {
            "WAYPOST_LISTEN": self.listen,
            "WAYPOST_OPS_LISTEN": "127.0.0.1:0",
            "WAYPOST_DATA_DIR": str(self.folder / "data"),
            "WAYPOST_REGISTER_LIMIT": "0",
            "WAYPOST_RATE_LIMIT": "0",
            # The same for all, so that pods can share a database.
            "WAYPOST_SECRET_KEY": SECRET_KEY,
            "WAYPOST_UNSAFE_EGRESS": "loopback",
        }
        self.process = subprocess.Popen(
            [self.program, "serve"],
            env=kept() | settings | self.settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            raise RuntimeError(f"the pod did not start: {(self.folder / 'log').read_text()[-2000:]}")
        self.url = line.removeprefix("listening on ").strip()
        self.ops = self.process.stdout.readline().removeprefix("ops on ").strip()
        self.mcp = f"{self.url}/mcp"
        self.listen = self.url.removeprefix("http://")

    def stop(self):
        """Drains it; a pod that cannot is killed, and its cluster ends with it."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.stop()
        self.start()

    def ensure(self):
        """Starts it again where an earlier trial left it dead."""
        if self.process.poll() is not None:
            self.start()

    def processes(self):
        """What to kill when time is up."""
        return [self.process]

    def held_reads(self):
        """How many reads the pod holds now."""
        return self.counted("waypost_held_reads")

    def counted(self, name):
        """The sum of the metrics that begin so."""
        with urllib.request.urlopen(f"{self.ops}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def shared_database(pod):
    """The DATABASE_URL of the pod's private cluster, as a second pod on its folder is told."""
    settings = {"WAYPOST_DATA_DIR": str(pod.folder / "data"), "WAYPOST_LISTEN": "127.0.0.1:0"}
    second = subprocess.run(
        [pod.program, "serve"], env=kept() | settings, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    told = re.search(r"DATABASE_URL='([^']+)'", second.stderr)
    assert told, second
    return told.group(1)


def kept():
    """Settings of whoever runs the tests are not ours; where the server programs are is."""
    ours = ("WAYPOST_", "DATABASE_URL", "PG", "OTEL_")
    return {name: value for name, value in os.environ.items() if name == "WAYPOST_PG_BIN" or not name.startswith(ours)}
