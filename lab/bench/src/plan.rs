//! Dry run: the commands and settings of an experiment, to review before a long run.

use std::fmt::Write as _;
use std::path::Path;

use crate::command_lines::{SSD_POINT, generate_words, load_words, stretches};
use crate::experiment::{Experiment, ExperimentCell};
use crate::rig::{DiskSetup, LINKED, RunningDisk, SsdSetup, SsdUse, missing};
use crate::search_driver::{run_guess, runs_guess};
use crate::servers::{self, CacheSpace, PoolDevices, ServerEnvironment, pool_launch};

/// Placeholder for the bench's working folder, whose name is not known in advance.
const FOLDER: &str = "RUN";
const MIB: f64 = 1_048_576.0;

/// Commands and files of these cells, and the estimated duration; `searches` tells whether each is
/// a search or a single run.
pub fn plan(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    searches: bool,
    headlong: &Path,
    store: &Path,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "# {}: {}", experiment.name, experiment.about);
    for lack in missing(experiment, cells) {
        let _ = writeln!(text, "# missing on this machine: {lack}");
    }
    let run_s = experiment.phases.whole().as_secs_f64() / f64::from(experiment.time_scale);
    let runs = match searches {
        true => runs_guess(experiment) * cells.len() as f64 * f64::from(experiment.repeats),
        false => cells.len() as f64,
    };
    let minutes = runs * run_guess(experiment).as_secs_f64() / 60.0;
    let _ = writeln!(
        text,
        "# about {runs:.0} runs of {run_s:.0} s, {minutes:.0} min; plus filling a drive, once"
    );
    let mut there = None;
    for cell in cells {
        let wanted = Some((&cell.workload.drive, &cell.files));
        if there != wanted {
            there = wanted;
            disks(&mut text, experiment, cell, headlong, store);
        }
        one(&mut text, experiment, cell, headlong);
    }
    text
}

fn disks(
    text: &mut String,
    experiment: &Experiment,
    cell: &ExperimentCell,
    headlong: &Path,
    store: &Path,
) {
    let folder = Path::new(FOLDER);
    let drives = cell.workload.drive.drives();
    for number in 0..drives {
        disk(text, experiment, cell, headlong, (store, number));
    }
    if drives > 1 {
        let root = folder.join(LINKED);
        let _ = writeln!(
            text,
            "# in {}: a link for each file to one of the {drives} drives",
            root.display()
        );
    }
}

fn disk(
    text: &mut String,
    experiment: &Experiment,
    cell: &ExperimentCell,
    headlong: &Path,
    (store, number): (&Path, u32),
) {
    let folder = Path::new(FOLDER);
    let setup = DiskSetup {
        headlong,
        drive: &cell.workload.drive,
        files: &cell.files,
        store_root: store,
        time_scale: experiment.time_scale,
        number,
    };
    let place = store.join(setup.named("NAME", ""));
    let (point, socket) = setup.places(folder);
    let words = setup.words(&place, &point, &socket);
    let fill = RunningDisk::fill_command(headlong, &cell.files, &point);
    if let Some(device) = &cell.workload.drive.device {
        let _ = writeln!(
            text,
            "\n# if {device} does not have these titles: mkfs.{}\n$ {}",
            cell.files.file_system,
            fill.join(" ")
        );
        return;
    }
    let _ = writeln!(text, "\n$ {}", words.join(" "));
    if cell.files.is_pool() {
        let pool = PoolDevices {
            device: "/dev/loopM".into(),
            ssd: None,
        };
        let make = pool_launch(&pool, &folder.join("new-pool"), None, true);
        let _ = writeln!(text, "$ {}", make.line());
    }
    let _ = writeln!(text, "$ {}", fill.join(" "));
}

