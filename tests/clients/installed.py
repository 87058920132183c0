"""The clients, installed once for each set of pins: one Python environment a requirements file, one npm folder."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = sorted(HERE.glob("*.txt"))
NPM = (HERE / "package.json", HERE / "package-lock.json")


def installed(cache):
    """The folder that holds `npm` and an environment named after each requirements file; made when it is missing."""
    folder = cache / f"clients-{pins()}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for requirements in REQUIREMENTS:
            once(folder / requirements.stem, lambda into: environment(into, requirements))
        once(folder / "npm", npm)
    return folder


def pins():
    """Eight bytes of hash over all that is pinned and over this Python, to which environments are bound."""
    seen = hashlib.sha256(f"{sys.version_info[:2]} {sys.executable}".encode())
    for file in (*REQUIREMENTS, *NPM):
        seen.update(file.read_bytes())
    return seen.hexdigest()[:16]


def once(folder, make):
    """Calls `make(folder)` unless it was once done; what was left half done is made anew."""
    done = folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {folder.name}", file=sys.stderr, flush=True)
        make(folder)
        done.touch()


def environment(folder, requirements):
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)


def npm(folder):
    folder.mkdir()
    for file in NPM:
        shutil.copy(file, folder)
    # Not `npm ci`: it refuses the whole list when an optional package for another system is missing from the lock.
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)


def run(*command, cwd=None):
    # Whatever they say is for people; standard output is for the verdicts.
    status = subprocess.run(command, cwd=cwd, stdout=sys.stderr).returncode
    if status != 0:
        sys.exit(f"`{' '.join(map(str, command))}` failed with {status}")
