"""What a folder of tests pins, installed once: one Python environment a requirements file, one folder of npm's."""

import fcntl
import hashlib
import shutil
import subprocess
import sys

NPM = ("package.json", "package-lock.json")


def installed(tests, cache):
    """The folder that holds `npm` and an environment named after each requirements file of the folder `tests`; made
    in the cache when it is missing."""
    requirements = sorted(tests.glob("*.txt"))
    npm = [tests / name for name in NPM]
    folder = cache / f"{tests.name}-{pins((*requirements, *npm))}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in requirements:
            once(folder / file.stem, lambda into: environment(into, file))
        once(folder / "npm", lambda into: packages(into, npm))
    return folder


def node_program(folder):
    """The pinned Node.js below what is installed: not every system's is new enough."""
    return folder / "npm/node_modules/node/bin/node"


def pins(files):
    """Eight bytes of hash over all that is pinned and over this Python, to which environments are bound."""
    seen = hashlib.sha256(f"{sys.version_info[:2]} {sys.executable}".encode())
    for file in files:
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


def packages(folder, files):
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder)
    # Not `npm ci`: it refuses the whole list when an optional package for another system is missing from the lock.
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)


def run(*command, cwd=None):
    # Whatever they say is for people; standard output is for the verdicts.
    status = subprocess.run(command, cwd=cwd, stdout=sys.stderr).returncode
    if status != 0:
        sys.exit(f"`{' '.join(map(str, command))}` failed with {status}")
