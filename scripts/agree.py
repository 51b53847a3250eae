"""agree.py stress DIR SEED SECONDS: processes that get in each other's way, below DIR. agree.py compare A B: is B's tree A's?

Prints a line a check: `pass NAME` or `fail NAME`, and what differs on stderr.
"""

import ctypes
import errno
import hashlib
import mmap
import multiprocessing
import os
import random
import stat
import sys
import time

# What a process may meet whose names others take away.
RACES = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENODATA, errno.EBUSY}
WORKERS = 4
EXCHANGE = 2
libc = ctypes.CDLL(None, use_errno=True)


class Worker:
    def __init__(self, top, seed):
        self.top, self.random = top, random.Random(seed)

    def path(self):
        depth = self.random.choice([1, 1, 2, 2, 3])
        return os.path.join(self.top, *(f"d{self.random.randrange(3)}" for _ in range(depth - 1)), f"n{self.random.randrange(12)}")

    def folder(self):
        return os.path.join(self.top, *(f"d{self.random.randrange(3)}" for _ in range(self.random.randrange(1, 4))))

    def data(self, most=30_000):
        return self.random.randbytes(self.random.choice([0, 1, 100, 4096, self.random.randrange(most)]))

    def open(self, flags):
        fd = os.open(self.path(), flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EISDIR, "no file")
        return fd

    def write(self):
        fd = self.open(os.O_WRONLY | os.O_CREAT | self.random.choice([os.O_TRUNC, os.O_APPEND, 0, os.O_EXCL]))
        try:
            for _ in range(self.random.randrange(1, 4)):
                os.write(fd, self.data())
            if self.random.randrange(8) == 0:
                os.fsync(fd)
        finally:
            os.close(fd)

    def patch(self):
        fd = self.open(os.O_RDWR)
        try:
            os.pwrite(fd, self.data(), self.random.randrange(100_000))
            if self.random.randrange(3) == 0:
                os.ftruncate(fd, self.random.randrange(100_000))
            if self.random.randrange(3) == 0:
                os.posix_fallocate(fd, self.random.randrange(50_000), self.random.randrange(1, 50_000))
        finally:
            os.close(fd)

    def map(self):
        # A file of its own: one that shrinks under a mapping kills who touches it.
        fd = os.open(os.path.join(self.top, f"mapped-{os.getpid()}"), os.O_RDWR | os.O_CREAT)
        try:
            size = self.random.randrange(1, 60_000)
            os.ftruncate(fd, size)
            with mmap.mmap(fd, size) as mapping:
                data = self.data(5000)[:size]
                mapping[: len(data)] = data
                os.pwrite(fd, b"beside", self.random.randrange(size))
                mapping[size - 1] = 7
        finally:
            os.close(fd)

    def copy(self):
        source = self.open(os.O_RDONLY)
        try:
            target = self.open(os.O_WRONLY | os.O_CREAT)
            try:
                os.copy_file_range(source, target, self.random.randrange(1, 40_000), 0, self.random.randrange(10_000))
            finally:
                os.close(target)
        finally:
            os.close(source)

    def truncate(self):
        os.truncate(self.path(), self.random.randrange(50_000))

    def unlinked(self):
        fd = self.open(os.O_RDWR | os.O_CREAT)
        try:
            os.unlink(self.path())
            os.write(fd, self.data())
            os.fchmod(fd, 0o640)
            os.fstat(fd)
        finally:
            os.close(fd)

    def exchange(self):
        a, b = (os.fsencode(self.random.choice([self.path, self.folder])()) for _ in range(2))
        if libc.renameat2(-100, a, -100, b, EXCHANGE):
            raise OSError(ctypes.get_errno(), "exchange")

    def acts(self):
        return [
            *[self.write] * 8,
            *[self.patch] * 4,
            self.map,
            *[self.copy] * 2,
            self.truncate,
            self.unlinked,
            self.exchange,
            *[lambda: os.unlink(self.path())] * 4,
            *[lambda: os.mkdir(self.folder())] * 3,
            lambda: os.rmdir(self.folder()),
            *[lambda: os.rename(self.path(), self.path())] * 4,
            lambda: os.rename(self.folder(), self.folder()),
            *[lambda: os.link(self.path(), self.path(), follow_symlinks=False)] * 2,
            lambda: os.symlink(self.random.choice(["n1", "../n2", "/nowhere", "x" * 300]), self.path()),
            lambda: os.mkfifo(self.path()),
            lambda: os.chmod(self.path(), self.random.choice([0o600, 0o644, 0o755, 0o4711, 0o2755])),
            lambda: os.chown(self.path(), -1, os.getgid() if os.getuid() else self.random.randrange(5), follow_symlinks=False),
            lambda: os.utime(self.path(), ns=(self.random.randrange(10**18), self.random.randrange(10**18)), follow_symlinks=False),
            lambda: os.setxattr(self.path(), "user.x", self.random.randbytes(self.random.randrange(200))),
            lambda: os.removexattr(self.path(), "user.x"),
        ]

    def run(self, until):
        acts, done, odd = self.acts(), 0, {}
        while time.monotonic() < until:
            act = self.random.choice(acts)
            try:
                act()
                done += 1
            except OSError as error:
                # A symlink's or FIFO's own rules; an attribute on what has none.
                if error.errno not in RACES | {errno.EPERM, errno.ENXIO, errno.ENAMETOOLONG}:
                    key = f"{errno.errorcode.get(error.errno, error.errno)} of {getattr(act, '__name__', act)}"
                    odd[key] = odd.get(key, 0) + 1
        return done, odd


