//! Programs of all kinds over files of their own, and the outcome of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headlong_testkit::{Scratch, pattern};

use super::{cool, under};

/// Scripts, each run in a shell in a folder with `big` and `odd` (patterns), `tree` (many files),
/// `base` (SQLite), `repository` (git), `film.mkv`, and a link to an empty folder `out`, which is
/// compared, too.
const SCRIPTS: &[&str] = &[
    "cat big odd",
    "cp big out/copy && cp --sparse=always --reflink=never odd out/odd && cp -r tree out/tree",
    "dd if=big bs=300001 skip=2 count=9 status=none | od -A d -t x8",
    "dd if=big of=out/part bs=64k skip=7 seek=3 count=31 conv=notrunc status=none",
    "head -c 1000001 big; tail -c 700001 big; tail -c +3000000 odd",
    "sha256sum big odd tree/*; cksum big; b2sum odd; md5sum < big",
    "split -b 700k big out/split- && cat out/split-* | cmp - big",
    "cmp big odd; diff -rq tree repository; wc big odd; sort big | md5sum; shuf --random-source=big -i 1-99999 | md5sum",
    "base64 big | md5sum; od -t x1 -j 999999 -N 70000 big; cut -b 3 big | md5sum; comm big odd | md5sum; join big odd",
    "install -m 600 big out/installed; truncate -s 0 out/installed; grep -c a big; gzip -c big | md5sum",
    "cat .; cat no-such-file; cat big/; dd if=big of=/dev/full bs=1M status=none",
    "cat < big > out/a; tac odd | md5sum; paste big odd | md5sum; (read -r line; cat) < big | md5sum",
    "tar -c --sort=name --mtime=@0 --owner=0 --group=0 big odd tree | sha256sum",
    "tar -cf out/all.tar --mtime=@0 big tree; tar -xf out/all.tar -C out; tar -df out/all.tar --to-stdout > /dev/null; tar -tf out/all.tar",
    "rsync -a --checksum tree/ out/tree/; rsync -a --inplace --no-whole-file big out/; rsync -ac --itemize-changes tree/ out/tree/",
    "cd repository && git fsck --full --strict && git log --stat --format=%H && git verify-pack -v .git/objects/pack/*.idx && git grep -c line",
    "git clone -q --no-local repository out/clone && git -C out/clone show --stat | head -50; rm -rf out/clone/.git",
    "sqlite3 base 'pragma integrity_check; select count(*), sum(length(text)), min(text), max(text) from lines; select sum(number) from lines where number % 7 = 3'",
    "sqlite3 base 'pragma mmap_size=100000000; select count(distinct text) from lines; select * from missing'",
    "cp base out/base; sqlite3 out/base 'begin; update lines set number = number + 1; commit; vacuum; select sum(number) from lines'; rm out/base",
    "python3 calls.py big",
    "ffmpeg -v error -i film.mkv -c copy -f md5 -; ffmpeg -v error -ss 7 -i film.mkv -t 3 -c copy -f framemd5 -",
];

/// A folder with files that programs read.
pub struct Tools {
    scratch: Scratch,
}

impl Tools {
    /// Creates the files.
    ///
    /// # Panics
    /// If a program that creates them is missing or fails.
    pub fn new() -> Self {
        let scratch = Scratch::new("tools").expect("a folder");
        let folder = &scratch.directory("files").expect("a folder");
        std::os::unix::fs::symlink("../out", folder.join("out")).expect("made");
        pattern::write_file(&folder.join("big"), 1, 5_000_011).expect("written");
        pattern::write_file(&folder.join("odd"), 2, 3_333_333).expect("written");
        let tree = folder.join("tree");
        fs::create_dir(&tree).expect("made");
        for index in 0..30u64 {
            let file = tree.join(format!("file-{index}"));
            pattern::write_file(&file, 10 + index, index * index * 517).expect("written");
        }
        fs::write(folder.join("calls.py"), include_str!("calls.py")).expect("written");
        let make = "
            set -e
            sqlite3 base \"create table lines (number integer, text text);
                with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
                insert into lines select i, hex(i * 7919) || printf('%0100d', i * i) from n;
                create index texts on lines (text);\"
            git init -q -b main repository
            cd repository
            export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
            for n in 1 2 3; do
                cp ../tree/file-1? .
                for line in 1 2 3 4 5 6 7 8; do echo \"line $line of $n\"; done > text-$n
                head -c ${n}00000 ../big > changes
                git add .
                git -c user.name=test -c user.email=test@example.org commit -q -m \"commit $n\"
            done
            git gc -q
            cd ..
            ffmpeg -v error -f lavfi -i testsrc2=size=640x360:rate=25:duration=20 \\
                -f lavfi -i sine=duration=20 -c:v mpeg4 -b:v 2M -c:a aac -fflags +bitexact film.mkv
            find . ! -type l -exec touch -d 2020-01-01 {} +
            sync .
        ";
        let mut command = Command::new("sh");
        command.args(["-c", make]).current_dir(folder);
        let made = command.stdin(Stdio::null()).output().expect("started");
        assert!(made.status.success(), "{}", shown(&made.stderr));
        Self { scratch }
    }

