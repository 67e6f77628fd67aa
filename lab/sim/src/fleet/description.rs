//! Reading an experiment with a fleet from TOML. All mistakes are reported together.

use headlong_drive::DriveSpec;
use headlong_engine::EngineConfig;
use headlong_fleet::{BalancingRule, Fleet, FleetBox};
use headlong_settings::{Document, Mistakes, Value, flag, rate, size, text, time, whole};
use headlong_units::{BitRate, Duration, GIB, Instant, MIB};
use headlong_workload::Specification;

use crate::fleet::experiment::FleetExperiment;
use crate::fleet::server::DISKS_MAX;
use crate::fleet::setup::{BoxFailure, FleetSetup, OriginLink};
use crate::layout::Placement;
use crate::measure::MeasuredWindow;
use crate::settings;
use crate::setup::WorldSetup;

/// The page of the manual that lists all keys.
const MANUAL: &str = "docs/lab/simulate-fleet.md";
const BOXES_MAX: u32 = 1000;
const BOX_DISKS_MAX: u32 = 100;
/// A run may have this length.
const LENGTH_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Where the parts of an experiment come from that its file only names.
pub struct FleetSources<'a> {
    /// The text of a fleet's description (docs/operate/fleet.md).
    pub description: &'a dyn Fn(&str) -> Result<String, String>,
    /// A drive.
    pub drive: &'a dyn Fn(&str) -> Result<DriveSpec, String>,
    /// A workload, with changed keys; or all its mistakes.
    pub workload: &'a WorkloadSource<'a>,
}

type WorkloadSource<'a> =
    dyn Fn(&str, &[(String, String)]) -> Result<Specification, Vec<String>> + 'a;

impl std::fmt::Debug for FleetSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetSources").finish_non_exhaustive()
    }
}

impl FleetExperiment {
    /// Reads an experiment; `source` is the name of its file, and `changes` replace values of keys.
    ///
    /// # Errors
    /// All mistakes in it, each with its line and remedy.
    pub fn read(
        source: &str,
        toml: &str,
        changes: &[(String, String)],
        sources: &FleetSources<'_>,
    ) -> Result<Self, Mistakes> {
        let mut document = Document::new(source, MANUAL, toml);
        for (key, value) in changes {
            document.set(&format!("--set {key}"), key, Value::of_word(value));
        }
        let name = document.get_or("name", &text(), "fleet".to_owned());
        // For readers of the file only.
        document.get("about", &text());
        let setup = read_setup(&mut document);
        let fleet = read_fleet(&mut document, &setup, sources);
        let drive = needed(
            &mut document,
            "drive",
            "write a preset, such as \"nearline-20tb\"",
        );
        let drive = drive.and_then(|name| {
            let found = (sources.drive)(&name);
            found.map_err(|why| document.wrong("drive", why)).ok()
        });
        let workload = read_workload(&mut document, sources);
        let bytes_per_s = document.get("rate", &rate());
        if !document.is_written("rate") {
            let remedy = "is missing; write what all viewers request, such as \"10GiB/s\"";
            document.wrong("rate", remedy);
        }
        let parts = (drive, workload, bytes_per_s);
        let (Some(drive), Some(workload), Some(bytes_per_s)) = parts else {
            return Err(document
                .finish(())
                .expect_err("every absent part has its mistake"));
        };
        document.finish(Self {
            name,
            fleet,
            workload,
            drive,
            setup,
            rate_mib_s: bytes_per_s / MIB as f64,
        })
    }
}

/// A text that must be written.
fn needed(document: &mut Document, key: &str, remedy: &str) -> Option<String> {
    if !document.is_written(key) {
        document.wrong(key, format!("is missing; {remedy}"));
    }
    document.get(key, &text())
}

