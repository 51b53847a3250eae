"""Measures a wardfs binary: calls over the socket, the mount against a plain directory, a large store. Run by scripts/bench."""

import hashlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BINARY, AS_JSON = sys.argv[1], "--json" in sys.argv[2:]
PARTS = [part for part in sys.argv[2:] if part != "--json"]
ROUNDS = 9
VERSIONS = int(os.environ.get("WARDFS_BENCH_VERSIONS", 1_000_000))


class Calls:
    """A plain connection to a control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def call(self, tool, arguments, times=None):
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        line, answer = json.dumps(request).encode() + b"\n", b""
        start = time.perf_counter()
        self.socket.sendall(line)
        while not answer.endswith(b"\n"):
            answer += self.socket.recv(1 << 20)
        # From line to line: what a client makes of the JSON is its own affair.
        if times is not None:
            times.append(time.perf_counter() - start)
        answer = json.loads(answer)
        if answer["result"]["isError"]:
            sys.exit(f"{tool}: {answer}")
        return answer["result"]["structuredContent"]


def quantiles(times):
    times = sorted(times)
    return {"p50_us": round(times[len(times) // 2] * 1e6), "p99_us": round(times[len(times) * 99 // 100] * 1e6)}


def timed(work, count):
    times = []
    for number in range(count):
        work(number, times)
    return quantiles(times)


class Mounted:
    def __init__(self, durability):
        self.dir, self.durability = tempfile.mkdtemp(prefix="wardfs-bench-"), durability
        self.source, self.at, self.store = (os.path.join(self.dir, name) for name in ("source", "mnt", "store"))
        os.mkdir(self.source)
        os.mkdir(self.at)
        self.mount()

    def mount(self):
        """Mounts; returns how long that took, in seconds."""
        start = time.perf_counter()
        command = [BINARY, "mount", self.source, self.at, "--store", self.store, "--json", "--durability", self.durability]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode != 0:
            sys.exit(said.stderr)
        started = json.loads(said.stdout)
        self.socket, self.pid = started["socket"], started["pid"]
        return time.perf_counter() - start

    def umount(self):
        subprocess.run([BINARY, "umount", self.at], check=True)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def memory(self):
        """What the daemon holds in memory, in MiB."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.umount()
        shutil.rmtree(self.dir, ignore_errors=True)


