//! Content steering: boxes name each other in the playlists that they make, and one that lacks a
//! disk sends a part of its viewers to another.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::client::Response;
use headlong_testkit::server::{ServerBuilder, free_address};
use headlong_testkit::{Scratch, Server};
use serde_json::{Value, json};

use crate::packaging::{get, make_sizes};

const MASTER: &str = "/film.mp4/master.m3u8";
const STEERING: &str = "/film.mp4/steering.json";

/// Two boxes with one film in two sizes, each with a second folder on "another disk".
struct SteeredBoxes {
    scratch: Scratch,
    servers: Vec<Server>,
}

impl SteeredBoxes {
    /// `prepare` gets the number of each box and its folder.
    fn start(prepare: impl Fn(usize, &Path)) -> Self {
        let scratch = Scratch::new("steering").expect("a folder");
        let original = scratch.path().join("original");
        std::fs::create_dir(&original).expect("made");
        let sizes = [
            ("film_90.mp4", "160x90", 50),
            ("film_180.mp4", "320x180", 50),
        ];
        make_sizes(&original, &sizes);
        let addresses = [free_address(), free_address()];
        let boxes = addresses.iter().enumerate();
        // Players need no other address.
        let boxes = boxes.map(|(number, address)| {
            format!(
                "[box.{number}]\naddress = \"{address}\"\nadmin = \"127.0.0.1:1\"\n\
                 url = \"http://{address}\"\n"
            )
        });
        let fleet = scratch.path().join("fleet.toml");
        let text = format!("title = \"folder\"\n{}", boxes.collect::<String>());
        std::fs::write(&fleet, text).expect("written");
        let start = |number: usize| {
            let folder = scratch.path().join(format!("box-{number}"));
            for part in ["a", "b"] {
                std::fs::create_dir_all(folder.join(part)).expect("made");
            }
            for (name, _, _) in sizes {
                let copy = folder.join("a").join(name);
                std::fs::hard_link(original.join(name), copy).expect("linked");
            }
            prepare(number, &folder);
            ServerBuilder::new([folder.join("a"), folder.join("b")])
                .memory("64MiB")
                .config("package = \"on\"\nrescan = \"1s\"\nsession.header = \"X-Viewer\"\n")
                .config(&format!(
                    "[steering]\nfleet = {fleet:?}\nbox = \"{number}\"\n"
                ))
                .config(&format!(
                    "[site.\"a.example\"]\nroots = [{:?}]\n",
                    folder.join("a")
                ))
                .address(addresses[number])
                .start()
        };
        Self {
            servers: (0..2).map(start).collect(),
            scratch,
        }
    }

    /// The steering manifest that a viewer gets from the first box.
    fn steer(&self, viewer: &str) -> Value {
        let fields = [("X-Viewer", viewer)];
        let reply = get(self.servers[0].address(), STEERING, &fields);
        assert_eq!(reply.status(), 200, "{}", reply.text());
        serde_json::from_slice(&reply.body).expect("JSON")
    }

    /// Of these viewers, those that the first box sends to the second one.
    fn moved(&self, viewers: &[String]) -> Vec<String> {
        let is_moved = |viewer: &&String| {
            let priority = &self.steer(viewer)["PATHWAY-PRIORITY"];
            assert!(
                [json!(["0", "1"]), json!(["1", "0"])].contains(priority),
                "{priority}"
            );
            *priority == json!(["1", "0"])
        };
        viewers.iter().filter(is_moved).cloned().collect()
    }
}

/// The reply for a URL of one of the boxes.
fn follow(url: &str) -> Response {
    let rest = url.strip_prefix("http://").expect(url);
    let (address, path) = rest.split_at(rest.find('/').expect(url));
    let address: SocketAddr = address.parse().expect(url);
    let reply = get(address, path, &[]);
    assert_eq!(reply.status(), 200, "{url}: {}", reply.text());
    reply
}

