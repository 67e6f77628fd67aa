//! The server's own access log, analysed without options: its chains are those that the engine saw.
//!
//! Each line of the access log names the chain to which the engine counted the request, online and
//! without knowledge of later requests. `headlong trace chains` joins the same lines offline, by
//! the rules of thesis 5.3 alone. Where both rules agree, both must find the same chains; where
//! they differ, every chain of the log is a part of one chain of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use headlong_e2e_tests::{Library, eventually};
use headlong_testkit::client::Connection;
use headlong_testkit::server::{ServerBuilder, binary};
use headlong_testkit::{ProgramRun, Scratch, Seed, Server};
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TITLE_BYTES: u64 = 16 * MIB;

/// A viewer with connections of its own.
struct Viewer<'s> {
    server: &'s Server,
    session: String,
    connections: Vec<Connection>,
}

/// One step of a viewer; it completes before the next step of any viewer.
#[derive(Debug, Clone)]
enum Step {
    /// A request for these bytes, read to the end of its reply.
    Read { title: u64, from: u64, bytes: u64 },
    /// Several concurrent requests, each on its own connection.
    AtOnce {
        title: u64,
        from: u64,
        bytes: u64,
        count: u64,
    },
    /// `bytes=FROM-`, to the end.
    OpenEnded { title: u64, from: u64 },
    /// The title without a range.
    Whole { title: u64 },
    /// A request that is abandoned after some bytes of its reply.
    GivenUp { title: u64, from: u64, taken: u64 },
}

impl<'s> Viewer<'s> {
    fn new(server: &'s Server, session: &str) -> Self {
        Self {
            server,
            session: session.to_owned(),
            connections: Vec::new(),
        }
    }

    fn connection(&mut self, number: usize) -> &mut Connection {
        while self.connections.len() <= number {
            let connection = Connection::open(self.server.address()).expect("connects");
            self.connections.push(connection);
        }
        &mut self.connections[number]
    }

    fn send(&mut self, connection: usize, title: u64, range: Option<String>) {
        let session = format!("sid=\"{}\"", self.session);
        let range = range.map(|range| format!("bytes={range}"));
        let mut fields = vec![("CMCD-Session", session.as_str())];
        fields.extend(range.as_deref().map(|range| ("Range", range)));
        let target = format!("/title-{title}.bin");
        let text = headlong_testkit::client::request_text("GET", &target, &fields);
        let connection = self.connection(connection);
        connection.send(text.as_bytes()).expect("sent");
    }

    fn receive(&mut self, connection: usize, status: u16, bytes: u64) {
        let reply = self.connection(connection).receive("GET").expect("a reply");
        assert_eq!(reply.status(), status);
        assert_eq!(reply.body.len() as u64, bytes);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Read { title, from, bytes } => {
                self.send(0, title, Some(format!("{from}-{}", from + bytes - 1)));
                self.receive(0, 206, bytes);
            }
            Step::AtOnce {
                title,
                from,
                bytes,
                count,
            } => {
                for number in 0..count {
                    let from = from + number * bytes;
                    let range = format!("{from}-{}", from + bytes - 1);
                    self.send(number as usize, title, Some(range));
                }
                for number in 0..count {
                    self.receive(number as usize, 206, bytes);
                }
            }
            Step::OpenEnded { title, from } => {
                self.send(0, title, Some(format!("{from}-")));
                self.receive(0, 206, TITLE_BYTES - from);
            }
            Step::Whole { title } => {
                self.send(0, title, None);
                self.receive(0, 200, TITLE_BYTES);
            }
            Step::GivenUp { title, from, taken } => {
                self.send(0, title, Some(format!("{from}-")));
                let connection = self.connection(0);
                connection.receive_head().expect("a head");
                connection.receive_body(taken).expect("some of it");
                self.connections.remove(0);
            }
        }
    }
}

/// Consecutive chunks.
fn in_sequence(title: u64, from: u64, bytes: u64, chunk: u64) -> Vec<Step> {
    let chunks = (from..from + bytes).step_by(chunk as usize);
    let step = |from: u64| Step::Read {
        title,
        from,
        bytes: chunk,
    };
    chunks.map(step).collect()
}

