//! `headlong fleet plan`: where each title of a fleet lives, and what has to be copied.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use headlong_engine::SteadyState;
use headlong_fleet::{
    DiskId, Fleet, Plan, PlanChanges, PlanDemand, PlanTitle, TitleRule, plan as place,
};
use headlong_units::{BitRate, ByteRate, Bytes};

/// Arguments of the command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// Description of the fleet in TOML, with the disks of each box
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Titles: a file of lines PATH,BYTES, or a folder
    #[arg(long, value_name = "PATH")]
    library: PathBuf,
    /// How much files are watched: lines PATH,WEIGHT, such as requests or bytes of a log
    #[arg(long, value_name = "FILE")]
    heat: Option<PathBuf>,
    /// What all viewers read together, such as 900MiB/s; a title that is too much for a disk gets
    /// more copies
    #[arg(long, value_name = "RATE", requires = "heat")]
    demand: Option<ByteRate>,
    /// Bit rate of the titles, such as 8Mbps
    #[arg(
        long,
        value_name = "RATE",
        default_value = "4Mbps",
        requires = "demand"
    )]
    bit_rate: BitRate,
    /// Parts of a title that equally many viewers read from its beginning on, such as
    /// 10%,30%,60%,100%
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "100%",
        value_parser = percent,
        value_delimiter = ',',
        requires = "demand"
    )]
    watched: Vec<f64>,
    /// Plan without this box, or without one of its disks; may be repeated
    #[arg(long, value_name = "BOX[:DISK]")]
    without: Vec<String>,
    /// Where titles are now: a file written by --write
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,
    /// Write where titles live then, one line TITLE<tab>BOX:DISK,BOX:DISK each
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write lists of the files to copy, and for each box a script with rsync, to this folder
    #[arg(long, value_name = "FOLDER")]
    copies: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A share of 1, from per cent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let percent = number
        .ok()
        .filter(|percent| (1.0..=100.0).contains(percent));
    let percent = percent.ok_or("write a number from 1% to 100%")?;
    Ok(percent / 100.0)
}

/// A file of the library, and the number of its title.
struct LibraryFile {
    path: String,
    title: usize,
}

/// The titles of a library.
struct Titles {
    titles: Vec<PlanTitle>,
    files: Vec<LibraryFile>,
}

/// Executes the command.
pub(crate) fn plan(args: &PlanArgs) -> anyhow::Result<()> {
    let source = args.file.display().to_string();
    let fleet = Fleet::read(&source, &read(&args.file)?)?;
    let all = fleet.disks(&[]);
    if all.is_empty() {
        bail!("{source}: no box has disks; write [box.NAME.disk.DISK] with bytes, rate and root");
    }
    for lost in &args.without {
        let is_known = |disk: &headlong_fleet::PlanDisk| {
            disk.id.of_box == *lost || disk.id.to_string() == *lost
        };
        if !all.iter().any(is_known) {
            bail!("--without {lost}: {source} has no such box or disk; write BOX or BOX:DISK");
        }
    }
    let heat = args.heat.as_deref().map(read_heat).transpose()?;
    let library = read_library(&args.library, fleet.title, heat.as_ref())?;
    let demand = PlanDemand {
        replicas: fleet.replicas,
        bytes_per_s: args.demand.map_or(0.0, |rate| rate.0 as f64),
        bit_rate: args.bit_rate,
        watched: args.watched.clone(),
    };
    let planned = place(fleet.disks(&args.without), &library.titles, &demand);
    let previous = match &args.previous {
        Some(file) => Some(read_places(file)?),
        None if args.without.is_empty() => None,
        // What the loss changes.
        None => Some(places(&place(all, &library.titles, &demand), &library)),
    };
    let changes = previous.map(|previous| {
        let now = |name: &str| previous.get(name).map_or(&[][..], Vec::as_slice);
        planned.changes(&library.titles, now)
    });
    if let Some(file) = &args.write {
        write(file, &places_text(&places(&planned, &library)))?;
    }
    if let (Some(folder), Some(changes)) = (&args.copies, &changes) {
        write_copies(folder, &fleet, &planned, &library, changes)?;
    }
    let engine = headlong_config::Config::default().engine;
    let work = planned.expected_work(&library.titles, &demand, &engine);
    let text = match args.json {
        true => json(&planned, &work, &library, changes.as_ref()),
        false => text(&planned, &work, &library, changes.as_ref()),
    };
    headlong_survey::print(&text)?;
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file)
        .map_err(|error| anyhow!("{}: {error}; name a readable text file", file.display()))
}

pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text)
        .map_err(|error| anyhow!("{}: {error}; name a writable place", file.display()))
}

/// Lines `PATH,NUMBER`; a path may have commas.
fn read_pairs<N: std::str::FromStr>(file: &Path) -> anyhow::Result<Vec<(String, N)>> {
    let text = read(file)?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| {
            let pair = line.rsplit_once(',');
            let pair = pair.and_then(|(path, number)| {
                let path = path.trim_start_matches("./").trim_start_matches('/');
                Some((path.to_owned(), number.trim().parse().ok()?))
            });
            pair.with_context(|| {
                let (file, line) = (file.display(), index + 1);
                format!("{file}:{line}: not a line PATH,NUMBER; correct it, or comment it out by #")
            })
        })
        .collect()
}

fn read_heat(file: &Path) -> anyhow::Result<HashMap<String, f64>> {
    let mut heat = HashMap::new();
    for (path, weight) in read_pairs::<f64>(file)? {
        if !(0.0..=f64::MAX).contains(&weight) {
            bail!(
                "{}: {path}: {weight} is no weight; write one of 0 or more",
                file.display()
            );
        }
        *heat.entry(path).or_insert(0.0) += weight;
    }
    Ok(heat)
}

/// Reads a listing or lists a folder, and groups its files into titles.
fn read_library(
    path: &Path,
    rule: TitleRule,
    heat: Option<&HashMap<String, f64>>,
) -> anyhow::Result<Titles> {
    let mut files = match path.is_dir() {
        true => {
            let mut files = Vec::new();
            list(path, path, &mut files)?;
            files
        }
        false => read_pairs::<u64>(path)?,
    };
    files.sort_unstable();
    let mut library = Titles {
        titles: Vec::new(),
        files: Vec::with_capacity(files.len()),
    };
    let mut numbers: HashMap<String, usize> = HashMap::with_capacity(files.len());
    for (path, bytes) in files {
        let name = rule.of(&path);
        let title = match numbers.get(name) {
            Some(title) => *title,
            None => {
                numbers.insert(name.to_owned(), library.titles.len());
                library.titles.push(PlanTitle {
                    name: name.to_owned(),
                    bytes: 0,
                    heat: 0.0,
                });
                library.titles.len() - 1
            }
        };
        let of = &mut library.titles[title];
        of.bytes = of.bytes.saturating_add(bytes);
        of.heat += heat.map_or(0.0, |heat| heat.get(&path).copied().unwrap_or(0.0));
        library.files.push(LibraryFile { path, title });
    }
    Ok(library)
}

fn list(top: &Path, folder: &Path, files: &mut Vec<(String, u64)>) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| anyhow!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            list(top, &entry.path(), files)?;
        } else if kind.is_file() {
            let path = entry.path();
            let below = path.strip_prefix(top).unwrap_or(&path);
            let Some(below) = below.to_str().filter(|name| !name.contains('\n')) else {
                bail!(
                    "{}: a name that is not UTF-8, or with a line break; rename it",
                    path.display()
                );
            };
            files.push((below.to_owned(), entry.metadata().map_err(failed)?.len()));
        }
    }
    Ok(())
}

/// The places of each title by its name.
pub(crate) type Places = BTreeMap<String, Vec<DiskId>>;

