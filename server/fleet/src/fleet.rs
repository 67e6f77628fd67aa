//! The description of a fleet: its boxes, and what a title is.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use headlong_settings::{
    Document, Mistakes, Rejection, Rows, Value, ValueKind, rate, size, text, time, whole,
};
use headlong_units::{Duration, GIB, MIB};

/// The page of the manual that lists all keys.
const MANUAL: &str = "docs/operate/fleet.md";
/// HAProxy's largest weight.
const WEIGHT_MAX: u32 = 256;
const NAMES_MAX: u32 = 8;
const WEIGHT_USUAL: u32 = 100;
/// Of disks with 5,400 to 10,000 turns a minute: a third of the stroke, and half a turn.
const REPOSITION_USUAL: Duration = Duration::from_millis(15);
const REPOSITION_MAX: Duration = Duration::from_secs(1);
const NAME_BYTES_MAX: usize = 32;

/// A fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Addresses on which the balancer listens.
    pub listen: Vec<String>,
    /// The part of a path that names a title.
    pub title: TitleRule,
    /// Most requests in progress on one box, percent of the mean over all boxes: a title that more
    /// viewers watch than that is also read from the next box (consistent hashing with bounded
    /// loads).
    pub load_percent_max: u32,
    /// Boxes that are asked in turn before the viewer gets a refusal.
    pub tries: u32,
    /// Least number of copies of each title, for a plan.
    pub replicas: u32,
    /// Address of the balancer's own counters, if they are wanted.
    pub stats: Option<String>,
    /// The boxes, by name.
    pub boxes: Vec<FleetBox>,
}

/// The part of a path, without a token before it, that names a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleRule {
    /// The whole path: every file is a title.
    File,
    /// The folder of the file: all files of a folder are a title.
    Folder,
    /// The first names of the path.
    Names(u32),
}

/// A server of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetBox {
    /// Its name, from which its place among the others follows.
    pub name: String,
    /// Address for viewers' requests.
    pub address: String,
    /// Address of its operator's pages.
    pub admin: String,
    /// Address of its agent, if it has one.
    pub agent: Option<String>,
    /// URL at which players reach it without the balancer, for steering.
    pub url: Option<String>,
    /// Share of the titles, relative to the other boxes.
    pub weight: u32,
    /// What fails together with it: copies of a title are in different zones.
    pub zone: Option<String>,
    /// Its memory for pieces of files, for a plan.
    pub memory_bytes: u64,
    /// Its disks, for a plan.
    pub disks: Vec<FleetDisk>,
}

/// A disk of a box.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetDisk {
    /// Its name, from which its titles follow.
    pub name: String,
    /// Its capacity.
    pub bytes: u64,
    /// Its transfer rate, without seeks.
    pub bytes_per_s: u64,
    /// From the end of one read to the first byte of the next, on average.
    pub reposition: Duration,
    /// Folder of its titles.
    pub root: String,
}

impl Default for Fleet {
    /// The defaults of the keys, and no box.
    fn default() -> Self {
        Self {
            listen: vec!["*:80".to_owned()],
            title: TitleRule::File,
            load_percent_max: 200,
            tries: 2,
            replicas: 1,
            stats: None,
            boxes: Vec::new(),
        }
    }
}

impl FleetBox {
    /// A box with the defaults of its keys, and no addresses.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            weight: WEIGHT_USUAL,
            memory_bytes: GIB,
            ..Self::default()
        }
    }

    /// A number that stays the same when other boxes come and go: balancers place a box by it.
    pub fn id(&self) -> u32 {
        let hash = self.name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        // HAProxy takes positive numbers of 31 bits.
        (hash & 0x7fff_ffff).max(1)
    }
}

/// `"file"`, `"folder"`, or a number of names.
fn title() -> ValueKind<TitleRule> {
    let form = format!("\"file\", \"folder\" or a number of names from 1 to {NAMES_MAX}");
    let read = |value: &Value| match value {
        Value::Text(text) if text == "file" => Ok(TitleRule::File),
        Value::Text(text) if text == "folder" => Ok(TitleRule::Folder),
        Value::Whole(count) => match u32::try_from(*count) {
            Ok(count @ 1..=NAMES_MAX) => Ok(TitleRule::Names(count)),
            _ => Err(Rejection::Unfit),
        },
        _ => Err(Rejection::Unfit),
    };
    ValueKind::new(form, read, |title| match title {
        TitleRule::File => "\"file\"".to_owned(),
        TitleRule::Folder => "\"folder\"".to_owned(),
        TitleRule::Names(count) => count.to_string(),
    })
}