/// A server of three titles that logs to `access.log` in `folder`.
fn server(library: &Library, folder: &Path, format: &str) -> Server {
    let log = folder.join("access.log").display().to_string();
    ServerBuilder::new([library.root()])
        .config("admission = \"accept\"\npolicy = \"fixed\"\nprefetch = \"512KiB\"")
        .config(&format!("[log]\naccess = \"{log}\"\nformat = \"{format}\""))
        .start()
}

/// Plays the steps of all viewers in random interleaving; each viewer's own steps keep their order.
fn play(server: &Server, scripts: &[(&str, Vec<Step>)], seed: &mut Seed) {
    let mut viewers: Vec<_> = scripts
        .iter()
        .map(|(session, steps)| (Viewer::new(server, session), steps.iter()))
        .collect();
    while !viewers.is_empty() {
        let chosen = seed.below(viewers.len() as u64) as usize;
        let (viewer, steps) = &mut viewers[chosen];
        match steps.next() {
            Some(step) => viewer.take(step),
            None => drop(viewers.swap_remove(chosen)),
        }
    }
}

fn headlong(folder: &Path, arguments: &[&str]) -> ProgramRun {
    let mut command = Command::new(binary());
    let run = ProgramRun::of(command.args(arguments).current_dir(folder)).exits_with(0);
    for text in [&run.stderr, &run.stdout] {
        assert!(!text.contains(" dropped: "), "{arguments:?}: {text}");
    }
    run
}

/// A range of bytes that one session read of one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    session: String,
    file: String,
    start: u64,
    length: u64,
    is_open: bool,
    requests: u64,
}

impl Stretch {
    /// Whether another range lies within this one.
    fn holds(&self, other: &Self) -> bool {
        let end = |one: &Self| one.start + one.length;
        (&self.session, &self.file) == (&other.session, &other.file)
            && self.start <= other.start
            && end(other) <= end(self)
    }
}

/// The chains that `trace chains` finds in the log.
fn chains_off_line(folder: &Path) -> Vec<Stretch> {
    headlong(folder, &["trace", "chains", "access.log", "--out", "c.csv"]);
    let table = std::fs::read_to_string(folder.join("c.csv")).expect("a table");
    let mut lines = table.lines();
    let head = "session,file,start,length,t_start,t_end,open,nreq";
    assert_eq!(lines.next(), Some(head));
    let stretch = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse::<u64>().expect("a number");
        Stretch {
            session: fields[0].to_owned(),
            file: fields[1].to_owned(),
            start: number(2),
            length: number(3),
            is_open: number(6) == 1,
            requests: number(7),
        }
    };
    let mut found: Vec<Stretch> = lines.map(stretch).collect();
    found.sort();
    found
}

/// The chains that the engine saw online: lines of a JSON log, grouped by the chain that they name.
fn chains_on_line(folder: &Path) -> Vec<Stretch> {
    let log = std::fs::read_to_string(folder.join("access.log")).expect("a log");
    let mut by_chain: BTreeMap<u64, Stretch> = BTreeMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("an object");
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let range = text("range").unwrap_or_else(|| "bytes=0-".to_owned());
        let range = range.trim_start_matches("bytes=").split_once('-');
        let (from, to) = range.expect("a range");
        let start: u64 = from.parse().expect("a first byte");
        let sent = line["bytes_sent"].as_u64().expect("bytes_sent");
        let chain = line["chain"].as_u64().expect("chain");
        let new = Stretch {
            session: text("session").expect("session"),
            file: text("target").expect("target"),
            start,
            length: sent,
            is_open: to.is_empty(),
            requests: 1,
        };
        match by_chain.get_mut(&chain) {
            None => drop(by_chain.insert(chain, new)),
            Some(known) => {
                assert_eq!(
                    (&known.session, &known.file),
                    (&new.session, &new.file),
                    "chain {chain} is of one viewer and one file"
                );
                let end = (known.start + known.length).max(start + sent);
                if start < known.start {
                    known.is_open = new.is_open;
                    known.start = start;
                }
                known.length = end - known.start;
                known.requests += 1;
            }
        }
    }
    let mut found: Vec<Stretch> = by_chain.into_values().collect();
    found.sort();
    found
}

