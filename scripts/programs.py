"""Runs programs in a view and on a plain copy of the same tree, compares, and takes all of it back by one revert.

With --killed the daemon is killed while they run, mounted again, and what the programs did so far is taken back.
"""

import argparse
import hashlib
import json
import os
import random
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/root"),
    "LANG": "C.UTF-8",
    "TERM": "xterm",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-01-02T03:04:05Z"))},
    **{name: os.environ[name] for name in ("CARGO_HOME", "RUSTUP_HOME") if name in os.environ},
}

# What differs between two runs of the same program: git's cache of inode numbers, and builds, which hold paths and times.
UNLIKE = (".git/index", "target/", "small/target/", ".npm/")


def manifest(root, times):
    """Everything that a tree is: by path, the kind, mode, owner, content, links and attributes (and files' times)."""
    found, names = {}, {}
    top = os.fsencode(root)
    for folder, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, top)
            st = os.lstat(path)
            entry = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid]
            entry.append({k: os.getxattr(path, k, follow_symlinks=False) for k in os.listxattr(path, follow_symlinks=False)})
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    entry.append(hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest")
                                 else hashlib.sha256(file.read()).digest())
                entry.append(names.setdefault((st.st_dev, st.st_ino), short) if st.st_nlink > 1 else short)
            elif stat.S_ISLNK(st.st_mode):
                entry.append(os.readlink(path))
            if times and not stat.S_ISDIR(st.st_mode):
                entry.append(st.st_mtime_ns)
            found[short] = entry
    return found


def differences(one, other, unlike=()):
    """Paths that are not the same in two manifests."""
    unlike = tuple(os.fsencode(name) for name in unlike)
    for path in sorted(one.keys() | other.keys()):
        if one.get(path) != other.get(path) and not (path + b"/").startswith(tuple(u.rstrip(b"/") + b"/" for u in unlike)):
            yield path, one.get(path), other.get(path)


class Failed(Exception):
    """A program did not do what it should."""


