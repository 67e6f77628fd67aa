//! Programs produce the same bytes, exit codes and errors with and without `headlong run`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_testkit::Scratch;

const HEADLONG: &str = env!("CARGO_BIN_EXE_headlong");

/// The preload library, built beside the program.
fn library() -> PathBuf {
    let profile = Path::new(HEADLONG).parent().expect("in a profile");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "headlong-deception"]);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let target = profile.parent().expect("in a target");
    build.arg("--target-dir").arg(target);
    assert!(build.status().expect("cargo starts").success());
    profile.join("libheadlong.so")
}

/// A reception; killed when dropped.
struct TestReception(Child);

impl TestReception {
    fn start(socket: &Path) -> Self {
        let mut command = Command::new(HEADLONG);
        command.args(["reception", "--memory", "64MiB", "--socket"]);
        command.arg(socket).stderr(Stdio::null());
        let child = command.spawn().expect("started");
        let end = Instant::now() + Duration::from_secs(30);
        while status(socket).is_none() {
            assert!(Instant::now() < end, "the reception does not respond");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }
}

impl Drop for TestReception {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(socket: &Path) -> Option<String> {
    let mut command = Command::new(HEADLONG);
    command
        .args(["reception", "--status", "--socket"])
        .arg(socket);
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Files to read, and programs that read them.
struct ProgramsCase {
    scratch: Scratch,
    library: PathBuf,
}

const CALLS: &str = r#"
import ctypes, errno, fcntl, mmap, os, sys
path = sys.argv[1]
def show(name, call):
    try: result = call()
    except OSError as error: result = errno.errorcode[error.errno]
    print(name, result if not isinstance(result, bytes) else (len(result), hash_of(result)))
def hash_of(data): return sum(data[::97])
big = os.open(path, os.O_RDONLY)
for offset in (0, 1, 700_000, 4_000_000, 4_999_999, 5_000_000, 1 << 40):
    show('pread', lambda: os.pread(big, 300_000, offset))
show('negative', lambda: os.pread(big, 10, -5))
show('position', lambda: os.lseek(big, 0, 1))
show('read', lambda: os.read(big, 100_000))
show('position', lambda: os.lseek(big, 0, 1))
show('preadv', lambda: os.preadv(big, [bytearray(9000), bytearray(20000)], 12345))
show('nowait', lambda: os.preadv(big, [bytearray(1)], 0, os.RWF_NOWAIT))
out = os.open(path + '.out', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
show('sendfile', lambda: os.sendfile(out, big, 4096, 400_000))
show('sendfile', lambda: os.sendfile(out, big, None, 400_000))
show('copy', lambda: os.copy_file_range(big, out, 100_000))
reader, writer = os.pipe()
show('splice', lambda: os.splice(big, writer, 30_000, offset_src=50_000))
show('pipe', lambda: os.read(reader, 100_000))
show('seek in a pipe', lambda: os.pread(reader, 10_000, 0))
show('to a closed one', lambda: os.sendfile(99_999, big, 0, 100_000))
folder = os.open('/', os.O_RDONLY)
show('folder', lambda: os.read(folder, 100_000))
zero = os.open('/dev/zero', os.O_RDONLY)
show('device', lambda: os.read(zero, 100_000))
show('write only', lambda: os.read(os.open(path + '.out', os.O_WRONLY), 100_000))
os.close(zero)
show('closed', lambda: os.read(zero, 100_000))
show('negative descriptor', lambda: os.read(-1, 100_000))
other = os.dup2(reader, big + 50)
os.dup2(big, other)
show('over another', lambda: os.pread(other, 100_000, 3_000_000))
libc = ctypes.CDLL(None, use_errno=True)
libc.pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
print('bad buffer', libc.pread(big, 8, 100_000, 0), errno.errorcode[ctypes.get_errno()])
view = mmap.mmap(big, 4_000_000, prot=mmap.PROT_READ)
print('mapped', hash_of(view[:]))
sys.stdout.flush()
if os.fork() == 0:
    show('child', lambda: os.pread(big, 200_000, 2_000_000))
    sys.stdout.flush()
    os._exit(3)
print('child ended', os.wait()[1])
show('lock', lambda: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
many = []
import resource
limit = min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 100)
resource.setrlimit(resource.RLIMIT_NOFILE, (limit + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for _ in range(limit): many.append(os.open(path, os.O_RDONLY))
show('many', lambda: os.pread(many[-1], 100_000, 1_000_000))
shrunk = os.open(path + '.out', os.O_RDONLY)
show('before', lambda: os.pread(shrunk, 600_000, 0))
os.truncate(path + '.out', 1000)
show('shrunk', lambda: os.pread(shrunk, 600_000, 0))
os.unlink(path + '.out')
show('without a name', lambda: os.pread(shrunk, 600_000, 0))
"#;

impl ProgramsCase {
    fn new() -> Self {
        let scratch = Scratch::new("any-program").expect("a folder");
        let bytes: Vec<u8> = (0..5_000_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        std::fs::write(scratch.path().join("big"), bytes).expect("written");
        std::fs::write(scratch.path().join("small"), b"a few bytes\n").expect("written");
        std::fs::write(scratch.path().join("calls.py"), CALLS).expect("written");
        Self {
            scratch,
            library: library(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("socket")
    }

    /// Drops the file from the page cache, so that it is read.
    fn cool(&self) {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", self.scratch.path().join("big").display()));
        let _ = command
            .args(["iflag=nocache", "count=0"])
            .stderr(Stdio::null())
            .status();
    }

    fn outputs(&self, is_helped: bool) -> Vec<Output> {
        let commands: [&[&str]; 10] = [
            &["cat", "big", "small"],
            &["cp", "big", "copy"],
            &["sha256sum", "big", "copy", "small"],
            &[
                "dd",
                "if=big",
                "bs=64k",
                "skip=3",
                "count=20",
                "status=none",
            ],
            &["tail", "-c", "1234567", "big"],
            &["cmp", "big", "small"],
            &["tar", "-c", "--mtime=@0", "big", "small"],
            &["cat", "."],
            &["cat", "no-such-file"],
            &["python3", "calls.py", "big"],
        ];
        let run = |words: &&[&str]| {
            self.cool();
            let mut command = match is_helped {
                true => {
                    let mut command = Command::new(HEADLONG);
                    command.arg("run").arg("--socket").arg(self.socket());
                    command
                        .arg("--library")
                        .arg(&self.library)
                        .arg("--")
                        .args(*words);
                    command
                }
                false => {
                    let mut command = Command::new(words[0]);
                    command.args(&words[1..]);
                    command
                }
            };
            command.current_dir(self.scratch.path());
            command.output().expect("started")
        };
        commands.iter().map(run).collect()
    }

    fn same(&self, expected: &[Output]) {
        for (index, (plain, helped)) in expected.iter().zip(self.outputs(true)).enumerate() {
            assert_eq!(plain.status, helped.status, "command {index}");
            assert_eq!(
                String::from_utf8_lossy(&plain.stderr),
                String::from_utf8_lossy(&helped.stderr),
                "command {index}"
            );
            assert!(
                plain.stdout == helped.stdout,
                "command {index} gave other bytes:\n{}\n{}",
                String::from_utf8_lossy(&plain.stdout[..plain.stdout.len().min(3000)]),
                String::from_utf8_lossy(&helped.stdout[..helped.stdout.len().min(3000)])
            );
        }
    }
}

#[test]
fn programs_behave_the_same_with_or_without_reception() {
    let case = ProgramsCase::new();
    let expected = case.outputs(false);
    case.same(&expected);
    let reception = TestReception::start(&case.socket());
    case.same(&expected);
    let text = status(&case.socket()).expect("the reception responds");
    assert!(
        !text.contains("\"ready\":0"),
        "no program was helped: {text}"
    );
    drop(reception);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let reception = TestReception::start(&case.socket());
                std::thread::sleep(Duration::from_millis(50));
                drop(reception);
            }
        });
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.same(&expected)));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn status_with_closed_reader_ends_silently() {
    let case = ProgramsCase::new();
    let _reception = TestReception::start(&case.socket());
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(HEADLONG);
    command.args(["reception", "--status", "--socket"]);
    let output = command.arg(case.socket()).stdout(closed).output();
    let output = output.expect("started");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}