/// Steps that form chains by the same rules online and offline.
fn plain_scripts(seed: &mut Seed) -> Vec<(&'static str, Vec<Step>)> {
    let mut start = |below: u64| seed.below(below / KIB) * KIB;
    let skipping = |title, first: u64, second: u64| {
        let mut steps = in_sequence(title, first, MIB, 128 * KIB);
        steps.extend(in_sequence(title, second, MIB, 256 * KIB));
        steps
    };
    let mut again = in_sequence(0, 0, 6 * MIB, 512 * KIB);
    again.extend(in_sequence(0, 0, MIB, 512 * KIB));
    let mut two_titles = in_sequence(0, start(4 * MIB), MIB, 256 * KIB);
    two_titles.extend(in_sequence(1, start(4 * MIB), MIB, 64 * KIB));
    let read = |from, bytes| Step::Read {
        title: 2,
        from,
        bytes,
    };
    let at_once = |from| Step::AtOnce {
        title: 1,
        from,
        bytes: 256 * KIB,
        count: 3,
    };
    vec![
        (
            "sequence",
            in_sequence(0, start(8 * MIB), 3 * MIB, 256 * KIB),
        ),
        (
            "same-title",
            in_sequence(0, start(8 * MIB), 2 * MIB, 128 * KIB),
        ),
        ("skips-forward", skipping(1, MIB, 9 * MIB)),
        ("skips-backward", skipping(1, 9 * MIB, MIB)),
        ("reads-again", again),
        ("two-titles", two_titles),
        (
            "out-of-order",
            vec![
                read(0, 256 * KIB),
                read(3 * MIB + 256 * KIB, 256 * KIB),
                read(256 * KIB, 3 * MIB),
            ],
        ),
        (
            "in-parallel",
            (0..4).map(|n| at_once(n * 768 * KIB)).collect(),
        ),
        (
            "open-ended",
            vec![
                Step::Read {
                    title: 2,
                    from: 0,
                    bytes: 64 * KIB,
                },
                Step::OpenEnded {
                    title: 2,
                    from: 8 * MIB,
                },
            ],
        ),
        ("whole", vec![Step::Whole { title: 1 }]),
    ]
}

#[test]
fn chains_of_the_log_equal_those_of_the_engine() {
    let library = Library::new(3, TITLE_BYTES).expect("a library");
    let mut seed = Seed::announced("the_chains_of_the_log", 5);
    let folder = Scratch::new("own-log").expect("a folder");
    let server = server(&library, folder.path(), "json");
    play(&server, &plain_scripts(&mut seed), &mut seed);
    let status = server.status();
    let counter = |name: &str| status.counter(name);
    assert!(server.stop().is_some(), "the server stops on request");

    let off_line = chains_off_line(folder.path());
    let sum = |of: fn(&Stretch) -> u64| off_line.iter().map(of).sum::<u64>();
    assert_eq!(
        counter("chains") - counter("chains_joined"),
        off_line.len() as u64
    );
    assert!(
        counter("chains_joined") >= 1,
        "a request between two chains"
    );
    assert_eq!(counter("requests"), sum(|chain| chain.requests));
    assert_eq!(counter("chain_bytes"), sum(|chain| chain.length));

    // Each chain is either the same in both, or was joined online from several.
    let on_line = chains_on_line(folder.path());
    assert_eq!(counter("chains"), on_line.len() as u64);
    let off: BTreeSet<&Stretch> = off_line.iter().collect();
    let on: BTreeSet<&Stretch> = on_line.iter().collect();
    for whole in off.difference(&on) {
        let pieces = on.difference(&off).filter(|piece| whole.holds(piece));
        let pieces: Vec<_> = pieces.collect();
        let requests: u64 = pieces.iter().map(|piece| piece.requests).sum();
        assert_eq!(requests, whole.requests, "{whole:?}: {pieces:?}");
        let ends = pieces.iter().map(|piece| piece.start + piece.length);
        assert_eq!(ends.max(), Some(whole.start + whole.length), "{whole:?}");
        let starts = pieces.iter().map(|piece| piece.start);
        assert_eq!(starts.min(), Some(whole.start), "{whole:?}");
    }
    let joined = ["out-of-order", "in-parallel"];
    let mut unlike = off.symmetric_difference(&on);
    let unlike = unlike.find(|chain| !joined.contains(&chain.session.as_str()));
    assert!(unlike.is_none(), "only one of both has {unlike:?}");
}

