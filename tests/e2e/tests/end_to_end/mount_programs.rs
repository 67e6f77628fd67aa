//! Programs of all kinds behave the same on a mount as in the tree: output, files and exit status.

use std::fs;
use std::process::Command;

use headlong_e2e_tests::preload::{Tools, same};
use headlong_e2e_tests::{Mount, have_or_skip};

/// Scripts that show attributes and folders, map files, and bypass the page cache.
const SCRIPTS: &[&str] = &[
    "ls -lRin --time-style=full-iso tree repository film.mkv",
    "stat -c '%n %F %a %u %g %s %b %i %h %Y %Z %T' big odd tree/* repository/.git/* special/*",
    "find . -printf '%p %y %m %n %U %G %s %i %T@ %l\\n' | sort",
    "find . -type f -size +100k -newermt 2019-01-01 -perm -444 | sort; du -ab tree | sort",
    "ls -la many | md5sum; ls many | wc -l; ls -U many | sort | md5sum; find many -inum 0 | wc -l",
    "cat special/link; cat special/dangling; readlink special/*; cat special/outside",
    "cat special/sparse | md5sum; cp --sparse=auto special/sparse out/sparse; du out/sparse",
    "tar -cf - --hard-dereference special/hard-1 special/hard-2 | tar -tvf - --utc; stat -c %i special/hard-*",
    "tar -cf - --sort=name special/hard-1 special/hard-2 special/sparse special/link | tar -tvf - --utc",
    "dd if=big iflag=direct bs=65536 skip=3 count=20 status=none | md5sum",
    "test -r big; echo $?; test -x big; echo $?; test -x special/run && special/run; echo $?",
    "python3 -c \"
import mmap
file = open('big', 'rb')
view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(len(view), sum(view[::4099]), view.find(b'abc', 1000), view[-50:])
private = mmap.mmap(file.fileno(), 65536, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
private[0:4] = b'mine'
print(private[0:8], view[0:8])
\"",
    "rsync -aH --numeric-ids --exclude=fifo special/ out/special/; find out/special -printf '%p %y %m %n %s %T@ %l\\n' | sort",
    "cp -a special/hard-1 special/hard-2 special/link out/; find out -printf '%p %y %n %s %T@\\n' | sort",
    "python3 -c \"
import os
for name, how in [('big', os.O_RDONLY | os.O_DIRECTORY), ('tree', os.O_RDONLY), ('none', 0), ('special/link', os.O_NOFOLLOW)]:
    try:
        print(name, os.close(os.open(name, how)))
    except OSError as error:
        print(name, error.errno)
file = os.open('big', os.O_RDONLY)
for at, length in [(0, 0), (5000000, 100), (5000011, 5), (9000000, 5), (1 << 40, 1)]:
    print(at, os.pread(file, length, at))
for call in (lambda: os.pread(file, 5, -1), lambda: os.read(os.open('tree', os.O_RDONLY), 5), lambda: os.readlink('big')):
    try:
        call()
    except OSError as error:
        print(error.errno)
\"",
];

/// Further files for these scripts.
const MAKE: &str = "
    set -e
    mkdir special many
    seq -f many/%05g.name 3000 | xargs touch -d 2021-03-04
    cd special
    ln -s ../big link; ln -s none dangling; ln -s /etc/hostname outside
    head -c 5000 ../big > hard-1; ln hard-1 hard-2
    truncate -s 10M sparse; printf middle | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
    mkfifo fifo
    printf '#!/bin/sh\\necho runs; exit 7\\n' > run; chmod 755 run
    chmod 640 hard-1
    touch -h -d 2020-02-02 *
    cd ..; touch -d 2020-02-02 special many
    sync .
";

fn made() -> Tools {
    let tools = Tools::new();
    let mut command = Command::new("sh");
    let made = command.args(["-c", MAKE]).current_dir(tools.folder());
    assert!(made.status().expect("started").success());
    tools
}

#[test]
fn programs_behave_the_same_on_a_mount() {
    let test = "programs on a mount";
    for program in ["rsync", "git", "sqlite3", "python3", "ffmpeg"] {
        if !have_or_skip(test, program) {
            return;
        }
    }
    if !Mount::available_or_skip(test) {
        return;
    }
    let tools = made();
    let expected = tools.in_folder(&tools.folder(), SCRIPTS);
    same(
        "again",
        &expected,
        &tools.in_folder(&tools.folder(), SCRIPTS),
    );
    let point = tools.beside("point");
    let config = |name: &str, text: &str| {
        let config = tools.beside(name);
        fs::write(&config, text).expect("written");
        config.to_str().expect("a text").to_owned()
    };
    let never = config("never.toml", "page_cache = false\nrevalidate = \"0s\"\n");
    let by_habit = config("habit.toml", "page_cache_max = \"1MiB\"\n");
    let much = ["--memory", "256MiB"];
    let little = ["--memory", "4MiB", "--prefetch", "1MiB"];
    let without_pages = ["--memory", "256MiB", "--config", &never];
    let known_programs = ["--memory", "256MiB", "--config", &by_habit];
    for arguments in [&much[..], &little, &without_pages, &known_programs] {
        let mount = Mount::start_with(&tools.folder(), &point, arguments);
        let when = format!("on a mount with {arguments:?}");
        same(&when, &expected, &tools.in_folder(mount.point(), SCRIPTS));
        if arguments == known_programs {
            let known = format!("by recognised programs, {when}");
            same(&known, &expected, &tools.in_folder(mount.point(), SCRIPTS));
            let without = mount.status()["opened_without_pages"].as_u64();
            assert!(without > Some(0), "{}", mount.status());
        }
        let sent = mount.counter("bytes_sent");
        assert!(
            sent > 50_000_000,
            "the engine read {sent} bytes: {}",
            mount.log()
        );
        assert_eq!(mount.counter("requests_failed"), 0, "{}", mount.log());
    }
}

/// Prints the length and a sum of a file.
const STATIC: &str = r#"
fn main() {
    let path = std::env::args().nth(1).expect("a path");
    let bytes = std::fs::read(path).expect("read");
    let sum = bytes.iter().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    println!("{} {sum}", bytes.len());
}
"#;

#[test]
fn static_program_reads_through_the_engine() {
    let test = "a static program on a mount";
    if !have_or_skip(test, "rustc") || !Mount::available_or_skip(test) {
        return;
    }
    let library = headlong_e2e_tests::Library::new(1, 9_000_001).expect("titles");
    let scratch = headlong_testkit::Scratch::new("static").expect("a folder");
    let (source, program) = (scratch.path().join("a.rs"), scratch.path().join("a"));
    fs::write(&source, STATIC).expect("written");
    let mut compile = Command::new("rustc");
    compile.args([
        "-C",
        "target-feature=+crt-static",
        "-C",
        "opt-level=1",
        "-o",
    ]);
    assert!(
        compile
            .arg(&program)
            .arg(&source)
            .status()
            .expect("started")
            .success()
    );
    let mut looked_at = Command::new(headlong_testkit::server::binary());
    looked_at.args(["run", "--only-if-helped", "--library", "/bin/sh", "--"]);
    let not_helped = looked_at.arg(&program).output().expect("started");
    assert!(
        !not_helped.status.success(),
        "it is static, and cannot be preloaded into"
    );
    let mount = Mount::start(library.root(), &scratch.path().join("point"));
    let run = |path| Command::new(&program).arg(path).output().expect("started");
    let title = &library.titles[0];
    let (plain, mounted) = (run(title.path.clone()), run(mount.path("title-0.bin")));
    assert!(plain.status.success() && mounted.status.success());
    assert_eq!(plain.stdout, mounted.stdout);
    assert_eq!(mount.counter("bytes_sent"), title.size_bytes);
}

/// Asks for a handle of a file as NFS servers and fanotify do; prints the error.
const HANDLE: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handle = (ctypes.c_uint * 34)(128, 0)
result = libc.name_to_handle_at(-100, os.fsencode(sys.argv[1]), handle, ctypes.byref(ctypes.c_int()), 0)
print('a handle' if result == 0 else os.strerror(ctypes.get_errno()))
";

#[test]
fn mount_gives_out_no_file_handles() {
    let test = "mount_gives_out_no_file_handles";
    if !have_or_skip(test, "python3") || !Mount::available_or_skip(test) {
        return;
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("read");
    let numbers = release
        .split('.')
        .filter_map(|number| number.parse::<u32>().ok());
    let is_new = numbers.take(2).collect::<Vec<_>>() >= vec![6, 9];
    let scratch = headlong_testkit::Scratch::new("handles").expect("a folder");
    let (tree, point) = (scratch.path().join("tree"), scratch.path().join("point"));
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("film.mkv"), "film").expect("written");
    let mount = Mount::start(&tree, &point);
    let mut command = Command::new("python3");
    let output = command
        .args(["-c", HANDLE])
        .arg(mount.path("film.mkv"))
        .output();
    let said = String::from_utf8(output.expect("started").stdout).expect("text");
    // Older kernels do not know the flag that refuses.
    let expected = if is_new {
        "Operation not supported\n"
    } else {
        "a handle\n"
    };
    assert_eq!(said, expected, "{}", mount.log());
}
