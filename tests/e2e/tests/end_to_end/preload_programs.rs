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

#[test]
fn program_with_address_sanitizer_runs_and_is_helped_behind_it() {
    let test = "program_with_address_sanitizer_runs_and_is_helped_behind_it";
    if !have_or_skip(test, "gcc") {
        return;
    }
    let scratch = Scratch::new("sanitizer").expect("a folder");
    let program = scratch.path().join("program");
    let source = scratch.path().join("program.c");
    let text = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(int count, char **names) { static char bytes[65536];\n\
        int file = open(names[1], O_RDONLY); long sum = 0, got;\n\
        while ((got = read(file, bytes, sizeof bytes)) > 0) sum += got;\n\
        printf(\"%ld\\n\", sum); return 0; }\n";
    std::fs::write(&source, text).expect("written");
    let mut gcc = scratch.command("gcc");
    gcc.arg("-fsanitize=address")
        .arg("-o")
        .arg(&program)
        .arg(&source);
    if !gcc.output().is_ok_and(|output| output.status.success()) {
        headlong_testkit::skip(test, "gcc has no AddressSanitizer");
        return;
    }
    let title = scratch.path().join("title");
    headlong_testkit::pattern::write_file(&title, 1, 8 << 20).expect("written");
    let socket = scratch.path().join("socket");
    let reception = Reception::start(&socket);
    let run = |preload: &str, options: &[&str]| {
        cool(&title);
        let mut words = under(&socket);
        words.retain(|word| word != "--only-if-helped");
        words.splice(2..2, options.iter().map(|option| (*option).to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&program).arg(&title);
        if !preload.is_empty() {
            command
                .env("LD_PRELOAD", preload)
                .env("ASAN_OPTIONS", "detect_leaks=0");
        }
        let output = command.stdin(Stdio::null()).output().expect("started");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let size = format!("{}\n", 8 << 20);
    let (code, sum, said) = run("", &[]);
    assert_eq!((code, &sum), (Some(0), &size), "{said}");
    assert!(
        said.contains("it is built with AddressSanitizer, whose libasan.so"),
        "{said}"
    );
    assert_eq!(reception.calls("asked"), 0);
    let (code, sum, said) = run("", &["--only-if-helped"]);
    assert_eq!((code, sum.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("was not started"), "{said}");
    // The file name of the runtime is in the message.
    let runtime = said
        .split("whose ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let (code, sum, said) = run(runtime.expect("a name"), &[]);
    assert_eq!((code, &sum, said.as_str()), (Some(0), &size, ""));
    assert!(reception.calls("asked") > 0, "helped");
}