fn read_setup(document: &mut Document) -> WorldSetup {
    let disks = document.get_or("disks", &whole().between(1, BOX_DISKS_MAX), 1);
    let mut engine = EngineConfig {
        memory_bytes: document.get_or("memory", &size().at_least(MIB), GIB),
        ..EngineConfig::default()
    };
    for (key, value) in document.below("server") {
        if let Err(why) = settings::set(&mut engine, &key, &value.to_word()) {
            document.wrong(&format!("server.{key}"), why);
        }
    }
    let length = time().at_most(LENGTH_MAX);
    let ramp_up = document.get_or("phases.ramp_up", &length, Duration::from_secs(300));
    let ramp_down = document.get_or("phases.ramp_down", &length, Duration::from_secs(60));
    let measured = time().between(Duration::from_secs(1), LENGTH_MAX);
    let measured = document.get_or("phases.measured", &measured, Duration::from_secs(600));
    let from = Instant::ZERO + ramp_up;
    WorldSetup {
        disks,
        engine,
        placement: Placement::Spread,
        bit_rates_known: true,
        window: MeasuredWindow {
            from,
            to: from + measured,
        },
        ramp_down,
        ..WorldSetup::default()
    }
}

fn read_workload(document: &mut Document, sources: &FleetSources<'_>) -> Option<Specification> {
    let remedy = "write a preset, or a file, of docs/lab/workload.md";
    let name = needed(document, "workload.preset", remedy);
    let changes = document.below("workload.set").into_iter();
    let changes: Vec<(String, String)> =
        changes.map(|(key, value)| (key, value.to_word())).collect();
    let read = (sources.workload)(&name?, &changes);
    read.map_err(|mistakes| {
        for mistake in mistakes {
            document.wrong("workload.preset", mistake);
        }
    })
    .ok()
}

fn read_fleet(
    document: &mut Document,
    setup: &WorldSetup,
    sources: &FleetSources<'_>,
) -> FleetSetup {
    let mut fleet = read_boxes(document, sources);
    let percent = whole().between(101, 1000);
    fleet.load_percent_max = document.get_or("load_percent_max", &percent, fleet.load_percent_max);
    fleet.tries = document.get_or("tries", &whole().between(1, 8), fleet.tries);
    fleet.replicas = document.get_or("replicas", &whole().between(1, 8), fleet.replicas);
    let disks = fleet.boxes.len() as u64 * u64::from(setup.disks);
    if disks > u64::from(DISKS_MAX) {
        let text = format!("makes {disks} disks; at most {DISKS_MAX} are possible");
        document.wrong_too("disks", text);
    }
    let origin = OriginLink {
        delay: document.get_or("origin.delay", &time(), Duration::from_millis(20)),
        rate: BitRate((document.get_or("origin.rate", &rate(), 100.0 * MIB as f64) * 8.0) as u64),
        kept_bytes: document.get_or("origin.kept", &size(), 100 * GIB),
    };
    FleetSetup {
        failures: read_failures(document, &fleet.boxes, setup),
        boxes: fleet.boxes,
        rule: BalancingRule::SpreadHash,
        load_percent_max: fleet.load_percent_max,
        tries: fleet.tries,
        replicas: fleet.replicas,
        has_agents: document.get_or("agents", &flag(), true),
        has_peers: document.get_or("peers", &flag(), true),
        origin,
        seed: 1,
    }
}

/// The boxes, and the balancer's settings: those of a description, or equal boxes.
fn read_boxes(document: &mut Document, sources: &FleetSources<'_>) -> Fleet {
    let count = document.get("boxes", &whole().between(1, BOXES_MAX));
    let Some(name) = document.get("description", &text()) else {
        if !document.is_written("boxes") && !document.is_written("description") {
            let remedy = "is missing; write how many there are, or the description of a fleet";
            document.wrong("boxes", remedy);
        }
        let boxes = 0..count.unwrap_or(1);
        return Fleet {
            boxes: boxes
                .map(|number| FleetBox::new(&format!("b{number}")))
                .collect(),
            ..Fleet::default()
        };
    };
    if document.is_written("boxes") {
        document.wrong(
            "boxes",
            format!("contradicts description; {name} has the boxes"),
        );
    }
    let described = (sources.description)(&name);
    let described = described
        .map_err(|why| document.wrong("description", why))
        .ok();
    let fleet = described.and_then(|text| {
        let read = Fleet::read(&name, &text);
        read.map_err(|mistakes| document.mistakes.extend(mistakes))
            .ok()
    });
    fleet.unwrap_or_default()
}

