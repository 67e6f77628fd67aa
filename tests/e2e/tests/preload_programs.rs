//! Programs of all kinds behave the same under `headlong run`: output, files and exit status.

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::{Reception, Tools, killed_all_the_time, same};

#[test]
fn programs_behave_the_same_under_preload() {
    for program in ["rsync", "git", "sqlite3", "python3", "ffmpeg"] {
        if !have_or_skip("programs under preload", program) {
            return;
        }
    }
    let tools = Tools::new();
    let expected = tools.plain();
    same("again", &expected, &tools.plain());
    same("without a reception", &expected, &tools.preloaded());
    // So little memory that the next program finds nothing that the last one read.
    let little = ["--memory", "2MiB", "--prefetch", "256KiB"];
    let reception = Reception::start_with(&tools.socket(), &little);
    same("with a reception", &expected, &tools.preloaded());
    let (asked, ready) = (reception.calls("asked"), reception.calls("ready"));
    assert!(ready > 100, "{ready} of {asked} were helped");
    drop(reception);
    let found = killed_all_the_time(&tools.socket(), |_| tools.preloaded());
    same("with one that is killed", &expected, &found);
}
