//! Tells cargo when the embedded pages change.
//!
//! A release build embeds the files of `web/dist`; other builds read them at run time. The folder
//! is created by npm and may not exist, which is not an error: the server then explains how to
//! build it. Watching a missing folder makes cargo rebuild this crate every time, so only release
//! builds, which would otherwise lack the pages, do so.

use std::path::Path;

const PAGES: &str = "../../web/dist";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_optimised = std::env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if is_optimised || Path::new(PAGES).exists() {
        println!("cargo::rerun-if-changed={PAGES}");
    }
}