fn one(text: &mut String, experiment: &Experiment, cell: &ExperimentCell, headlong: &Path) {
    let folder = Path::new(FOLDER);
    let trace = folder.join("trace");
    let kernel = &cell.kernel;
    let _ = writeln!(
        text,
        "\n# {}: from {:.1} MiB/s; scheduler {}, max_sectors_kb {}, read_ahead_kb {}; memory {}",
        cell.name(),
        experiment.first_rate(cell) / MIB,
        kernel.scheduler,
        kernel
            .max_sectors_kb
            .map_or("the most".to_owned(), |kb| kb.to_string()),
        kernel.read_ahead_kb,
        experiment
            .memory
            .map_or("unlimited".to_owned(), |bytes| headlong_units::Bytes(bytes)
                .to_string()),
    );
    let (rate, seed) = (experiment.first_rate(cell), experiment.seed);
    for (number, stretch) in (0..).zip(stretches(experiment, rate)) {
        let words = generate_words(headlong, cell, stretch, seed + number, &trace);
        let _ = writeln!(text, "$ {}", words.join(" "));
    }
    // The device number is not known in advance.
    let ssd = Path::new("/dev/loopN");
    // The usable size of its file system is not known either.
    let size = cell.flash.as_ref().and_then(|tier| tier.size_bytes);
    let space = CacheSpace {
        folder: folder.join(SSD_POINT),
        bytes: size.unwrap_or(0),
    };
    if let Some(tier) = &cell.flash {
        let piece = cell.server.kind.piece();
        let setup = SsdSetup {
            headlong,
            tier,
            holds: SsdUse::of(
                cell.server.cache,
                piece.as_deref(),
                &space.folder,
                experiment.memory,
            ),
            time_scale: experiment.time_scale,
        };
        let start = setup.words(&folder.join("ssd.sock")).join(" ");
        let _ = writeln!(text, "$ {start}");
        if let Some(format) = setup.format_words(ssd) {
            let _ = writeln!(text, "$ {}", format.join(" "));
        }
    }
    let place = ServerEnvironment {
        pool: cell.files.is_pool().then(|| PoolDevices {
            device: "/dev/loopM".into(),
            ssd: Some(ssd.to_path_buf()),
        }),
        cache: cell.server.cache.map(|cache| (cache, space)),
        ..ServerEnvironment::of(
            experiment,
            cell,
            headlong,
            (folder.join("titles"), folder.join("server")),
            Some(ssd),
        )
    };
    for launch in servers::launches(&cell.server.kind, &place).all() {
        for (path, file) in &launch.files {
            let _ = writeln!(text, "-- {}\n{}", path.display(), file.trim_end());
        }
        let _ = writeln!(text, "$ {}", launch.line());
    }
    let words = load_words(
        experiment,
        headlong,
        &trace,
        &folder.join("load.json"),
        true,
    );
    let _ = writeln!(text, "$ {}", words.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_lists_commands_and_settings() {
        let text = "name = \"x\"\nmemory = \"1GiB\"\ntime_scale = 4\n[drive]\npreset = \"wd-red-wd10efrx\"\n\
                    [files]\ncatalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                    [server.a]\nkind = \"nginx\"\nkernel.read_ahead_kb = 2048\n";
        let experiment = Experiment::from_text(Path::new("x.toml"), text, false).expect("right");
        let (headlong, store) = (Path::new("headlong"), Path::new("STORE"));
        let plan = plan(&experiment, &experiment.cells(), true, headlong, store);
        for part in [
            "disk emulate wd-red-wd10efrx --time-scale 4",
            "workload fill RUN/titles --spec youtube-sd --set catalogue.chunk=off",
            "workload generate youtube-sd --rate 26214400B/s --duration 660000ms --seed 1",
            "read_ahead_kb 2048; memory 1GiB",
            "nginx -c RUN/server/nginx.conf",
            "load RUN/trace http://127.0.0.1:8080 --time-scale 4 --ramp-up 300000ms",
            "--stop-at-failure",
        ] {
            assert!(plan.contains(part), "{part}\n{plan}");
        }
    }

    #[test]
    fn checks_only_programs_of_selected_servers() {
        let text = "name = \"x\"\nmemory = \"1GiB\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n\
                    [files]\ncatalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                    [server.own]\nkind = \"headlong\"\n\
                    [server.other]\nkind = \"command\"\ncommand = [\"absent-program\", \"{port}\", \"{root}\"]\n";
        let experiment = Experiment::from_text(Path::new("x.toml"), text, false).expect("right");
        let lacks = |server| {
            let cell = experiment
                .cell(Some(server), None)
                .expect("the server exists");
            missing(&experiment, &[cell]).join("; ")
        };
        assert!(lacks("other").contains("the program absent-program"));
        assert!(!lacks("own").contains("absent-program"));
    }
}
