//! A fleet on one machine: boxes with two folders of titles and an origin each, and viewers that
//! play through a balancer as a player does, repeating what was cut off or refused.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headlong_testkit::client::{ClientError, Connection, Response, request_text};
use headlong_testkit::server::{Server, ServerBuilder, binary, free_address};
use headlong_testkit::{ProgramRun, Scratch, pattern};

use crate::edge;
use crate::library::Title;
use crate::origin::Origin;

/// Titles in the two folders of each box, one half in each.
pub const TITLES: u64 = 8;
/// Size of a title.
pub const TITLE_BYTES: u64 = 1 << 20;
/// Size of a viewer's requests.
const CHUNK_BYTES: u64 = 64 << 10;
/// Interval between a viewer's requests.
const PACE: Duration = Duration::from_millis(200);
/// Chunks that each viewer has before the trouble begins.
const CHUNKS_BEFORE: u64 = 4;
/// What a player has buffered: a chunk that is later than this is a stall.
const BUFFER: Duration = Duration::from_secs(1);
/// How often a viewer asks for one chunk before it gives up.
const TRIES_MAX: u32 = 20;

/// A box of the fleet.
pub struct ClusterBox {
    /// The server.
    pub server: Server,
    /// Where it answers agent checks.
    pub agent: SocketAddr,
    /// Its folders: `a` and `b` with titles, `edge` with slices.
    pub folder: PathBuf,
}

/// Boxes that have the same titles, and their origin at `/vod/`.
pub struct Cluster {
    /// The boxes.
    pub boxes: Vec<ClusterBox>,
    /// The titles of all boxes.
    pub titles: Vec<Title>,
    /// The origin of all boxes.
    pub origin: Origin,
    scratch: Scratch,
}

impl Cluster {
    /// Starts boxes; `prepare` gets the number of each and its folders, and returns further
    /// top-level settings.
    pub fn start(count: usize, prepare: impl Fn(usize, &Path) -> String) -> Self {
        let scratch = Scratch::new("cluster").expect("a folder");
        let origin = Origin::start().expect("an origin");
        let half = |number: u64| ["a", "b"][(number % 2) as usize];
        let original = scratch.path().join("original");
        std::fs::create_dir(&original).expect("made");
        let name = |number| format!("title-{number}.bin");
        let titles = (0..TITLES).map(|number| {
            Title::create(&original, &name(number), number, TITLE_BYTES).expect("written")
        });
        let titles: Vec<Title> = titles.collect();
        let free = || -> Vec<SocketAddr> { (0..count).map(|_| free_address()).collect() };
        let (agents, addresses) = (free(), free());
        let boxes = addresses.iter().enumerate();
        // No box asks for the admin address of another.
        let boxes = boxes.map(|(number, address)| {
            format!("[box.{number}]\naddress = \"{address}\"\nadmin = \"127.0.0.1:1\"\n")
        });
        let description = scratch.path().join("peers.toml");
        let text = format!("title = \"file\"\n{}", boxes.collect::<String>());
        std::fs::write(&description, text).expect("written");
        let fleet = format!("fleet = {description:?}\n");
        let url = format!("http://{}/o/", origin.address());
        let start = |number: usize| {
            let folder = scratch.path().join(format!("box-{number}"));
            for part in ["a", "b", "edge"] {
                std::fs::create_dir_all(folder.join(part)).expect("made");
            }
            for title in &titles {
                let name = title.path.file_name().expect("a name");
                let copy = folder.join(half(title.number)).join(name);
                // One file in all boxes, so that their ETags are equal.
                std::fs::hard_link(&title.path, copy).expect("linked");
            }
            let own = format!(
                "agent = \"{}\"\nrescan = \"1s\"\nrevalidate = \"0s\"\n{}",
                agents[number],
                prepare(number, &folder)
            );
            let server = ServerBuilder::new([folder.join("a"), folder.join("b")])
                .memory("64MiB")
                .config(&own)
                .config(&edge::settings(&url, &folder.join("edge"), &fleet))
                .address(addresses[number])
                .start();
            ClusterBox {
                server,
                agent: agents[number],
                folder,
            }
        };
        Self {
            boxes: (0..count).map(start).collect(),
            titles,
            origin,
            scratch,
        }
    }

    /// Folder for files of the test.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The configuration of HAProxy that `headlong fleet config` prints, listening on `listen`.
    pub fn haproxy(&self, listen: SocketAddr) -> String {
        let mut text = format!("title = \"file\"\nlisten = [\"{listen}\"]\n");
        for (number, one) in self.boxes.iter().enumerate() {
            text.push_str(&format!(
                "[box.{number}]\naddress = \"{}\"\nadmin = \"{}\"\nagent = \"{}\"\n",
                one.server.address(),
                one.server.admin(),
                one.agent
            ));
        }
        let file = self.scratch.path().join("fleet.toml");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(binary());
        command.args(["fleet", "config", "--for", "haproxy"]);
        ProgramRun::of(command.arg(&file)).exits_with(0).stdout
    }

