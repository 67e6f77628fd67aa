# Calls that read files, each with its result.
import errno, hashlib, mmap, os, resource, shutil, socket, sys

path = sys.argv[1]
big = os.open(path, os.O_RDONLY)
size = os.fstat(big).st_size


def show(name, call):
    try:
        result = call()
    except OSError as error:
        result = errno.errorcode[error.errno]
    if isinstance(result, (bytes, bytearray)):
        result = len(result), hashlib.md5(result).hexdigest()
    print(name, result)


def copied(call):
    """Shows the result of a call and the file that it wrote."""
    out = os.open("out/calls", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        show("copied", lambda: call(out))
        show("is", lambda: os.pread(out, 1 << 22, 0))
    finally:
        os.close(out)


# The kernel may stop within a vector; with all of it in memory, it reads all.
for offset in (0, 1, 4095, 1_000_000, size - 70_000, size - 1, size, size + 1, 1 << 50):
    buffers = [bytearray(9000), bytearray(0), bytearray(50_000)]
    show("preadv", lambda: os.preadv(big, buffers, offset))
    show("buffers", lambda: b"".join(buffers))
    show("pread", lambda: os.pread(big, 100_000, offset))
show("bad offset", lambda: os.preadv(big, [bytearray(1)], -2))
show("readv", lambda: os.readv(big, [bytearray(100_000), bytearray(100_000)]))
show("position", lambda: os.lseek(big, 0, os.SEEK_CUR))
show("hole", lambda: os.lseek(big, 0, os.SEEK_HOLE))
copied(lambda out: os.sendfile(out, big, 12_345, 1_000_000))


def copied_as_cp_does(out):
    try:
        return os.copy_file_range(big, out, 1_000_000, 54_321)
    except OSError as error:
        # The kernel copies only within a file system.
        assert error.errno == errno.EXDEV
        return os.sendfile(out, big, 54_321, 1_000_000)


copied(copied_as_cp_does)
show("position", lambda: os.lseek(big, 0, os.SEEK_CUR))
here, there = socket.socketpair()
here.setblocking(False)
show("to a socket", lambda: os.sendfile(here.fileno(), big, 777, 20_000) and there.recv(100_000))
here.close()
show("to a closed socket", lambda: os.sendfile(there.fileno(), big, 0, 1000))
reader, writer = os.pipe()
show("spliced", lambda: os.splice(big, writer, 30_000, offset_src=50_000) and os.read(reader, 100_000))
show("seek in a pipe", lambda: os.pread(reader, 10_000, 0))
zero = os.open("/dev/zero", os.O_RDONLY)
show("device", lambda: os.read(zero, 100_000))
os.close(zero)
show("closed", lambda: os.read(zero, 100_000))
show("negative descriptor", lambda: os.read(-1, 100_000))
other = os.dup2(big, os.dup2(reader, big + 50))
show("over another", lambda: os.pread(other, 100_000, 3_000_000))
with open(path, "rb") as file:
    for where, what in ((0, 0), (3_000_000, 0), (-5000, 2), (10, 0)):
        file.seek(where, what)
        show("file", lambda: file.read(200_000))
with open(path, "rb", buffering=0) as file:
    show("readinto", lambda: file.readinto(bytearray(300_000)))
    show("readall", lambda: file.readall())
with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
    show("mapped", lambda: view[100_000:2_000_000])
    show("found", lambda: view.find(view[2_500_000:2_500_016]))
private = mmap.mmap(big, 1 << 20, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
private[5] = 7
show("private", lambda: private[:10_000])
shutil.copyfile(path, "out/calls.copy")
with open("out/calls.copy", "rb") as file:
    print("shutil", hashlib.sha256(file.read()).hexdigest())
os.unlink("out/calls.copy")
shrunk = os.open("out/calls", os.O_RDONLY)
show("before", lambda: os.pread(shrunk, 600_000, 0))
os.truncate("out/calls", 1000)
show("shrunk", lambda: os.pread(shrunk, 600_000, 0))
os.unlink("out/calls")
show("without a name", lambda: os.pread(shrunk, 600_000, 0))
show("write only", lambda: os.read(os.open("out/written", os.O_WRONLY | os.O_CREAT), 100_000))
os.unlink("out/written")
show("locked", lambda: os.posix_fadvise(big, 0, 0, os.POSIX_FADV_WILLNEED))
children = []
for index in range(4):
    reader, writer = os.pipe()
    if os.fork() == 0:
        whole = hashlib.md5()
        mine = os.open(path, os.O_RDONLY)
        for offset in range(index * 4096, size, 400_000):
            whole.update(os.pread(mine, 100_000, offset))
        os.write(writer, whole.hexdigest().encode())
        os._exit(index)
    os.close(writer)
    children.append(reader)
print([os.read(child, 100) for child in children])
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in children))
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
many = [os.open(path, os.O_RDONLY) for _ in range(min(20_000, most - 100))]
show("many", lambda: os.pread(many[-1], 100_000, 1_000_000))