def socket_figures():
    figures = {}
    with Mounted("relaxed") as mount:
        with open(os.path.join(mount.source, "read.txt"), "w") as file:
            file.write("x" * 63 + "\n" + ("y" * 63 + "\n") * 63)
        calls = Calls(mount.socket)
        calls.call("read", {"path": "read.txt"})
        figures["read of 4 KiB"] = timed(lambda _, times: calls.call("read", {"path": "read.txt"}, times), 3000)
        text = "".join(f"line {n}: {'z' * 50}\n" for n in range(270))
        with open(os.path.join(mount.source, "edit.txt"), "w") as file:
            file.write(text)
        state = {"hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}

        def edit(number, times):
            old, new = (f"line {number - 1}x:", f"line {number}x:") if number else ("line 0:", "line 0x:")
            arguments = {"path": "edit.txt", "expected_hash": state["hash"], "edits": [{"old_text": old, "new_text": new}]}
            state["hash"] = calls.call("edit", arguments, times)["hash"]

        figures["hash-checked edit of 16 KiB, relaxed"] = timed(edit, 1000)
    return figures


def tree(root, files, lines):
    """Files of so many lines in `tree`, a hundred in a directory."""
    for directory in range(files // 100):
        path = os.path.join(root, "tree", str(directory))
        os.makedirs(path)
        for number in range(100):
            write(os.path.join(path, f"f{number}"), b"some text %d\n" % number * lines)


def shell(directory, script):
    start = time.perf_counter()
    subprocess.run(["sh", "-c", script], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


WORK = {
    "find of 5,000 files, warm": "find tree > /dev/null",
    "ls -lR, warm": "ls -lR tree > /dev/null",
    "cat of 5,000 small files": "find tree -type f -print0 | xargs -0 cat > /dev/null",
    "read of 256 MiB": "cat big > /dev/null",
    "write of 64 MiB, new file": "dd if=/dev/zero of=new bs=128k count=512 status=none; rm new",
    "1,000 files made and removed": "mkdir m; for n in $(seq 1000); do echo $n > m/$n; done; rm -r m",
    "1,000 saves by rename": "for n in $(seq 1000); do echo $n > s.tmp; mv s.tmp s; done",
}


def mount_figures():
    figures = {}
    with Mounted("strict") as mount:
        plain = os.path.join(mount.dir, "plain")
        os.mkdir(plain)
        for root in (plain, mount.at):
            tree(root, 5_000, 200)
            with open(os.path.join(root, "big"), "wb") as file:
                for _ in range(256):
                    file.write(os.urandom(1 << 20))
        for name, script in WORK.items():
            for directory in (plain, mount.at):
                shell(directory, script)
            ratios = [shell(mount.at, script) / shell(plain, script) for _ in range(ROUNDS)]
            spread = statistics.quantiles(ratios, n=4)
            figures[name] = {"ratio": round(statistics.median(ratios), 2), "quartiles": [round(spread[0], 2), round(spread[2], 2)]}
    return figures


def write(path, text):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, text)
    os.close(file)


def size_of(directory):
    sizes = (os.stat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(directory) for name in names)
    return sum(sizes)


def store_figures():
    """A store of many versions: how it starts, answers and what it holds; then a tree that is removed and restored."""
    figures = {}
    files, rounds = 10_000, VERSIONS // 10_000
    with Mounted("relaxed") as mount:
        for directory in range(files // 100):
            os.mkdir(os.path.join(mount.at, str(directory)))
        paths = [os.path.join(mount.at, str(n // 100), f"f{n}") for n in range(files)]
        start = time.perf_counter()
        for number in range(rounds):
            for n, path in enumerate(paths):
                write(path, b"version %d of file %d\n" % (number, n) * 5)
        took = time.perf_counter() - start
        figures["versions made"] = (files * rounds, "")
        figures["made, each"] = (round(took / files / rounds * 1e6), "µs")
        mount.umount()
        figures["store, a version"] = (round(size_of(mount.store) / files / rounds), "bytes")
        figures["start after an orderly end"] = (round(mount.mount() * 1000), "ms")
        figures["memory after the start"] = (round(mount.memory()), "MiB")
        for path in paths[:100]:
            write(path, b"once more\n")
        mount.kill()
        figures["start after a kill"] = (round(mount.mount() * 1000), "ms")
        calls = Calls(mount.socket)
        calls.call("history", {"path": "0/f0", "limit": 20})
        asked = timed(lambda n, times: calls.call("history", {"path": f"{n % 100}/f{n % 100 * 100 + n // 100}", "limit": 20}, times), 1000)
        figures["history of a file, p50"] = (asked["p50_us"], "µs")
        figures["history of a file, p99"] = (asked["p99_us"], "µs")
        figures["memory after these"] = (round(mount.memory()), "MiB")
        mount.umount()
        os.remove(os.path.join(mount.store, "index.db"))
        figures["start without its index"] = (round(mount.mount() * 1000), "ms")
    with Mounted("strict") as mount:
        plain = os.path.join(mount.dir, "plain")
        count = 100_000
        for root in (plain, mount.source):
            tree(root, count, 100)
        calls = Calls(mount.socket)
        calls.call("checkpoint", {"name": "before"})
        there = shell(plain, "rm -rf tree")
        figures["rm -rf of 100,000 files, over that in a plain directory"] = (round(shell(mount.at, "rm -rf tree") / there, 2), "")
        start = time.perf_counter()
        calls.call("revert", {"checkpoint": "before"})
        figures["restore of 100,000 files"] = (round(time.perf_counter() - start, 1), "s")
        found = sum(len(names) for _, _, names in os.walk(os.path.join(mount.source, "tree")))
        if found != count:
            sys.exit(f"{found} of {count} files came back")
        figures["memory after that"] = (round(mount.memory()), "MiB")
    return figures


def store_table(figures):
    for name, (figure, unit) in figures.items():
        print(f"  {name:56} {figure:>10,} {unit}")


def socket_table(figures):
    for name, figure in figures.items():
        print(f"  {name:42} p50 {figure['p50_us']} µs, p99 {figure['p99_us']} µs")


def mount_table(figures):
    print("  time in the mount (strict) over time in a plain directory, median and quartiles")
    for name, figure in figures.items():
        print(f"  {name:42} {figure['ratio']:6}   {figure['quartiles'][0]} to {figure['quartiles'][1]}")


TABLES = {"socket": (socket_figures, socket_table), "mount": (mount_figures, mount_table), "store": (store_figures, store_table)}


def main():
    unknown = [part for part in PARTS if part not in TABLES]
    if unknown:
        sys.exit(f"no part of the measurements is called {unknown[0]}; there are {', '.join(TABLES)}")
    version = subprocess.run([BINARY, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    result = {"version": version, "cores": os.cpu_count()}
    for part in PARTS or TABLES:
        result[part] = TABLES[part][0]()
    if AS_JSON:
        print(json.dumps(result))
        return
    print(f"{version}, {result['cores']} cores, recording on")
    for part in PARTS or TABLES:
        TABLES[part][1](result[part])


main()
