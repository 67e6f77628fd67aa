//! Programs of all kinds behave the same under `headlong run`: output, files and exit status.

use std::path::Path;
use std::process::{Command, Stdio};

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::{
    ACTS, HostileReception, Reception, Tools, cool, killed_all_the_time, same, under,
    with_dying_reception,
};
use headlong_testkit::Scratch;

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

#[test]
fn ffmpeg_reads_right_bytes_beside_hostile_reception() {
    if !have_or_skip("ffmpeg beside a hostile reception", "ffmpeg") {
        return;
    }
    let scratch = Scratch::new("preload-programs").expect("a folder");
    let (film, socket) = (
        scratch.path().join("film.mkv"),
        scratch.path().join("socket"),
    );
    let film = film.to_str().expect("UTF-8");
    let make = "-v error -f lavfi -i testsrc2=size=320x180:rate=25:duration=20 -c:v mpeg4 -q:v 2 \
                -fflags +bitexact";
    let made = Command::new("ffmpeg")
        .args(make.split_whitespace())
        .arg(film)
        .status();
    assert!(made.expect("ffmpeg starts").success());
    let read = |before: &[String]| {
        cool(Path::new(film));
        let words = [
            "ffmpeg", "-v", "error", "-i", film, "-c", "copy", "-f", "framemd5", "-",
        ];
        let words = [before, &words.map(str::to_owned)].concat();
        let mut command = Command::new(&words[0]);
        let output = command.args(&words[1..]).stdin(Stdio::null()).output();
        let output = output.expect("ffmpeg starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{}: {said}",
            output.status
        );
        output.stdout
    };
    let expected = read(&[]);
    assert!(expected.len() > 10_000, "{} bytes", expected.len());
    for act in ACTS.chunks(1) {
        let reception = HostileReception::start(&socket, act);
        assert!(read(&under(&socket)) == expected, "{}", act[0].0);
        assert!(reception.connections() > 0, "{}", act[0].0);
    }
    with_dying_reception(&socket, |_| {
        for _ in 0..4 {
            assert!(read(&under(&socket)) == expected, "one that dies");
        }
    });
}