    /// Number of the box that answered the most requests during `act`.
    pub fn busiest(&self, act: impl FnOnce()) -> usize {
        let before = self.answered();
        act();
        let after = self.answered();
        let counts = before.iter().zip(&after);
        let counts = counts.map(|(before, after)| after - before);
        let (_, number) = counts.zip(0..).max().expect("boxes");
        number
    }

    /// Replies of each box.
    pub fn answered(&self) -> Vec<u64> {
        let boxes = self.boxes.iter();
        boxes.map(|one| one.server.replies()).collect()
    }
}

impl ClusterBox {
    /// Its answer to an agent check, without the end of the line.
    pub fn says(&self) -> String {
        use std::io::Read as _;
        let mut line = String::new();
        let stream = std::net::TcpStream::connect(self.agent);
        let read = stream.and_then(|mut stream| stream.read_to_string(&mut line));
        match read {
            Ok(_) => line.trim_end().to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// What viewers have met. Wrong bytes end the test at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched {
    /// Bytes received, all verified.
    pub bytes: u64,
    /// Replies that were cut off or failed on a new connection.
    pub cut: u64,
    /// The most of those of one viewer.
    pub cut_max: u64,
    /// Kept connections that were closed without a reply, which every client repeats unnoticed.
    pub reconnected: u64,
    /// Replies 5xx.
    pub refused: u64,
    /// Titles that became another version while they were played.
    pub replaced: u64,
    /// Chunks that came more than a second late. A measurement: no test asserts it.
    pub stalls: u64,
}

impl Watched {
    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            cut: self.cut + other.cut,
            cut_max: self.cut_max.max(other.cut),
            reconnected: self.reconnected + other.reconnected,
            refused: self.refused + other.refused,
            replaced: self.replaced + other.replaced,
            stalls: self.stalls + other.stalls,
        }
    }
}

/// The pattern number of a stale copy of a title.
pub const STALE: u64 = 100;

/// Plays these titles at once, a path and a pattern number for each viewer, and calls `trouble`
/// when all have begun.
///
/// # Panics
/// At a wrong byte, and if a viewer gives up.
pub fn play(front: SocketAddr, titles: &[(String, u64)], trouble: impl FnOnce()) -> Watched {
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let viewers = titles.iter().map(|(path, number)| {
            let begun = &begun;
            scope.spawn(move || watch(front, path, *number, begun))
        });
        let viewers: Vec<_> = viewers.collect();
        let end = Instant::now() + Duration::from_secs(60);
        while begun.load(Ordering::Relaxed) < viewers.len() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        trouble();
        let ended = viewers.into_iter().map(|viewer| match viewer.join() {
            Ok(watched) => watched,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Watched::default(), Watched::add)
    })
}

fn watch(front: SocketAddr, path: &str, mut number: u64, begun: &AtomicUsize) -> Watched {
    let mut watched = Watched::default();
    let mut connection: Option<Connection> = None;
    let mut tag: Option<String> = None;
    let start = Instant::now();
    let chunks = TITLE_BYTES / CHUNK_BYTES;
    let mut tries = 0;
    let mut chunk = 0;
    while chunk < chunks {
        assert!(tries < TRIES_MAX, "{path}: {tries} tries of chunk {chunk}");
        tries += 1;
        let due = PACE * chunk as u32;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let first = chunk * CHUNK_BYTES;
        let span = format!("bytes={first}-{}", first + CHUNK_BYTES - 1);
        let mut fields = vec![("Range", span.as_str())];
        fields.extend(tag.as_deref().map(|tag| ("If-Range", tag)));
        let is_new = connection.is_none();
        let reply = ask(&mut connection, front, path, &fields);
        let reply = match reply {
            Ok(reply) => reply,
            Err(ClientError::Closed | ClientError::Io(_)) if !is_new => {
                watched.reconnected += 1;
                connection = None;
                continue;
            }
            Err(_) => {
                watched.cut += 1;
                connection = None;
                continue;
            }
        };
        match reply.status() {
            206 => {
                // A viewer may begin with a stale copy, but nobody gets a part of one.
                if chunk == 0 && pattern::verify(STALE, 0, &reply.body).is_ok() {
                    number = STALE;
                }
                pattern::verify(number, first, &reply.body).expect("right bytes");
                assert_eq!(reply.body.len() as u64, CHUNK_BYTES);
                watched.bytes += CHUNK_BYTES;
                tag = reply.field("etag").map(str::to_owned);
                if start.elapsed() > due + BUFFER {
                    watched.stalls += 1;
                }
                (chunk, tries) = (chunk + 1, 0);
                if chunk == CHUNKS_BEFORE {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            }
            // Another version: a player begins again with it.
            200 => {
                watched.replaced += 1;
                return watched;
            }
            500.. => {
                watched.refused += 1;
                std::thread::sleep(Duration::from_millis(500));
            }
            status => panic!("{path}: {status} {}", reply.text()),
        }
    }
    watched
}

fn ask(
    connection: &mut Option<Connection>,
    front: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
) -> Result<Response, ClientError> {
    let open = match connection.take() {
        Some(open) => open,
        None => Connection::open(front)?,
    };
    let open = connection.insert(open);
    open.send(request_text("GET", path, fields).as_bytes())?;
    open.receive("GET")
}
