//! A reception that receives descriptors of a file system that hangs.
//!
//! One test in its own process: a child that is started while the process has such a descriptor
//! hangs, too.

use std::fs::File;

use headlong_e2e_tests::Mount;
use headlong_e2e_tests::preload::Reception;
use headlong_e2e_tests::preload::protocol_client::{
    ASK, COUNT, NOTE, STATUS, WAITED, asked, connected, heard, say,
};
use headlong_testkit::{Scratch, pattern};
use rustix::process::Signal;

const SIZE: u64 = 1_000_001;
/// Not a valid message.
const WRONG: u16 = 77;

#[test]
fn hung_file_system_does_not_delay_other_readers() {
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
    // Closed after the mount has ended: before, closing it hangs.
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
    assert!(asked(&socket, &film).is_some(), "the reception answers");
    let connection = connected(&socket);
    say(&connection, STATUS, &film);
    let status = heard(&connection).expect("the reception sends its status");
    let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
    assert_eq!(status["calls"]["asked"], 2, "{status}");
    drop((mount, connections));
}
