//! The binary's interface for operators: output streams and exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use headlong_testkit::ProgramRun;

use super::{command, headlong};

#[test]
fn version_is_on_standard_output() {
    let output = headlong(&["--version"]).exits_with(0);
    let version = &output.stdout;
    let plain = concat!("headlong ", env!("CARGO_PKG_VERSION"));
    let rest = version.strip_prefix(plain).expect("the version");
    let commit = rest.trim_end().strip_prefix(" (");
    let is_commit = commit.and_then(|rest| rest.strip_suffix(')'));
    let is_hash = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(rest == "\n" || is_commit.is_some_and(is_hash), "{version}");
}

#[test]
fn wrong_command_line_exits_with_64_without_result() {
    for args in [
        &["serve", "--colour", "red"][..],
        &["sreve"],
        &["check", "--memory"],
        &[],
    ] {
        let output = headlong(args);
        assert_eq!(output.code, Some(64), "{args:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn all_mistakes_are_printed_at_once_before_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("h.toml");
    fs::write(&file, "memroy = \"1GiB\"\npolicy = \"lru\"\n").expect("written");
    let file = file.display().to_string();
    for command in ["serve", "check"] {
        let output = headlong(&[command, "--config", &file, "--admin", "here"]).exits_with(64);
        assert!(output.stdout.is_empty());
        let stderr = &output.stderr;
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 4, "{stderr}");
        assert_eq!(
            lines[0],
            format!("headlong: {file}:1: memroy: unknown key; did you mean `memory`?")
        );
        assert!(
            lines[1].contains(":2: policy: `lru` is unknown; the names are fixed,"),
            "{stderr}"
        );
        assert!(
            lines[3].starts_with("headlong: --admin: `here` is not"),
            "{stderr}"
        );
        assert!(
            lines[2].contains("name at least one folder: headlong serve DIR"),
            "{stderr}"
        );
    }
}

#[test]
fn server_without_roots_exits_so_that_service_is_retried() {
    let output = headlong(&["serve", "/nonexistent/videos"]).exits_with(2);
    let stderr = &output.stderr;
    assert!(
        stderr.contains("folder /nonexistent/videos: no such directory"),
        "{stderr}"
    );
}

#[test]
fn check_accepts_server_with_origin_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("edge.toml");
    let place = folder.path().display();
    let text_of =
        format!("[pull.\"/a/\"]\norigin = \"http://127.0.0.1:1/\"\nfolder = \"{place}\"\n");
    fs::write(&file, text_of).expect("written");
    let shown = headlong(&["check", "--config", &file.display().to_string()]).exits_with(0);
    assert!(shown.stdout.contains(&format!("serves {place}\n")));
}

#[test]
fn check_names_files_that_cannot_be_packaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    for number in 0..30 {
        fs::write(folder.path().join(format!("{number}.mp4")), "no film").expect("written");
    }
    let config = folder.path().join("h.toml");
    let file = config.display().to_string();
    let check = |package: &str, arguments: &[&str]| {
        fs::write(&config, format!("package = \"{package}\"\n")).expect("written");
        let usual = [
            "check", &root, "--config", &file, "--memory", "64MiB", "--quiet",
        ];
        headlong(&[&usual, arguments].concat())
    };
    let said = check("on", &[]).exits_with(0).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 21, "{said}");
    let first = format!("warning: package: {root}/0.mp4: it is not an MP4 file");
    assert!(lines[0].contains(&first), "{said}");
    assert!(
        lines[20].contains("10 more files cannot be packaged"),
        "{said}"
    );
    check("on", &["--strict"]).exits_with(65);
    let said = check("off", &["--strict"]).exits_with(0).stderr;
    assert_eq!(said, "");
}

#[test]
fn check_prints_an_equivalent_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let first = headlong(&[
        "check",
        &root,
        "--memory",
        "64MiB",
        "--order",
        "fcfs",
        "--listen",
        "127.0.0.1:0",
    ])
    .exits_with(0);
    assert!(first.stderr.is_empty());
    let page = &first.stdout;
    assert!(page.contains(&format!("serves {root}\n")), "{page}");
    assert!(
        page.contains("64MiB of memory") && page.contains("order = \"fcfs\""),
        "{page}"
    );

    let file = folder.path().join("h.toml");
    fs::write(&file, page).expect("written");
    let again = headlong(&["check", "--config", &file.display().to_string()]);
    assert_eq!(&again.stdout, page);

    let output = ProgramRun::of(command(&["check", "."]).current_dir(&folder));
    assert!(
        output.stdout.contains(&format!("roots = [\"{root}/.\"]")),
        "{output:?}"
    );
}