/// Lines of a playlist that are links.
fn links(playlist: &str) -> Vec<&str> {
    let lines = playlist.lines();
    lines.filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn playlists_of_each_box_lead_to_the_title_at_both() {
    if !have_or_skip("playlists_of_each_box", "ffmpeg") {
        return;
    }
    let boxes = SteeredBoxes::start(|_, _| ());
    let addresses = boxes.servers.iter().map(Server::address);
    let addresses: Vec<SocketAddr> = addresses.collect();
    for (number, server) in boxes.servers.iter().enumerate() {
        let master = server.get(MASTER).text();
        let own = addresses[number];
        let tag = format!(
            "#EXT-X-CONTENT-STEERING:SERVER-URI=\"http://{own}{STEERING}\",\
             PATHWAY-ID=\"{number}\"\n"
        );
        assert!(master.contains(&tag), "{master}");
        let variants = links(&master);
        let at = |address: &SocketAddr| {
            let start = format!("http://{address}/");
            variants
                .iter()
                .filter(|url| url.starts_with(&start))
                .count()
        };
        assert_eq!(addresses.iter().map(at).collect::<Vec<_>>(), [2, 2]);
        let mut segments = BTreeSet::new();
        for variant in variants {
            let playlist = follow(variant).text();
            let folder = &variant[..=variant.rfind('/').expect(variant)];
            let first = *links(&playlist).first().expect("a segment");
            segments.insert(follow(&format!("{folder}{first}")).body);
        }
        assert_eq!(
            segments.len(),
            2,
            "one of each size, whichever box it is from"
        );
        let manifest = server.get("/film.mp4/manifest.mpd").text();
        for (other, address) in addresses.iter().enumerate() {
            let base = format!(
                "<BaseURL serviceLocation=\"{other}\">http://{address}/film.mp4/</BaseURL>"
            );
            assert!(manifest.contains(&base), "{manifest}");
        }
    }
}

#[test]
fn box_without_one_of_two_disks_moves_half_of_its_viewers() {
    if !have_or_skip("box_without_one_of_two_disks_moves", "ffmpeg") {
        return;
    }
    let boxes = SteeredBoxes::start(|number, folder| {
        if number == 0 {
            std::fs::rename(folder.join("b"), folder.join("gone")).expect("renamed");
        }
    });
    let viewers: Vec<String> = (0..200).map(|viewer| format!("viewer-{viewer}")).collect();
    // Needs no disk: the film has no playlist here until the other folder is back.
    let ttl = || boxes.steer("viewer-0")["TTL"].clone();
    eventually("the loss is known", ttl, |ttl| *ttl == 10);
    let moved = boxes.moved(&viewers);
    assert!((60..140).contains(&moved.len()), "{}", moved.len());
    assert_eq!(
        boxes.moved(&viewers),
        moved,
        "each viewer stays where it was sent"
    );
    let folder = boxes.scratch.path().join("box-0");
    std::fs::rename(folder.join("gone"), folder.join("b")).expect("renamed");
    eventually("it is back", ttl, |ttl| *ttl == 30);
    assert_eq!(boxes.moved(&viewers), [""; 0], "all stay");
}

#[test]
fn stored_playlists_and_sites_are_not_steered() {
    if !have_or_skip("stored_playlists_and_sites", "ffmpeg") {
        return;
    }
    let stored = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv1.m3u8\n";
    let boxes = SteeredBoxes::start(|_, folder| {
        // A folder that is named like a film.
        let folder = folder.join("b/other.mp4");
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("master.m3u8"), stored).expect("written");
        std::fs::write(folder.join("steering.json"), "{}").expect("written");
    });
    let server = &boxes.servers[0];
    assert_eq!(server.get("/other.mp4/master.m3u8").text(), stored);
    assert_eq!(server.get("/other.mp4/steering.json").text(), "{}");
    let steering = server.get(STEERING);
    assert_eq!(steering.field("content-type"), Some("application/json"));
    assert_eq!(steering.field("cache-control"), Some("no-store"));
    let of_site = |path: &str| get(server.address(), path, &[("host", "a.example")]);
    let master = of_site(MASTER).text();
    assert!(
        master.contains("\nv1a1.m3u8") || master.contains("/v1a1.m3u8"),
        "{master}"
    );
    assert!(!master.contains("STEERING"), "{master}");
    assert_eq!(of_site(STEERING).status(), 404);
}
