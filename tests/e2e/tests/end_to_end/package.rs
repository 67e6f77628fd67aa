//! The Debian package: built from the programs under test, installed in a clean root, run by its
//! unit's command, and removed while it serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_e2e_tests::have_or_skip;
use headlong_testkit::{Scratch, server, skip};

/// The folder of the programs under test, including the preloaded library.
fn programs() -> PathBuf {
    let folder = server::binary().parent().expect("a file is in a folder");
    let target = folder.parent().expect("a profile lies in a target");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "headlong-deception"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    build.arg("--target-dir").arg(target);
    assert!(build.status().expect("cargo starts").success());
    folder.to_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{told}");
    told
}

#[test]
fn package_installs_serves_and_finishes_replies_at_removal() {
    let test = "a_package_installs_serves_as_its_unit_says";
    for program in [
        "dpkg-deb",
        "dpkg-shlibdeps",
        "lintian",
        "man",
        "systemd-sysusers",
    ] {
        if !have_or_skip(test, program) {
            return;
        }
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "only root can make a root of its own");
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = Scratch::new("package").expect("a folder");
    let built = run(Command::new(workspace.join("scripts/deb.sh"))
        .env("BIN_DIR", programs())
        .env("OUT_DIR", scratch.path())
        .env("MAINTAINER", "A Test <test@debian.org>")
        .env("LEVEL", "0"));
    let files = fs::read_dir(scratch.path()).expect("a folder");
    let mut packages: Vec<PathBuf> = files
        .map(|file| file.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    packages.sort();
    assert_eq!(packages.len(), 4, "{built}");
    for package in &packages {
        run(Command::new("lintian")
            .args(["--allow-root", "--fail-on", "error"])
            .arg(package));
    }
    let of_server = packages.iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("headlong_")
    });
    let told = run(Command::new(workspace.join("packaging/debian/test.sh"))
        .arg(of_server.expect("the server's package")));
    assert!(told.ends_with("test: passed\n"), "{told}");
}