def run(cwd, *command, input=None, check=True):
    done = subprocess.run(command, cwd=cwd, env=ENV, input=input, capture_output=True, text=True, timeout=900)
    if check and done.returncode:
        raise Failed(f"{' '.join(command)[:200]}: exit code {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout


# The programs. Each gets the directory to work in, and a folder that is the same for both trees.

def vim(at, _):
    for copy, file in (("yes", "a.txt"), ("no", "b.txt"), ("auto", "c.txt")):
        run(at, "vim", "-Nu", "NONE", "-i", "NONE", "-es", "-c", f"set backup backupcopy={copy}", "-c", "%s/two/TWO/", "-c", "wq", f"small/{file}")
        assert "TWO" in open(f"{at}/small/{file}").read(), f"vim did not save {file}"


def nano(at, _):
    server = f"wardfs-programs-{os.getpid()}"
    tmux = lambda *rest: run(at, "tmux", "-L", server, *rest)
    # The server outlives the session, so that there is one to be told of its end.
    tmux("start-server", ";", "set-option", "-g", "exit-empty", "off", ";", "new-session", "-d", "-x", "80", "-y", "24", "nano -I small/d.txt; tmux -L " + server + " wait-for -S done")
    try:
        deadline = time.monotonic() + 30
        while "two" not in tmux("capture-pane", "-p"):
            if time.monotonic() > deadline:
                raise Failed("nano did not show the file")
            time.sleep(0.05)
        tmux("send-keys", "NANO ", "C-o", "Enter", "C-x")
        tmux("wait-for", "done")
    finally:
        run(at, "tmux", "-L", server, "kill-server", check=False)
    assert open(f"{at}/small/d.txt").read().startswith("NANO one"), "nano did not save"


def sed(at, _):
    files = run(at, "git", "ls-files", "-z").split("\0")
    chosen = [name for name in files if os.path.isfile(f"{at}/{name}") and not os.path.islink(f"{at}/{name}")][::20]
    for start in range(0, len(chosen), 500):
        run(at, "sed", "-i", "1s/^/edited by sed\\n/", *chosen[start:start + 500])


def git_commit(at, _):
    run(at, "git", "add", "-A", ":!.npm")
    run(at, "git", "commit", "-qm", "edits")


def git_checkout(at, _):
    run(at, "git", "checkout", "-q", "side")
    run(at, "git", "checkout", "-q", "main")
    run(at, "git", "checkout", "-q", "side")


def git_rebase(at, _):
    run(at, "git", "rebase", "-q", "main")
    status = run(at, "git", "status", "--porcelain")
    if status:
        raise Failed(f"git status after the rebase: {status[:300]}")
    run(at, "git", "stash", "list")


def cargo_build(at, _):
    where = f"{at}/small"
    run(where, "cargo", "build", "-q")
    assert run(where, "target/debug/small") == "Hello, world!\n", "the program that was built says something else"
    again = subprocess.run(["cargo", "build"], cwd=where, env=ENV, capture_output=True, text=True, check=True)
    assert "Compiling" not in again.stderr, "cargo builds again what it has just built"


def npm_install(at, shared):
    run(f"{at}/small", "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--cache", f"{shared}/npm", "typescript@5.4.5", "prettier@3.2.5", "lodash@4.17.21")
    run(f"{at}/small", "node", "node_modules/typescript/bin/tsc", "--version")


def tar(at, shared):
    if not os.path.exists(f"{shared}/include.tar"):
        run("/usr/include", "tar", "-cf", f"{shared}/include.tar", ".")
    os.mkdir(f"{at}/untarred")
    run(at, "tar", "-C", "untarred", "-xpf", f"{shared}/include.tar")
    run(at, "tar", "-C", "untarred", "-df", f"{shared}/include.tar")


def rsync(at, shared):
    source = f"{shared}/rsync"
    if not os.path.exists(source):
        run(shared, "cp", "-a", "/usr/include/linux", source)
        os.link(f"{source}/fuse.h", f"{source}/hard")
        os.symlink("fuse.h", f"{source}/soft")
        os.mkfifo(f"{source}/fifo")
        run(source, "truncate", "-s", "5M", "sparse")
        open(os.path.join(os.fsencode(source), b"not\xffutf8\nname"), "w").close()
        os.chmod(f"{source}/fb.h", 0o4755)
    run(at, "rsync", "-aHAXS", f"{source}/", "synced/")
    run(at, "rsync", "-aHAXS", "--delete", "--checksum", "untarred/linux/", "synced/")
    run(at, "rsync", "-aHAXS", "--inplace", "--delete", f"{source}/", "synced/")
    left = run(at, "rsync", "-aHAXSni", "--checksum", "--delete", f"{source}/", "synced/")
    if left:
        raise Failed(f"rsync would still change: {left[:300]}")


def sqlite(at, _):
    for mode in ("delete", "truncate", "persist", "wal"):
        run(at, "sqlite3", f"{mode}.db", f"pragma journal_mode={mode}; create table t(a, b);")
        for start in range(0, 2000, 500):
            run(at, "sqlite3", f"{mode}.db", input=f"with recursive n(i) as (values({start}) union all select i+1 from n where i<{start + 499}) insert into t select i, hex(i*i) from n; delete from t where a % 7 = 3; update t set b = b || 'x' where a % 5 = 1;")
        run(at, "sqlite3", f"{mode}.db", "vacuum;")
        said = run(at, "sqlite3", f"{mode}.db", "pragma integrity_check;")
        assert said == "ok\n", f"sqlite says {said}"


def remove_all(at, _):
    names = [name for name in os.listdir(at)]
    run(at, "rm", "-rf", *names)
    left = os.listdir(at)
    if left:
        raise Failed(f"rm -rf left {left[:5]}")


# Each with the commands that may be named as the ones that changed something.
STEPS = [
    (vim, ("vim",)),
    (nano, ("nano",)),
    (sed, ("sed",)),
    (git_commit, ("git",)),
    (git_checkout, ("git",)),
    (git_rebase, ("git",)),
    (cargo_build, ("cargo", "rustc", "cc", "ld", "rust-lld", "collect2", "small")),
    (npm_install, ("npm", "node")),
    (tar, ("tar",)),
    (rsync, ("rsync",)),
    (sqlite, ("sqlite3",)),
    (remove_all, ("rm",)),
]
# Steps whose directory is made by this script itself.
OWN = {"tar": ("python3",), "remove_all": ()}


def prepare(source, work):
    """A repository of the source's files: a main branch, a side branch that changes, moves and removes many."""
    tree = f"{work}/start"
    if os.path.exists(f"{source}/.git"):
        run(work, "git", "clone", "-q", "--no-local", source, tree)
        run(tree, "git", "checkout", "-q", "-B", "main")
        run(tree, "git", "remote", "remove", "origin")
    else:
        shutil.copytree(source, tree, symlinks=True)
        run(tree, "git", "init", "-q", "-b", "main")
    run(tree, "git", "config", "gc.auto", "0")
    os.mkdir(f"{tree}/small")
    for name in "abcd":
        with open(f"{tree}/small/{name}.txt", "w") as file:
            file.write("one\ntwo\nthree\n")
    os.chmod(f"{tree}/small/b.txt", 0o640)
    os.mkdir(f"{tree}/small/src")
    with open(f"{tree}/small/src/main.rs", "w") as file:
        file.write('fn main() {\n    println!("Hello, world!");\n}\n')
    with open(f"{tree}/small/Cargo.toml", "w") as file:
        file.write('[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n[workspace]\n')
    with open(f"{tree}/small/package.json", "w") as file:
        file.write('{"name": "small", "version": "1.0.0"}\n')
    with open(f"{tree}/.gitignore", "a") as file:
        file.write("target\nnode_modules\n*~\n")
    run(tree, "git", "add", "-A")
    run(tree, "git", "commit", "-qm", "start")
    run(tree, "git", "checkout", "-q", "-b", "side")
    files = [name for name in run(tree, "git", "ls-files", "-z").split("\0")
             if name and not name.startswith("small/") and not os.path.islink(f"{tree}/{name}")]
    for name in files[7::20]:
        with open(f"{tree}/{name}", "ab") as file:
            file.write(b"changed on the side\n")
    for name in files[3::40]:
        os.remove(f"{tree}/{name}")
    top = sorted({name.rsplit("/", 1)[0] for name in files if "/" in name and not name.startswith(".")})[0]
    run(tree, "git", "add", "-A")
    os.makedirs(f"{tree}/moved")
    run(tree, "git", "mv", top, "moved/here")
    run(tree, "git", "add", "-A")
    run(tree, "git", "commit", "-qm", "side")
    run(tree, "git", "checkout", "-q", "main")
    os.link(f"{tree}/small/a.txt", f"{tree}/small/hard.txt")
    os.symlink("a.txt", f"{tree}/small/soft.txt")
    os.setxattr(f"{tree}/small/a.txt", "user.kept", b"value")
    return tree


class View:
    """A mount of wardfs, and its commands."""

    def __init__(self, wardfs, work):
        self.wardfs, self.work, self.at = wardfs, work, f"{work}/mnt"
        self.env = {**ENV, "XDG_RUNTIME_DIR": f"{work}/run", "XDG_STATE_HOME": f"{work}/state"}
        os.mkdir(f"{work}/run", 0o700)
        os.mkdir(self.at)
        self.mount()

    def mount(self):
        said = self.call("mount", "--json", "--store", f"{self.work}/store", f"{self.work}/source", self.at)
        self.socket, self.pid = said["socket"], said["pid"]

    def kill(self):
        """Ends the daemon as a crash would, and waits until it is gone."""
        gone = os.pidfd_open(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        select.select([gone], [], [])
        os.close(gone)

    def call(self, *args):
        done = subprocess.run([self.wardfs, *args], env=self.env, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"wardfs {' '.join(args)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout

    def on(self, *args):
        return self.call(*args, "--socket", self.socket, "--json")

    def last(self):
        found = self.on("log", "-n", "1")["operations"]
        return found[0]["operation"] if found else 0

    def end(self):
        subprocess.run([self.wardfs, "umount", self.at], env=self.env, capture_output=True)
        if os.path.ismount(self.at):
            subprocess.run(["umount", "-l", self.at])


def actors(view, since, allowed):
    """Every operation since then was made through the mount, by one of these commands."""
    count = 0
    for operation in view.on("log", "--since", str(since), "-n", "1000000")["operations"]:
        actor = operation["actor"]
        command = os.path.basename((actor.get("command") or "?").split(" ")[0])
        if actor["channel"] != "fuse" or not any(command.startswith(name) for name in allowed):
            raise Failed(f"operation {operation['operation']} is recorded as by {actor}")
        count += 1
    if count == 0:
        raise Failed("nothing was recorded")
    return count


# What is cut off by a kill, each from its own beginning.
LOADS = [(vim, sed, git_commit, git_checkout, git_rebase), (cargo_build,), (npm_install,), (tar, rsync), (sqlite,), (remove_all,)]


def attempt(load, at, shared):
    """Runs programs until the first that fails."""
    try:
        for step in load:
            step(at, shared)
    except (Failed, AssertionError, OSError, subprocess.SubprocessError):
        pass


def killed(view, shared, rounds, seed, say, same):
    """Kills the daemon at random moments of the programs; what they did so far is there, recorded, and can be taken back."""
    chance = random.Random(seed)
    first = manifest(f"{view.work}/source", True)
    lasts = {}
    for turn in range(rounds):
        load = LOADS[turn % len(LOADS)]
        names = " ".join(step.__name__ for step in load)
        since = view.last()
        if load not in lasts:
            before = time.monotonic()
            attempt(load, view.at, shared)
            lasts[load] = time.monotonic() - before
            view.on("revert", "--since", str(since), "--yes")
            if not same(f"{names}, not cut off", first, manifest(f"{view.work}/source", True)):
                return
            since = view.last()
        after = chance.uniform(0, lasts[load])
        worker = threading.Thread(target=attempt, args=(load, view.at, shared))
        worker.start()
        time.sleep(after)
        view.kill()
        worker.join()
        before = time.monotonic()
        view.mount()
        took = time.monotonic() - before
        left = manifest(f"{view.work}/source", True)
        what = f"{names}, killed after {after:.2f} s of {lasts[load]:.2f} s"
        if not same(f"{what}, the view", left, manifest(view.at, True)):
            return
        operations = view.last() - since
        view.on("revert", "--since", str(since), "--yes") if operations else None
        fine = same(f"{what}, taken back", first, manifest(f"{view.work}/source", True))
        if fine and operations:
            view.on("revert", "--since", str(view.last() - 1), "--yes")
            fine = same(f"{what}, put back", left, manifest(f"{view.work}/source", True))
            view.on("revert", "--since", str(since), "--yes")
        say("kill", f"{what}: mounted again in {took:.2f} s, {operations} operations" + (", all exact" if fine else ""))
        if not fine:
            return
    view.call("verify", "--store", f"{view.work}/store")
    say("kill", f"{rounds} rounds; the store is whole")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--wardfs", required=True)
    args.add_argument("--name", required=True)
    args.add_argument("--only", nargs="*", help="these programs alone")
    args.add_argument("--killed", type=int, metavar="ROUNDS", help="kill the daemon while they run")
    args.add_argument("--seed", type=int, default=int(time.time()))
    args.add_argument("source")
    args = args.parse_args()
    failed = 0
    work = tempfile.mkdtemp(prefix="wardfs-programs.")
    view = None

    def say(what, text):
        print(f"{args.name}: {what}: {text}", flush=True)

    def same(what, one, other, unlike=()):
        nonlocal failed
        found = list(differences(one, other, unlike))
        if found:
            failed += 1
            say(what, f"FAILED: {len(found)} paths differ, e.g. " + "; ".join(f"{path!r}: {a} / {b}" for path, a, b in found[:3])[:900])
        return not found

    try:
        start = prepare(args.source, work)
        run(work, "cp", "-a", start, f"{work}/source")
        os.rename(start, f"{work}/plain")
        shared = f"{work}/shared"
        os.mkdir(shared)
        view = View(args.wardfs, work)
        first = manifest(f"{work}/source", True)
        say("start", f"{len(first)} entries")
        same("the view at the start", first, manifest(view.at, True))
        if args.killed:
            say("start", f"seed {args.seed}")
            killed(view, shared, args.killed, args.seed, say, same)
            return 1 if failed else 0
        moments = [(0, first)]
        for step, commands in STEPS:
            if args.only and step.__name__ not in args.only:
                continue
            name, since = step.__name__, view.last()
            took = []
            try:
                for at in (f"{work}/plain", view.at):
                    before = time.monotonic()
                    step(at, shared)
                    took.append(time.monotonic() - before)
                count = actors(view, since, commands + OWN.get(name, ()))
            except (Failed, AssertionError, subprocess.CalledProcessError) as error:
                failed += 1
                say(name, f"FAILED: {error}")
                continue
            now = manifest(f"{work}/source", True)
            if same(name, manifest(f"{work}/plain", False), manifest(f"{work}/source", False), UNLIKE):
                say(name, f"same as on a plain directory, {count} operations, {took[1]:.2f} s ({took[0]:.2f} s there)")
            moments.append((view.last(), now))
        for what, moment in (("one revert to the start", 0), ("the revert taken back", None), ("revert to the middle", len(moments) // 2), ("revert to the start again", 0)):
            since, wanted = moments[moment] if moment is not None else (view.last() - 1, moments[-1][1])
            before = time.monotonic()
            try:
                view.on("revert", "--since", str(since), "--yes")
            except Failed as error:
                failed += 1
                say(what, f"FAILED: {error}")
                continue
            took = time.monotonic() - before
            if same(what, wanted, manifest(f"{work}/source", True)) and same(what + ", through the mount", wanted, manifest(view.at, True)):
                say(what, f"the exact tree of {len(wanted)} entries, in {took:.2f} s")
    finally:
        if view:
            view.end()
        shutil.rmtree(work, ignore_errors=True)
    print(f"{args.name}: {failed} failed" if failed else f"{args.name}: all as on a plain directory, and taken back", flush=True)
    return 1 if failed else 0


sys.exit(main())