/// Numbers of a characterisation as JSON.
fn number(told: &Value, table: &str, row: &str, column: &str) -> f64 {
    let tables = told["sections"].as_array().expect("sections").iter();
    let mut tables = tables.flat_map(|section| section["tables"].as_array().expect("tables"));
    let table = tables.find(|known| known["id"] == table).expect(table);
    let columns = table["columns"].as_array().expect("columns").iter();
    let place = columns.clone().position(|known| known["key"] == column);
    let rows = table["rows"].as_array().expect("rows");
    let row = rows.iter().find(|known| known["key"] == row).expect(row);
    row["values"][place.expect(column)]
        .as_f64()
        .expect("a number")
}

#[test]
fn characterises_own_log_in_both_formats() {
    let library = Library::new(3, TITLE_BYTES).expect("a library");
    for format in ["json", "combined"] {
        let mut seed = Seed::announced("the_log_is_characterised", 6);
        let folder = Scratch::new("own-log").expect("a folder");
        let server = server(&library, folder.path(), format);
        let mut scripts = plain_scripts(&mut seed);
        let leaving = |taken| Step::GivenUp {
            title: 0,
            from: 0,
            taken,
        };
        scripts.push(("leaves", vec![leaving(100 * KIB)]));
        scripts.push(("comes-back", vec![leaving(KIB), leaving(MIB)]));
        play(&server, &scripts, &mut seed);
        let requests = server.status().counter("requests");
        // Abandoned requests are logged once the server has noticed.
        eventually(
            "a line for each request",
            || std::fs::read_to_string(folder.path().join("access.log")).unwrap_or_default(),
            |log| log.lines().count() as u64 == requests,
        );
        assert!(server.stop().is_some(), "the server stops on request");

        let chains = chains_off_line(folder.path());
        let arguments = ["trace", "characterise", "access.log", "--json"];
        let told = headlong(folder.path(), &arguments).json();
        assert_eq!(
            told["about"]["dropped"],
            Value::Array(Vec::new()),
            "{format}"
        );
        let number = |table, row, column| number(&told, table, row, column);
        assert_eq!(
            number("table-5.1", "sessions", "value"),
            scripts.len() as f64
        );
        assert_eq!(number("table-5.1", "requests", "value"), requests as f64);
        let count = number("table-chain-lengths", "chains", "value");
        assert_eq!(count, chains.len() as f64, "{format}");
    }
}

#[test]
fn chain_of_the_log_is_part_of_a_chain_of_the_engine() {
    let library = Library::new(1, TITLE_BYTES).expect("a library");
    let mut seed = Seed::announced("where_the_rules_differ", 7);
    let folder = Scratch::new("own-log").expect("a folder");
    let server = server(&library, folder.path(), "json");
    let read = |from, bytes| Step::Read {
        title: 0,
        from,
        bytes,
    };
    let scripts = [
        // The same bytes again, as after a lost reply.
        (
            "retries",
            vec![
                read(0, 256 * KIB),
                read(0, 256 * KIB),
                read(256 * KIB, 256 * KIB),
            ],
        ),
        // A gap that has been prefetched already.
        ("leaps", vec![read(0, 256 * KIB), read(320 * KIB, 64 * KIB)]),
        // Overlapping by a byte, as from players that count the end into both requests.
        ("overlaps", vec![read(0, 100_001), read(100_000, 100_001)]),
    ];
    play(&server, &scripts, &mut seed);
    let status = server.status();
    assert!(server.stop().is_some(), "the server stops on request");

    let off_line = chains_off_line(folder.path());
    let on_line = chains_on_line(folder.path());
    assert_eq!(status.counter("chains"), 3);
    assert_eq!(
        (on_line.len(), off_line.len()),
        (3, 6),
        "{on_line:?} {off_line:?}"
    );
    for chain in &on_line {
        let pieces: Vec<_> = off_line.iter().filter(|piece| chain.holds(piece)).collect();
        assert_eq!(pieces.len(), 2, "{chain:?}: {pieces:?}");
        let requests: u64 = pieces.iter().map(|piece| piece.requests).sum();
        assert_eq!(requests, chain.requests, "{chain:?}");
    }
}