#[test]
fn closed_reader_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = command(&["check"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the process ends");
    assert_eq!(ProgramRun::from(output).exits_with(0).stderr, "");
}

#[test]
fn disks_are_inspected_without_the_other_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let lonely = folder.path().join("headlong");
    fs::copy(env!("CARGO_BIN_EXE_headlong"), &lonely).expect("copied");
    let run = |args: &[&str]| {
        let mut command = Command::new(&lonely);
        ProgramRun::of(command.args(args).env("PATH", "").stdin(Stdio::null()))
    };
    for (args, code, words) in [
        (&["disk", "probe", "/no/such"][..], 64, "/no/such"),
        (
            &["disk", "probe", "/dev/null", "--settle", "101"],
            64,
            "--settle",
        ),
        (
            &["disk", "probe", "wd-red-wd10efrx"],
            2,
            "is part of headlong-lab",
        ),
        (&["disk", "emulate"], 2, "is part of headlong-lab"),
    ] {
        let output = run(args).exits_with(code);
        let stderr = &output.stderr;
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_verb_of_this_program_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    headlong(&["manual", &folder.path().display().to_string()]).exits_with(0);
    let files = fs::read_dir(folder.path()).expect("a folder");
    let names = files.map(|file| file.expect("an entry").file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "headlong-check.1",
            "headlong-disk-probe.1",
            "headlong-disk.1",
            "headlong-fill.1",
            "headlong-flash-drop.1",
            "headlong-flash-format.1",
            "headlong-flash-status.1",
            "headlong-flash-verify.1",
            "headlong-flash.1",
            "headlong-fleet-config.1",
            "headlong-fleet-plan.1",
            "headlong-fleet.1",
            "headlong-health.1",
            "headlong-mount.1",
            "headlong-reception.1",
            "headlong-root-attach.1",
            "headlong-root-detach.1",
            "headlong-root.1",
            "headlong-run.1",
            "headlong-serve.1",
            "headlong-tune.1",
            "headlong.1",
            "headlong.toml.5",
        ]
    );
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a page");
    let serve = page("headlong-serve.1");
    assert!(
        serve.contains("headlong\\-serve") && serve.contains("\\-\\-listen"),
        "{serve}"
    );
    let first = page("headlong.1");
    assert!(first.contains("Play viewers against any HTTP server"));
    for hidden in ["completions", "keeper"] {
        assert!(!first.contains(hidden), "{first}");
    }

    let nowhere = headlong(&["manual", "/nonexistent/pages"]).exits_with(2);
    assert!(nowhere.stderr.contains("/nonexistent/pages"));
}

#[test]
fn completions_contain_verbs_and_flags_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = headlong(&["completions", shell]).exits_with(0);
        let script = &output.stdout;
        for word in ["reception", "mount", "time-scale", "workload"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    headlong(&["completions", "ksh"]).exits_with(64);
}

/// A folder `conf` with the test data and a certificate, and an empty folder `srv`.
fn nginx_site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (conf, root) = (folder.path().join("conf"), folder.path().join("srv"));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nginx");
    for place in [
        "conf/conf.d",
        "run/cache",
        "srv/disk1/films",
        "srv/disk1/shows",
        "srv/disk2/kids",
        "srv/vod",
        "srv/images",
        "srv/static",
        "srv/webroot",
    ] {
        fs::create_dir_all(folder.path().join(place)).expect("made");
    }
    for name in [
        "jellyfin.conf",
        "vod.conf",
        "edge.conf",
        "conf.d/mime.types",
        "conf.d/slices.conf",
        "conf.d/tls.conf",
    ] {
        let text = fs::read_to_string(from.join(name)).expect(name);
        let text = text.replace("@ROOT@", &root.display().to_string());
        let text = text.replace("@CONF@", &conf.display().to_string());
        let run = folder.path().join("run");
        let text = text.replace("@RUN@", &run.display().to_string());
        fs::write(conf.join(name), text).expect("written");
    }
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    fs::write(conf.join("cert.pem"), pair.cert.pem()).expect("written");
    fs::write(conf.join("key.pem"), pair.signing_key.serialize_pem()).expect("written");
    folder
}

/// Converts a file of [`nginx_site`]; returns its result, and that of the check of the printed file.
fn converted(site: &Path, name: &str) -> (ProgramRun, ProgramRun) {
    let file = site.join("conf").join(name).display().to_string();
    let first = headlong(&["check", "--nginx", &file]);
    let printed = site.join("headlong.toml");
    fs::write(&printed, &first.stdout).expect("written");
    let again = headlong(&[
        "check",
        "--quiet",
        "--config",
        &printed.display().to_string(),
    ]);
    (first, again)
}

/// The lines of standard error, without the folder.
fn reported(site: &Path, output: &ProgramRun) -> Vec<String> {
    let stderr = output.stderr.replace(&format!("{}/", site.display()), "");
    let lines = stderr
        .lines()
        .map(|line| line.trim_start_matches("headlong: ").to_owned());
    lines.collect()
}