    /// Folder of the files.
    pub fn folder(&self) -> PathBuf {
        self.scratch.path().join("files")
    }

    /// A path beside it for another purpose.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Socket path for the reception.
    pub fn socket(&self) -> PathBuf {
        self.scratch.path().join("socket")
    }

    /// Outcome of each script without the library.
    pub fn plain(&self) -> Vec<Outcome> {
        self.run(&[], &self.folder(), SCRIPTS)
    }

    /// Outcome of each script, and of further ones, in a folder that shows the same files.
    pub fn in_folder(&self, folder: &Path, further: &[&'static str]) -> Vec<Outcome> {
        let mut outcomes = self.run(&[], folder, SCRIPTS);
        outcomes.extend(self.run(&[], folder, further));
        outcomes
    }

    /// Outcome of each script under `headlong run`.
    pub fn preloaded(&self) -> Vec<Outcome> {
        self.run(&under(&self.socket()), &self.folder(), SCRIPTS)
    }

    fn run(&self, before: &[String], folder: &Path, scripts: &[&'static str]) -> Vec<Outcome> {
        let run = |script: &&'static str| {
            let out = self.scratch.path().join("out");
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).expect("made");
            for name in [
                "big",
                "odd",
                "base",
                "film.mkv",
                "repository/.git/objects/pack",
                "tree",
            ] {
                cool_all(&folder.join(name));
            }
            let words = before.iter().map(String::as_str);
            let words: Vec<&str> = words.chain(["bash", "-c", script]).collect();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).current_dir(folder);
            command.env("LC_ALL", "C").stdin(Stdio::null());
            Outcome {
                script,
                output: command.output().expect("started"),
                left: contents(&out),
            }
        };
        scripts.iter().map(run).collect()
    }
}

impl Default for Tools {
    fn default() -> Self {
        Self::new()
    }
}

/// Outcome of a script: its output, its exit status, and the files that it left.
pub struct Outcome {
    script: &'static str,
    output: Output,
    left: Vec<(String, Vec<u8>)>,
}

/// Fails if any outcome differs.
///
/// # Panics
/// With the script and the difference.
pub fn same(when: &str, expected: &[Outcome], found: &[Outcome]) {
    for (plain, other) in expected.iter().zip(found) {
        let script = plain.script;
        assert_eq!(plain.output.status, other.output.status, "{when}: {script}");
        let (a, b) = (&plain.output.stderr, &other.output.stderr);
        assert_eq!(shown(a), shown(b), "{when}: {script}");
        let (a, b) = (&plain.output.stdout, &other.output.stdout);
        assert!(a == b, "{when}: {script}:\n{}\n{}", shown(a), shown(b));
        let names = |outcome: &Outcome| -> Vec<String> {
            outcome.left.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(plain), names(other), "{when}: {script}");
        for ((name, a), (_, b)) in plain.left.iter().zip(&other.left) {
            assert!(a == b, "{when}: {script}: {name} differs");
        }
    }
    assert_eq!(expected.len(), found.len());
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]).into_owned()
}

fn cool_all(path: &Path) {
    cool(path);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        cool_all(&entry.path());
    }
}

/// All files below a folder, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => all.extend(contents(&path)),
            false => {
                let name = path.display().to_string();
                all.push((name, fs::read(&path).unwrap_or_default()));
            }
        }
    }
    all.sort();
    all
}
