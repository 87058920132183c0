"""Two pods on one database behind a proxy that gives each request to the next of them, with the face of one pod."""

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from pod import Pod, shared_database

CADDYFILE = Path(__file__).parent.parent / "Caddyfile"


class Pair:
    """As a context. A third pod, which nobody calls, keeps the database while the two restart."""

    def __init__(self, program, caddy):
        self.program = program
        self.caddy = caddy

    def __enter__(self):
        with ExitStack() as started:
            database = shared_database(started.enter_context(Pod(self.program)))
            port = free_port()
            self.url = f"http://127.0.0.1:{port}"
            self.mcp = f"{self.url}/mcp"
            settings = {"DATABASE_URL": database, "WAYPOST_PUBLIC_URL": self.url}
            self.pods = [started.enter_context(Pod(self.program, **settings)) for _ in range(2)]
            folder = Path(tempfile.mkdtemp(prefix="waypost-proxy-"))
            started.callback(shutil.rmtree, folder, ignore_errors=True)
            self.start_proxy(folder, port)
            started.callback(self.stop_proxy)
            self.wait_for_proxy(folder)
            self.started = started.pop_all()
        return self

    def __exit__(self, *_):
        calls = [pod.counted("waypost_http_requests_total") for pod in self.pods]
        self.started.close()
        assert all(calls), f"the proxy has not called both pods: {calls}"

    def start_proxy(self, folder, port):
        pods = " ".join(pod.url for pod in self.pods)
        with open(folder / "log", "wb") as log:
            self.proxy = subprocess.Popen(
                [self.caddy, "run", "--adapter", "caddyfile", "--config", CADDYFILE],
                env={"HOME": str(folder), "PORT": str(port), "PODS": pods},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for_proxy(self, folder):
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=10).close()
                return
            except OSError as fault:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the proxy does not serve: {(folder / 'log').read_text()[-2000:]}") from fault
                time.sleep(0.05)

    def stop_proxy(self):
        self.proxy.terminate()
        self.proxy.wait()

    def restart(self):
        """One after the other: whoever is called meanwhile is the other one."""
        for pod in self.pods:
            pod.restart()

    def ensure(self):
        for pod in self.pods:
            pod.ensure()

    def processes(self):
        return [pod.process for pod in self.pods]

    def held_reads(self):
        return sum(pod.held_reads() for pod in self.pods)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
