//! The packages as deb and rpm: built from the programs under test, installed in a clean root, run by
//! the unit's command, and removed while the server serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::library;
use headlong_testkit::{ProgramRun, Scratch, skip};

fn run(command: &mut Command) -> String {
    let run = ProgramRun::of(command.stdin(Stdio::null())).exits_with(0);
    run.stdout + &run.stderr
}

#[test]
fn packages_install_serve_and_finish_replies_at_removal() {
    let test = "packages_install_serve_and_finish_replies_at_removal";
    for program in [
        "dpkg-deb",
        "lintian",
        "man",
        "pip3",
        "rpm",
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
    let built = run(Command::new(workspace.join("scripts/packages.sh"))
        .env(
            "BIN_DIR",
            library().parent().expect("a file is in a folder"),
        )
        .env("OUT_DIR", scratch.path())
        .env("MAINTAINER", "A Test <test@debian.org>"));
    let packages = |prefix: &str, extension: &str| -> Vec<PathBuf> {
        let files = fs::read_dir(scratch.path()).expect("a folder");
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(extension)
        };
        files
            .map(|file| file.expect("an entry").path())
            .filter(named)
            .collect()
    };
    assert_eq!(packages("headlong", ".rpm").len(), 4, "{built}");
    assert_eq!(packages("headlong", ".deb").len(), 4, "{built}");
    for package in packages("headlong", ".deb") {
        run(Command::new("lintian")
            .args(["--allow-root", "--fail-on", "error"])
            .arg(package));
    }
    for (prefix, extension) in [("headlong_", ".deb"), ("headlong-0", ".rpm")] {
        let of_server = packages(prefix, extension);
        assert_eq!(of_server.len(), 1, "{built}");
        let told = run(Command::new(workspace.join("packaging/package/test.sh")).args(&of_server));
        assert!(told.ends_with("test: passed\n"), "{told}");
    }
}