fn read_failures(
    document: &mut Document,
    boxes: &[FleetBox],
    setup: &WorldSetup,
) -> Vec<BoxFailure> {
    let end = setup.window.to + setup.ramp_down;
    let mut failures: Vec<BoxFailure> = Vec::new();
    for name in document.children("failure") {
        let key = |key: &str| format!("failure.{name}.{key}");
        let of_box = needed(document, &key("box"), "write the name of a box");
        let at = document.get_or(&key("at"), &time(), Duration::ZERO);
        let down = time().between(Duration::from_secs(1), LENGTH_MAX);
        let down = document.get_or(&key("down"), &down, Duration::from_secs(60));
        // Without boxes there is another mistake.
        let Some(of_box) = of_box.filter(|_| !boxes.is_empty()) else {
            continue;
        };
        let Some(number) = boxes.iter().position(|one| one.name == of_box) else {
            let first = &boxes[0].name;
            let text = format!("there is no box {of_box}; write one of the fleet, such as {first}");
            document.wrong(&key("box"), text);
            continue;
        };
        let (at, back) = (Instant::ZERO + at, Instant::ZERO + at + down);
        if at >= end {
            document.wrong(&key("at"), "is after the end of the run");
        }
        let mut others = failures.iter().filter(|other| other.of_box == number);
        if others.any(|other| at <= other.at + other.down && other.at <= back) {
            let text = format!("{of_box} is down already; let it return before it fails again");
            document.wrong(&key("at"), text);
        }
        failures.push(BoxFailure {
            of_box: number,
            at,
            down,
        });
    }
    failures
}

#[cfg(test)]
mod tests {
    use headlong_drive::preset;

    use super::*;

    const GOOD: &str = r#"
name = "two"
boxes = 2
disks = 3
drive = "wd-red-wd10efrx"
memory = "256MiB"
rate = "20MiB/s"
load_percent_max = 125

[server]
piece = "128KiB"

[workload]
preset = "youtube-sd"
set.title.sd.count = 50

[phases]
ramp_up = "100s"
measured = "200s"

[failure.first]
box = "b1"
at = "150s"
down = "30s"
"#;

