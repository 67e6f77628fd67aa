//! Of concurrent readers of the same bytes under preload, one notifies the reception.

use std::process::{Command, Stdio};

use headlong_e2e_tests::preload::{Reception, cool, under};
use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::{Scratch, pattern};

const READERS: u64 = 32;
const FILE_BYTES: u64 = 4 << 20;
/// Most notes of a single reader.
const NOTES: u64 = FILE_BYTES / (512 << 10);
/// Opens a file this many times and reads it through all descriptors concurrently.
const READER: &str = "
import os, sys
files = [os.open(sys.argv[1], os.O_RDONLY) for _ in range(int(sys.argv[2]))]
for at in range(0, os.fstat(files[0]).st_size, 65_536):
    parts = {os.pread(file, 65_536, at) for file in files}
    os.write(1, parts.pop())
    assert not parts
";

#[test]
fn one_of_many_concurrent_readers_sends_the_notes() {
    if !have_or_skip("readers under preload", "python3") {
        return;
    }
    let scratch = Scratch::new("preload-together").expect("a folder");
    let (film, socket) = (scratch.path().join("film"), scratch.path().join("socket"));
    pattern::write_file(&film, 7, FILE_BYTES).expect("written");
    let reception = Reception::start_with(&socket, &[]);
    cool(&film);
    let words = under(&socket);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["python3", "-c", READER]);
    command.arg(&film).arg(READERS.to_string());
    let output = command.stdin(Stdio::null()).output().expect("started");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == std::fs::read(&film).expect("there"));
    let looked_at = || reception.calls("looked_at");
    let calls = FILE_BYTES / 65_536 * READERS;
    eventually("all is counted", looked_at, |calls_told| {
        *calls_told >= calls
    });
    // On a busy machine some readers send another note, because the first one was sent a while ago.
    let noted = reception.calls("noted");
    assert!(noted < NOTES * READERS / 4, "{}", reception.status());
}