fn places(plan: &Plan, library: &Titles) -> Places {
    let names = library.titles.iter().map(|title| title.name.clone());
    let ids = plan.places.iter().map(|disks| {
        let ids = disks.iter().map(|disk| plan.disks[*disk].id.clone());
        ids.collect()
    });
    names.zip(ids).collect()
}

fn places_text(places: &Places) -> String {
    let mut text = String::new();
    for (name, disks) in places {
        let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{name}\t{}", disks.join(","));
    }
    text
}

pub(crate) fn read_places(file: &Path) -> anyhow::Result<Places> {
    let text = read(file)?;
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            let place = line.rsplit_once('\t').and_then(|(name, disks)| {
                let disks = disks.split(',').filter(|disk| !disk.is_empty());
                let disks: Option<Vec<DiskId>> = disks.map(DiskId::read).collect();
                Some((name.to_owned(), disks?))
            });
            place.with_context(|| {
                let (file, line) = (file.display(), index + 1);
                format!("{file}:{line}: not a line TITLE<tab>BOX:DISK; name a file of --write")
            })
        })
        .collect()
}

/// Writes a list of files for each pair of disks, and for each box that receives files a script.
fn write_copies(
    folder: &Path,
    fleet: &Fleet,
    plan: &Plan,
    library: &Titles,
    changes: &PlanChanges,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| anyhow!("{}: {error}; name a writable place", folder.display()))?;
    let mut of_title: Vec<Vec<&str>> = vec![Vec::new(); library.titles.len()];
    for file in &library.files {
        of_title[file.title].push(&file.path);
    }
    let mut lists: BTreeMap<(usize, Option<&DiskId>), String> = BTreeMap::new();
    for copy in &changes.copies {
        let list = lists.entry((copy.to, copy.from.as_ref())).or_default();
        for path in &of_title[copy.title] {
            // rsync takes a line that begins with # or ; for a comment.
            let _ = writeln!(list, "./{path}");
        }
    }
    let mut scripts: BTreeMap<&str, String> = BTreeMap::new();
    for ((to, from), list) in &lists {
        let to = &plan.disks[*to];
        let script = scripts.entry(&to.id.of_box).or_insert_with(|| {
            "#!/bin/sh\n# Copies what this box lacks. BWLIMIT is in KiB/s for each rsync.\n\
             set -e\ncd \"$(dirname \"$0\")\"\n"
                .to_owned()
        });
        let source = from.map_or_else(
            || "ORIGIN".to_owned(),
            |id| format!("{}.{}", id.of_box, id.disk),
        );
        let name = format!("{}.{}.from.{source}.txt", to.id.of_box, to.id.disk);
        write(&folder.join(&name), list)?;
        let host_and_root = from.and_then(|id| {
            let of = fleet.boxes.iter().find(|one| one.name == id.of_box)?;
            let disk = of.disks.iter().find(|disk| disk.name == id.disk)?;
            let (host, _) = of.address.rsplit_once(':')?;
            Some(format!("{host}:{}/", disk.root))
        });
        // Without a copy left, the operator names the place of the originals.
        let source = host_and_root.unwrap_or_else(|| {
            "\"${ORIGIN:?name the place of the originals, such as host:/srv/}\"".to_owned()
        });
        let _ = writeln!(
            script,
            "rsync -a --bwlimit=\"${{BWLIMIT:-5000}}\" --files-from={name} {source} {}/",
            to.root
        );
    }
    for (name, script) in scripts {
        write(&folder.join(format!("{name}.sh")), &script)?;
    }
    Ok(())
}

/// Sums of the changes: copies and their bytes, those without a source, and surplus copies.
fn sums(library: &Titles, changes: &PlanChanges) -> (usize, u64, usize, usize) {
    let bytes = changes.copies.iter();
    let bytes = bytes.map(|copy| library.titles[copy.title].bytes).sum();
    let lost = changes.copies.iter().filter(|copy| copy.from.is_none());
    (
        changes.copies.len(),
        bytes,
        lost.count(),
        changes.surplus.len(),
    )
}

