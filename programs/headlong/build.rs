//! Sets `HEADLONG_VERSION`: the version, with the commit if this is a git work tree. Both programs use
//! this file. A source archive, as in reproducible builds, has the plain version.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=../headlong/build.rs");
    let version = env!("CARGO_PKG_VERSION");
    // An archive that was unpacked inside another repository does not have the commit of that one.
    let own = Path::new("../../.git").exists();
    let commit = own
        .then(|| git(&["rev-parse", "--short=7", "HEAD"]))
        .flatten();
    // The log of HEAD changes with each commit, HEAD itself with each change of branch.
    for name in ["HEAD", "logs/HEAD"].into_iter().filter(|_| own) {
        let file = git(&["rev-parse", "--git-path", name]);
        if let Some(file) = file.filter(|file| Path::new(file).exists()) {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    match commit {
        Some(commit) => println!("cargo:rustc-env=HEADLONG_VERSION={version} ({commit})"),
        None => println!("cargo:rustc-env=HEADLONG_VERSION={version}"),
    }
}