/// `HOST:PORT`; nothing that would end a word of a balancer's configuration.
fn address() -> ValueKind<String> {
    text().check(|address, _| match split(address) {
        Some(_) => Ok(()),
        None => Err(format!(
            "`{address}` is no address; write HOST:PORT, such as \"10.0.0.1:8080\""
        )),
    })
}

/// The URL of a host without a path; nothing that would end a link in a playlist.
fn url() -> ValueKind<String> {
    text().check(|url, _| {
        let host = url.strip_prefix("https://");
        let host = host.or_else(|| url.strip_prefix("http://"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
        match host.is_some_and(|host| !host.is_empty() && host.chars().all(is_plain)) {
            true => Ok(()),
            false => Err(format!(
                "`{url}` is not the URL of a box; write it like \"https://a.example\", without a \
                 path or a slash at its end"
            )),
        }
    })
}

/// Host and port.
pub(crate) fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._*:[]".contains(c);
    let is_good = !host.is_empty() && host.chars().all(is_plain);
    port.parse()
        .ok()
        .filter(|_| is_good)
        .map(|port| (host, port))
}

fn rows() -> Rows<Fleet> {
    let mut rows = Rows::<Fleet>::default();
    rows.add("listen", address().list(), |f| &mut f.listen, "");
    rows.add("title", title(), |f| &mut f.title, "");
    let percent = whole().between(101, 1000);
    rows.add("load_percent_max", percent, |f| &mut f.load_percent_max, "");
    rows.add("tries", whole().between(1, 8), |f| &mut f.tries, "");
    rows.add("replicas", whole().between(1, 8), |f| &mut f.replicas, "");
    rows.add("stats", address().optional(), |f| &mut f.stats, "");
    rows
}

fn disk_rows() -> Rows<FleetDisk> {
    let mut rows = Rows::<FleetDisk>::default();
    rows.add("bytes", size().at_least(1), |d| &mut d.bytes, "");
    let rate = rate().map(|rate| rate as u64, |rate: &u64| *rate as f64);
    rows.add("rate", rate, |d| &mut d.bytes_per_s, "");
    let reposition = time().at_most(REPOSITION_MAX);
    rows.add("reposition", reposition, |d| &mut d.reposition, "");
    rows.add("root", root(), |d| &mut d.root, "");
    rows
}

fn box_rows() -> Rows<FleetBox> {
    let mut rows = Rows::<FleetBox>::default();
    rows.add("address", address(), |b| &mut b.address, "");
    rows.add("admin", address(), |b| &mut b.admin, "");
    rows.add("agent", address().optional(), |b| &mut b.agent, "");
    rows.add("url", url().optional(), |b| &mut b.url, "");
    rows.add("zone", text().optional(), |b| &mut b.zone, "");
    rows.add("memory", size().at_least(MIB), |b| &mut b.memory_bytes, "");
    rows.add(
        "weight",
        whole().between(1, WEIGHT_MAX),
        |b| &mut b.weight,
        "",
    );
    rows
}

/// The folder of a disk; nothing that would end a word of a copy list.
fn root() -> ValueKind<String> {
    text().check(|root, _| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._".contains(c);
        match root.starts_with('/') && root.chars().all(is_plain) {
            true => Ok(()),
            false => Err(format!(
                "`{root}` is no folder; write a path of letters, digits, - . _ and /"
            )),
        }
    })
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

fn read_disks(document: &mut Document, table: &str, of: &mut FleetBox) {
    for name in document.children(&format!("{table}.disk")) {
        let table = format!("{table}.disk.{name}");
        let mut disk = FleetDisk {
            name: name.clone(),
            reposition: REPOSITION_USUAL,
            ..FleetDisk::default()
        };
        disk_rows().read(document, &table, &mut disk);
        for key in ["bytes", "rate", "root"] {
            let key = format!("{table}.{key}");
            if !document.is_written(&key) {
                document.wrong_too(&key, "is missing; see fleet.md");
            }
        }
        if !is_name(&name) {
            let text = "is no name for a disk; use letters, digits, - and _";
            document.wrong_too(&table, text);
        }
        of.disks.push(disk);
    }
    of.disks.sort_by(|a, b| a.name.cmp(&b.name));
}

impl TitleRule {
    /// The part of a path below the roots that names its title.
    pub fn of(self, path: &str) -> &str {
        let end = match self {
            Self::File => None,
            Self::Folder => path.rfind('/'),
            Self::Names(count) => path
                .match_indices('/')
                .nth(count as usize - 1)
                .map(|at| at.0),
        };
        match (self, end) {
            (Self::Folder, None) => "",
            (_, end) => &path[..end.unwrap_or(path.len())],
        }
    }
}

impl TitleRule {
    /// The part of a path by which balancers know its title. The path is decoded, begins with a
    /// slash and has no token.
    pub fn balanced(self, path: &str) -> &str {
        match self {
            Self::File => path,
            Self::Folder => &path[..path.rfind('/').map_or(0, |at| at + 1)],
            Self::Names(_) => self.of(path.strip_prefix('/').unwrap_or(path)),
        }
    }
}

impl Fleet {
    /// Reads a description; `source` is the name of its file.
    ///
    /// # Errors
    /// All mistakes in it, each with its line and remedy.
    pub fn read(source: &str, text: &str) -> Result<Self, Mistakes> {
        let mut document = Document::new(source, MANUAL, text);
        let mut fleet = Self::default();
        if !document.is_written("title") {
            let text = "is missing; write \"file\" if every file is a title, \"folder\" if the files \
                of a folder are one (HLS, DASH), or how many names of the path name a title";
            document.wrong_too("title", text);
        }
        rows().read(&mut document, "", &mut fleet);
        for name in document.children("box") {
            let table = format!("box.{name}");
            let mut one = FleetBox::new(&name);
            box_rows().read(&mut document, &table, &mut one);
            read_disks(&mut document, &table, &mut one);
            for (key, value) in [("address", &one.address), ("admin", &one.admin)] {
                let key = format!("{table}.{key}");
                if value.is_empty() && !document.is_written(&key) {
                    document.wrong_too(&key, "is missing; write HOST:PORT");
                }
            }
            if !is_name(&name) {
                let text = "is no name for a box; use letters, digits, - and _";
                document.wrong_too(&table, text);
            }
            fleet.boxes.push(one);
        }
        fleet.boxes.sort_by(|a, b| a.name.cmp(&b.name));
        if fleet.boxes.is_empty() {
            document.wrong_too("box", "there is none; write [box.NAME] with its address");
        }
        let mut seen: Vec<(u32, &str)> = Vec::new();
        let mut equal = Vec::new();
        for one in &fleet.boxes {
            match seen.iter().find(|(id, _)| *id == one.id()) {
                Some((_, other)) => equal.push((one.name.clone(), (*other).to_owned())),
                None => seen.push((one.id(), &one.name)),
            }
        }
        for (name, other) in equal {
            let text = format!("has the place of {other} among the boxes; use another name");
            document.wrong_too(&format!("box.{name}"), text);
        }
        document.finish(fleet)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    const TWO: &str = "title = \"folder\"\n\
        [box.b]\naddress = \"10.0.0.2:8080\"\nadmin = \"10.0.0.2:8081\"\nweight = 200\n\
        [box.a]\naddress = \"10.0.0.1:8080\"\nadmin = \"10.0.0.1:8081\"\n";

    #[test]
    fn boxes_are_in_order_of_name_with_defaults() {
        let fleet = Fleet::read("fleet.toml", TWO).expect("right");
        let names: Vec<&str> = fleet.boxes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((fleet.boxes[0].weight, fleet.boxes[1].weight), (100, 200));
        assert_eq!(fleet.title, TitleRule::Folder);
        assert_eq!(fleet.listen, ["*:80"]);
    }

    #[test]
    fn box_keeps_its_id_when_another_comes() {
        let id = |text: &str| Fleet::read("", text).expect("right").boxes[0].id();
        let more =
            std::format!("{TWO}[box.0]\naddress = \"10.0.0.3:80\"\nadmin = \"10.0.0.3:81\"\n");
        let of_a = Fleet::read("", &more).expect("right");
        let of_a = of_a.boxes.iter().find(|one| one.name == "a");
        assert_eq!(id(TWO), of_a.expect("there").id());
        assert!((1..1 << 31).contains(&id(TWO)));
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let text = "title = 9\nlisten = [\"80\"]\nretries = 2\n[box.\"a b\"]\n\
            address = \"10.0.0.1:8080; server x\"\nweight = 0\n";
        let mistakes = Fleet::read("fleet.toml", text).expect_err("wrong");
        let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        let told = told.join("\n");
        for part in [
            "fleet.toml:1: ",
            "fleet.toml:2: ",
            "retries",
            "a b",
            "HOST:PORT",
            "weight",
            "admin",
        ] {
            assert!(told.contains(part), "{part}:\n{told}");
        }
    }

    #[test]
    fn disks_are_read_in_order_of_name() {
        let disks = "[box.a.disk.d1]\nbytes = \"2TB\"\nrate = \"200MiB/s\"\nroot = \"/srv/1\"\n\
            [box.a.disk.d0]\nbytes = \"1TB\"\nrate = \"100MiB/s\"\nroot = \"/srv/0\"\n\
            reposition = \"9ms\"\n";
        let fleet = Fleet::read("", &std::format!("{TWO}{disks}")).expect("right");
        let found = |disk: usize| {
            let disk = &fleet.boxes[0].disks[disk];
            (&*disk.name, disk.bytes, disk.bytes_per_s, &*disk.root)
        };
        assert_eq!(found(0), ("d0", 1_000_000_000_000, 100 << 20, "/srv/0"));
        assert_eq!(found(1), ("d1", 2_000_000_000_000, 200 << 20, "/srv/1"));
        let repositions = fleet.boxes[0].disks.iter().map(|disk| disk.reposition);
        let repositions: Vec<Duration> = repositions.collect();
        assert_eq!(repositions, [9, 15].map(Duration::from_millis));
        let wrong = std::format!("{TWO}[box.a.disk.d1]\nroot = \"/srv/a b\"\n");
        let mistakes = Fleet::read("", &wrong).expect_err("wrong");
        for key in ["bytes", "rate", "root"] {
            assert!(
                mistakes.is_about(&std::format!("box.a.disk.d1.{key}")),
                "{key}"
            );
        }
    }

    #[test]
    fn url_of_a_box_has_a_host_and_nothing_more() {
        for (url, is_right) in [
            ("https://a.example", true),
            ("http://[2001:db8::1]:8080", true),
            ("https://a.example/", false),
            ("https://a.example/films", false),
            ("https://u@a.example", false),
            ("https://", false),
            ("a.example", false),
            ("https://a.example\\\"", false),
        ] {
            let text = std::format!("{TWO}url = \"{url}\"\n");
            let read = Fleet::read("", &text);
            assert_eq!(read.is_ok(), is_right, "{url}: {read:?}");
        }
    }

    #[test]
    fn title_of_a_path_follows_the_rule() {
        for (rule, path, title) in [
            (TitleRule::File, "a/b/c.mp4", "a/b/c.mp4"),
            (TitleRule::Folder, "a/b/c.ts", "a/b"),
            (TitleRule::Folder, "c.ts", ""),
            (TitleRule::Names(1), "a/b/c.ts", "a"),
            (TitleRule::Names(2), "a/b/c.ts", "a/b"),
            (TitleRule::Names(4), "a/b/c.ts", "a/b/c.ts"),
        ] {
            assert_eq!(rule.of(path), title, "{rule:?} {path}");
        }
    }

    #[test]
    fn title_must_be_chosen() {
        let text = TWO.replace("title = \"folder\"\n", "");
        let mistakes = Fleet::read("", &text).expect_err("wrong");
        assert!(mistakes.is_about("title"), "{mistakes:?}");
    }
}
