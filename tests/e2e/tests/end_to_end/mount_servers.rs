//! nginx and Apache over a mount serve every byte correctly, with all their read methods, to many
//! clients that request random ranges.

use std::path::Path;

use headlong_e2e_tests::preload::{Peer, all_right};
use headlong_e2e_tests::{Library, Mount, Title, have_or_skip};
use headlong_testkit::Scratch;

fn over_a_mount(start: impl Fn(&Path, &[String]) -> std::io::Result<Peer>) {
    let mut library = Library::new(6, 2_500_007).expect("titles");
    let root = library.root().to_owned();
    for (name, size) in [("small", 5_000), ("one-byte", 1), ("middle", 300_000)] {
        let title = Title::create(&root, name, size, size).expect("written");
        library.titles.push(title);
    }
    let scratch = Scratch::new("point").expect("a folder");
    // These servers run as users of their own.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), open).expect("set");
    let arguments = ["--memory", "4MiB", "--prefetch", "1MiB"];
    let mount = Mount::start_with(&root, &scratch.path().join("films"), &arguments);
    let peer = start(mount.point(), &[]).expect("it starts");
    let titles: Vec<Title> = library
        .titles
        .iter()
        .map(|title| Title {
            path: mount.path(title.target.trim_start_matches('/')),
            ..title.clone()
        })
        .collect();
    all_right(&peer, &titles, || false);
    let sent = mount.counter("bytes_sent");
    assert!(sent > 10_000_000, "{sent} bytes: {}", mount.status());
    assert_eq!(mount.counter("requests_failed"), 0, "{}", mount.log());
    assert_eq!(peer.crashes(), Vec::<String>::new());
}

#[test]
fn nginx_over_a_mount_serves_correct_bytes() {
    let test = "nginx over a mount";
    if have_or_skip(test, "nginx") && Mount::available_or_skip(test) {
        over_a_mount(Peer::nginx);
    }
}

#[test]
fn apache_over_a_mount_serves_correct_bytes() {
    let test = "Apache over a mount";
    if have_or_skip(test, "apache2") && Mount::available_or_skip(test) {
        over_a_mount(Peer::apache);
    }
}