    fn workload(name: &str, changes: &[(String, String)]) -> Result<Specification, Vec<String>> {
        let read = Specification::preset(name, changes);
        read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    fn read(toml: &str, changes: &[(&str, &str)]) -> Result<FleetExperiment, Mistakes> {
        let changes = changes.iter();
        let changes: Vec<_> = changes
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let sources = FleetSources {
            description: &|name| match name {
                "fleet.toml" => Ok("title = 1\ntries = 3\nload_percent_max = 200\n\
                    [box.one]\naddress = \"a:1\"\nadmin = \"a:2\"\n\
                    [box.two]\naddress = \"b:1\"\nadmin = \"b:2\"\nweight = 50\n"
                    .to_owned()),
                "bad.toml" => Ok("title = 1\n[box.one]\nweight = 0\n".to_owned()),
                name => Err(format!("{name}: no such file")),
            },
            drive: &|name| preset(name).map_err(|error| error.to_string()),
            workload: &workload,
        };
        FleetExperiment::read("file.toml", toml, &changes, &sources)
    }

    #[test]
    fn experiment_has_boxes_disks_and_failures() {
        let of = read(
            GOOD,
            &[("rate", "40MiB/s"), ("workload.set.title.sd.count", "60")],
        );
        let of = of.expect("right");
        let names: Vec<&str> = of.fleet.boxes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b0", "b1"]);
        assert_eq!((of.setup.disks, of.rate_mib_s), (3, 40.0));
        assert_eq!((of.fleet.load_percent_max, of.fleet.tries), (125, 2));
        let engine = &of.setup.engine;
        assert_eq!(
            (engine.memory_bytes, engine.piece_bytes),
            (256 * MIB, 128 << 10)
        );
        assert_eq!(of.workload.groups[0].count, 60);
        let second = |count| Instant::ZERO + Duration::from_secs(count);
        assert_eq!(
            (of.setup.window.from, of.setup.window.to),
            (second(100), second(300))
        );
        let failure = BoxFailure {
            of_box: 1,
            at: second(150),
            down: Duration::from_secs(30),
        };
        assert_eq!(of.fleet.failures, [failure]);
    }

    #[test]
    fn boxes_may_come_from_a_description() {
        let toml = GOOD.replace("boxes = 2", "description = \"fleet.toml\"");
        let toml = toml
            .replace("load_percent_max = 125\n", "")
            .replace("\"b1\"", "\"two\"");
        let of = read(&toml, &[]).expect("right");
        let boxes = of.fleet.boxes.iter();
        let boxes: Vec<_> = boxes.map(|one| (one.name.as_str(), one.weight)).collect();
        assert_eq!(boxes, [("one", 100), ("two", 50)]);
        assert_eq!((of.fleet.load_percent_max, of.fleet.tries), (200, 3));
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let toml = "boxes = 2000\ndisks = 0\ndrive = \"wd-rad\"\nload_percent_max = 90\n\
            racks = 3\n[workload]\npreset = \"youtube-sd\"\nset.title.sd.cout = 5\n\
            [server]\nprefech = \"1MiB\"\n[phases]\nmeasured = 5\n\
            [failure.x]\nbox = \"b7\"\nat = \"10d\"\n[failure.y]\ndown = \"0s\"\n";
        let mistakes = read(toml, &[("tries", "90")]).expect_err("wrong");
        let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        let told = told.join("\n");
        for part in [
            "file.toml:1: boxes",
            "file.toml:2: disks",
            "file.toml:3: drive",
            "file.toml:4: load_percent_max",
            "file.toml:5: racks",
            "cout",
            "did you mean `prefetch`",
            "file.toml:12: phases.measured",
            "there is no box b7",
            "failure.y.box",
            "failure.y.down",
            "rate: is missing",
            "--set tries",
        ] {
            assert!(told.contains(part), "{part} is missing in:\n{told}");
        }
    }

    #[test]
    fn mistakes_of_a_description_are_reported_with_others() {
        for (name, part) in [("bad.toml", "bad.toml:3"), ("none.toml", "no such file")] {
            let toml = GOOD.replace("boxes = 2", &format!("description = \"{name}\""));
            let toml = toml.replace("disks = 3", "disks = \"three\"");
            let told = read(&toml, &[]).expect_err("wrong").to_string();
            assert!(told.contains(part) && told.contains("disks"), "{told}");
        }
        let both = GOOD.replace("boxes = 2", "boxes = 2\ndescription = \"fleet.toml\"");
        let told = read(&both, &[]).expect_err("wrong").to_string();
        assert!(told.contains("contradicts description"), "{told}");
    }

    #[test]
    fn box_cannot_fail_while_it_is_down() {
        let again = "[failure.second]\nbox = \"b1\"\nat = \"170s\"\ndown = \"30s\"\n";
        let told = read(&format!("{GOOD}{again}"), &[])
            .expect_err("wrong")
            .to_string();
        assert!(told.contains("failure.second.at"), "{told}");
        let later = again.replace("170s", "190s");
        assert!(read(&format!("{GOOD}{later}"), &[]).is_ok());
    }
}
