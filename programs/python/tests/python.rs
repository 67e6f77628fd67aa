//! The tests in Python, with the module that cargo has built for the tests of the workspace. `make
//! wheel` runs them with a wheel, checks its types, and has the tests that take too long here.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use headlong_testkit::skip;

/// The variable that names a folder of Python's packages.
const PACKAGES: &str = "HEADLONG_PYTHON_PACKAGES";

#[test]
fn tests_in_python_pass() {
    let Some(packages) = std::env::var_os(PACKAGES) else {
        let remedy = format!("set {PACKAGES} to what scripts/python_packages.sh prints");
        return skip("tests_in_python_pass", &remedy);
    };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::env::current_exe().expect("a path");
    let built = program.with_file_name("lib_native.so");
    let profile = program.ancestors().nth(2).expect("a profile");
    let folder = tempfile::tempdir().expect("a folder");
    let package = folder.path().join("headlong");
    std::fs::create_dir(&package).expect("created");
    for file in std::fs::read_dir(sources.join("headlong")).expect("a folder") {
        let file = file.expect("an entry");
        symlink(file.path(), package.join(file.file_name())).expect("linked");
    }
    symlink(built, package.join("_native.abi3.so")).expect("linked");
    let packages = Path::new(&packages);
    let paths = [folder.path(), packages];
    let output = Command::new("python3")
        .args([
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "--durations=5",
        ])
        .arg(sources.join("tests"))
        // Spark is some 500 MB, and the limits of machines take minutes in an unoptimised program:
        // these are tested by `make wheel`.
        .arg("--ignore")
        .arg(sources.join("tests/test_spark.py"))
        .args(["-k", "not limits_of_machines"])
        .current_dir(folder.path())
        .env("PYTHONPATH", std::env::join_paths(paths).expect("paths"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HEADLONG_LAB", profile.join("headlong-lab"))
        // Kernels of the notebooks: not those that the user has.
        .env("JUPYTER_PATH", packages.join("share/jupyter"))
        .env("IPYTHONDIR", folder.path().join("ipython"))
        .env("MPLCONFIGDIR", packages.join("share/matplotlib"))
        .output()
        .expect("python3 starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    eprintln!("{told}");
    for line in told.lines().filter(|line| line.starts_with("SKIPPED")) {
        skip("tests_in_python_pass", line);
    }
}