#[test]
fn converted_nginx_files_pass_check() {
    let site = nginx_site();
    for (name, said) in [
        (
            "jellyfin.conf",
            &[
                "conf/jellyfin.conf:61: add_header: $host depends on the request",
                "conf/jellyfin.conf:68: proxy_pass: a program answers there",
                "conf/jellyfin.conf:21: ssl_protocols: TLSv1 is not spoken",
                "conf/jellyfin.conf:27: access_log: the format vhost becomes `combined`",
                "not needed here: ",
            ][..],
        ),
        (
            "vod.conf",
            &[
                "conf/vod.conf:37: error_page: ",
                "conf/vod.conf:56: mp4: ",
                "conf/vod.conf:58: add_header: $upstream_cache_status depends",
                "conf/vod.conf:63: valid_referers: `~",
                "conf/vod.conf:86: auth_basic: passwords",
                "conf/vod.conf:89: allow: access by address",
                "conf/vod.conf:96: location: locations by regular expression",
                "conf/vod.conf:36: limit_conn: ",
            ],
        ),
        (
            "edge.conf",
            &[
                "conf/edge.conf:24: upstream: an edge has one origin",
                "conf/edge.conf:41: proxy_set_header: the origin receives its own name",
                "conf/conf.d/slices.conf:17: proxy_ignore_headers: ",
                "conf/edge.conf:37: limit_req: ",
            ],
        ),
    ] {
        let (first, again) = converted(site.path(), name);
        let lines = reported(site.path(), &first.exits_with(0));
        again.exits_with(0);
        for said in said {
            assert!(
                lines.iter().any(|line| line.starts_with(said)),
                "{said}: {lines:#?}"
            );
        }
    }
}

#[test]
fn conversion_lists_what_no_url_reaches() {
    let site = nginx_site();
    let root = site.path().join("srv/disk1/films");
    symlink("/etc/hostname", root.join("out")).expect("made");
    fs::create_dir(root.join("a")).expect("made");
    symlink("a", root.join("inside")).expect("made");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let file = site.path().join("conf/site.conf");
    let server = format!(
        "server {{ listen 127.0.0.1:{port}; root {}; }}",
        root.display()
    );
    fs::write(&file, server).expect("written");
    let file = file.display().to_string();
    let output = headlong(&["check", "--nginx", &file, "--strict"]).exits_with(65);
    let lines = reported(site.path(), &output);
    let begin = [
        "srv/disk1/films/out: a link out of its root".to_owned(),
        format!("127.0.0.1:{port} is in use now"),
        "warnings: 2; ".to_owned(),
    ];
    for (line, begin) in lines.iter().zip(&begin) {
        assert!(line.starts_with(begin), "{begin}: {lines:#?}");
    }
    assert_eq!(lines.len(), begin.len(), "{lines:#?}");
}

#[test]
fn unreadable_nginx_files_are_all_named() {
    let site = nginx_site();
    let file = site.path().join("conf/a.conf");
    let text_of = "http {\ninclude missing;\ninclude b.conf;\ninclude a.conf;\n}";
    fs::write(&file, text_of).expect("written");
    fs::write(site.path().join("conf/b.conf"), "server {\n").expect("written");
    let output = headlong(&["check", "--nginx", &file.display().to_string()]).exits_with(2);
    assert!(output.stdout.is_empty());
    let lines = reported(site.path(), &output);
    for said in [
        "conf/missing cannot be read: ",
        "conf/b.conf:1: not an nginx.conf: the block of this directive is not closed",
        "conf/a.conf includes itself",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(said)),
            "{said}: {lines:#?}"
        );
    }
}

#[test]
fn warnings_come_first_even_if_quiet_and_fail_if_strict() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let file = folder.path().join("h.toml");
    fs::write(&file, "[path.\"/flims/\"]\naccess = \"closed\"\n").expect("written");
    fs::create_dir(folder.path().join("films")).expect("made");
    let file = file.display().to_string();
    let run = |options: &[&str]| {
        let usual = ["check", &root, "--config", &file, "--memory", "64MiB"];
        headlong(&[&usual[..], options].concat())
    };
    for (options, code) in [
        (&["--quiet"][..], 0),
        (&["--quiet", "--strict"], 65),
        (&["--strict"], 65),
    ] {
        let output = run(options).exits_with(code);
        let stderr = &output.stderr;
        let begin = "headlong: warning: path./flims/: no folder or file of the roots has this path \
            (did you mean `films`?)";
        assert!(stderr.starts_with(begin), "{stderr}");
        assert_eq!(output.stdout.is_empty(), options.contains(&"--quiet"));
    }
    fs::rename(folder.path().join("films"), folder.path().join("flims")).expect("renamed");
    let output = run(&["--quiet", "--strict"]).exits_with(0);
    assert_eq!(output.stderr, "");
}

#[test]
fn manual_pages_have_the_date_of_the_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(&["manual"]);
    let command = command.arg(folder.path());
    ProgramRun::of(command.env("SOURCE_DATE_EPOCH", "784111777")).exits_with(0);
    for name in ["headlong.toml.5", "headlong-serve.1"] {
        let page = fs::read_to_string(folder.path().join(name)).expect(name);
        let heading = page.lines().find(|line| line.starts_with(".TH"));
        let heading = heading.expect("a heading");
        assert!(heading.contains(" 1994-11-06 "), "{heading}");
    }
}
