//! Tells cargo when the embedded pages change.
//!
//! An optimised build holds the files of `web/dist`; others read them from there as they run. The
//! folder is made by npm and may not exist yet, which is no reason to fail: the server then says
//! how to build it. Watching a folder that is missing makes cargo build this crate every time, so
//! only optimised builds, which would otherwise stay without pages, do it.

use std::path::Path;

const PAGES: &str = "../../web/dist";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_optimised = std::env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if is_optimised || Path::new(PAGES).exists() {
        println!("cargo::rerun-if-changed={PAGES}");
    }
}