def work(top, seed, until, results):
    results.put(Worker(top, seed).run(until))


def stress(top, seed, seconds):
    results = multiprocessing.Queue()
    until = time.monotonic() + seconds
    workers = [multiprocessing.Process(target=work, args=(top, seed * 100 + n, until, results)) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    done, odd = sum(done for done, _ in found), [odd for _, odd in found if odd]
    print(f"{done} changes by {WORKERS} processes", file=sys.stderr)
    report("changes-go-through", [str(each) for each in odd] + ([] if done > 100 else [f"only {done} changes"]))


def report(name, wrong):
    print("fail" if wrong else "pass", name, flush=True)
    for line in wrong[:10]:
        print(f"{name}: {line}", file=sys.stderr)


def snapshot(top):
    """What there is, by path: for each check what must agree."""
    found, inodes = {}, {}
    waiting = [b"."]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(os.fsencode(top), folder)) as entries:
            listed = list(entries)
        for entry in listed:
            path, full = os.path.join(folder, entry.name), entry.path
            at = os.lstat(full)
            kind = stat.S_IFMT(at.st_mode)
            see = {
                "kinds": kind,
                "modes": oct(at.st_mode),
                "owners": (at.st_uid, at.st_gid),
                "sizes": None if kind == stat.S_IFDIR else (at.st_size, at.st_blocks),
                "times": (at.st_mtime_ns, at.st_ctime_ns),
                "link-counts": at.st_nlink,
                "devices": at.st_rdev,
                "attributes": sorted(
                    (name, os.getxattr(full, name, follow_symlinks=False)) for name in os.listxattr(full, follow_symlinks=False)
                ),
            }
            if kind == stat.S_IFLNK:
                see["targets"] = os.readlink(full)
            if kind == stat.S_IFREG:
                with open(full, "rb") as file:
                    see["contents"] = hashlib.sha256(file.read()).hexdigest()
            if entry.inode() != at.st_ino:
                see["numbers"] = f"listed as {entry.inode()}, is {at.st_ino}"
            if kind == stat.S_IFDIR:
                waiting.append(path)
            else:
                inodes.setdefault(at.st_ino, []).append(path)
            found[path] = see
    for paths in inodes.values():
        for path in paths:
            found[path]["hard-links"] = sorted(paths)
    return found


CHECKS = ["kinds", "modes", "owners", "sizes", "times", "link-counts", "devices", "attributes", "targets", "contents", "numbers", "hard-links"]


def compare(a, b):
    ours, theirs = snapshot(a), snapshot(b)
    missing = [f"only in {a}: {path}" for path in ours.keys() - theirs.keys()]
    extra = [f"only in {b}: {path}" for path in theirs.keys() - ours.keys()]
    report("names", missing + extra + ([] if ours else ["nothing there at all"]))
    both = sorted(ours.keys() & theirs.keys())
    for check in CHECKS:
        wrong = []
        for path in both:
            one, other = ours[path].get(check), theirs[path].get(check)
            if one != other:
                wrong.append(f"{path}: {one} and {other}")
        report(check, wrong)
    print(f"{len(both)} entries compared", file=sys.stderr)


if sys.argv[1] == "stress":
    stress(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
else:
    compare(sys.argv[2], sys.argv[3])
