//! A file system that does not answer, and a reception that is given descriptors of it.
//!
//! One test in a process of its own: whoever is started while it has such a descriptor hangs, too.

use std::fs::File;

use headlong_e2e_tests::Mount;
use headlong_e2e_tests::preload::Reception;
use headlong_e2e_tests::preload::asking::{
    ASK, COUNT, NOTE, STATUS, WAITED, asked, connected, heard, say,
};
use headlong_testkit::{Scratch, pattern};
use rustix::process::Signal;

const SIZE: u64 = 1_000_001;
/// What is no message.
const WRONG: u16 = 77;

#[test]
fn a_file_system_that_does_not_answer_holds_up_nobody_who_reads_elsewhere() {
    if !Mount::available_or_skip("a file system that hangs") {
        return;
    }
    let scratch = Scratch::new("reception-hangs").expect("a folder");
    let path = |name: &str| scratch.path().join(name);
    let tree = scratch.directory("tree").expect("a folder");
    for (folder, title) in [(scratch.path(), 1), (&*tree, 2)] {
        pattern::write_file(&folder.join("film"), title, SIZE).expect("written");
    }
    let socket = path("socket");
    let _reception = Reception::start(&socket);
    // Closed when the mount has gone: before, closing it hangs.
    let mut hung = None;
    let mount = Mount::start(&tree, &path("point"));
    let hung = hung.insert(File::open(mount.path("film")).expect("there"));
    mount.signal(Signal::STOP);
    let connections = [ASK, NOTE, WAITED, COUNT, WRONG].map(|kind| {
        let connection = connected(&socket);
        say(&connection, kind, &*hung);
        connection
    });
    let film = File::open(path("film")).expect("there");
    assert!(asked(&socket, &film).is_some(), "it hangs, too");
    let connection = connected(&socket);
    say(&connection, STATUS, &film);
    let status = heard(&connection).expect("it tells how it is");
    let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
    assert_eq!(status["calls"]["asked"], 2, "{status}");
    drop((mount, connections));
}