fn text(
    plan: &Plan,
    work: &[SteadyState],
    library: &Titles,
    changes: Option<&PlanChanges>,
) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<24} {:>9} {:>10} {:>6} {:>11} {:>7} {:>6}",
        "disk", "titles", "bytes", "full", "load", "memory", "busy"
    );
    for ((disk, load), work) in plan.disks.iter().zip(&plan.loads).zip(work) {
        let _ = writeln!(
            text,
            "{:<24} {:>9} {:>10} {:>5.1}% {:>6.1}MiB/s {:>6.1}% {:>5.1}%",
            disk.id.to_string(),
            load.titles,
            Bytes(load.bytes).rounded().to_string(),
            100.0 * load.bytes as f64 / disk.bytes as f64,
            load.bytes_per_s / 1_048_576.0,
            100.0 * work.hit_ratio,
            100.0 * work.busy,
        );
    }
    if !plan.short.is_empty() {
        let _ = writeln!(
            text,
            "{} of {} titles have fewer copies than wanted: the disks are full, or there are too few boxes",
            plan.short.len(),
            library.titles.len()
        );
    }
    if let Some(changes) = changes {
        let (copies, bytes, lost, surplus) = sums(library, changes);
        let _ = writeln!(
            text,
            "to copy: {copies} titles, {}; {lost} of them have no copy left and come from the \
             originals; {surplus} copies are not needed afterwards",
            Bytes(bytes).rounded()
        );
    }
    text
}

fn json(
    plan: &Plan,
    work: &[SteadyState],
    library: &Titles,
    changes: Option<&PlanChanges>,
) -> String {
    let disks = plan.disks.iter().zip(&plan.loads).zip(work);
    let disks = disks.map(|((disk, load), work)| {
        serde_json::json!({
            "disk": disk.id.to_string(),
            "zone": disk.zone,
            "titles": load.titles,
            "bytes": load.bytes,
            "capacity_bytes": disk.bytes,
            "load_bytes_per_s": load.bytes_per_s,
            "hit_ratio": work.hit_ratio,
            "read_bytes_per_s": work.read_bytes_per_s,
            "prefetch_bytes": work.prefetch_bytes,
            "busy": work.busy,
        })
    });
    let changes = changes.map(|changes| {
        let (copies, bytes, lost, surplus) = sums(library, changes);
        serde_json::json!({
            "copies": copies,
            "bytes": bytes,
            "copies_without_source": lost,
            "surplus_copies": surplus,
        })
    });
    let document = serde_json::json!({
        "titles": library.titles.len(),
        "short_titles": plan.short.len(),
        "disks": disks.collect::<Vec<_>>(),
        "changes": changes,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_a_comment_in_the_lists_of_rsync() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("library/a")).expect("made");
        for name in ["#1.mp4", ";2.mp4", "a/3.mp4"] {
            std::fs::write(at("library").join(name), "x").expect("written");
        }
        let fleet = "title = \"file\"\n[box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.0.1:81\"\n\
            [box.a.disk.d]\nbytes = \"1TB\"\nrate = \"100MiB/s\"\nroot = \"/srv\"\n";
        std::fs::write(at("fleet.toml"), fleet).expect("written");
        std::fs::write(at("places"), "").expect("written");
        let args = PlanArgs {
            file: at("fleet.toml"),
            library: at("library"),
            heat: None,
            demand: None,
            bit_rate: BitRate(4_000_000),
            watched: vec![1.0],
            without: Vec::new(),
            previous: Some(at("places")),
            write: None,
            copies: Some(at("copies")),
            json: false,
        };
        plan(&args).expect("a plan");
        let list = std::fs::read_to_string(at("copies/a.d.from.ORIGIN.txt")).expect("a list");
        let mut lines: Vec<&str> = list.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["./#1.mp4", "./;2.mp4", "./a/3.mp4"]);
    }
}
