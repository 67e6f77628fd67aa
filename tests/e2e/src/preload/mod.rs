//! Programs under `headlong run`: with a reception, without one, and with one that is killed
//! repeatedly.

mod hostile;
mod load;
mod peer;
pub mod protocol_client;
mod reception;
mod tools;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use headlong_testkit::server;
use rustix::fs::{Advice, fadvise};

pub use hostile::{ACTS, Act, HostileReception, listener, with_dying_reception};
pub use load::all_right;
pub use peer::{Client, Peer};
pub use reception::{Reception, killed_all_the_time};
pub use tools::{Tools, same};

/// The preloaded library, built beside the program.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = server::binary().parent().expect("in a profile");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "headlong-deception"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let target = profile.parent().expect("in a target");
        build.arg("--target-dir").arg(target);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo starts").success());
        profile.join("libheadlong.so")
    })
}

/// Command prefix that starts a program with the library and this socket; it handles files from one
/// page on, and gives up after a fifth of a second without an answer.
pub fn under(socket: &Path) -> Vec<String> {
    let words = [
        text(server::binary()),
        "run".into(),
        "--library".into(),
        text(library()),
        "--socket".into(),
        text(socket),
        "--file-min".into(),
        "4KiB".into(),
        "--wait".into(),
        "200ms".into(),
        "--only-if-helped".into(),
        "--".into(),
    ];
    words.to_vec()
}

fn text(path: &Path) -> String {
    path.to_str().expect("test paths are UTF-8").to_owned()
}

/// Makes the kernel drop the cached pages of a file where it can, so that they are read again.
pub fn cool(path: &Path) {
    // A file that no longer exists has no cached pages.
    if let Ok(file) = File::open(path) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}
