//! Valid settings of an experiment, and the messages for invalid ones.

use std::path::Path;

use super::*;

const SMALL: &str = r#"
name = "small"
time_scale = 5
[drive]
preset = "wd-red-wd10efrx"
[files]
catalogue = "youtube-sd"
[workload.sd]
preset = "youtube-sd"
[server.nginx]
kind = "nginx"
"#;

fn read(text: &str) -> Result<Experiment, Mistakes> {
    Experiment::from_text(Path::new("x.toml"), text, false)
}

#[test]
fn omitted_settings_have_defaults() {
    let experiment = read(SMALL).expect("right");
    assert_eq!(experiment.kernel.read_ahead_kb, 128);
    assert_eq!(experiment.phases.ramp_up, Duration::from_secs(300));
    assert_eq!(experiment.search.failures_max, 0.0);
    assert_eq!(experiment.memory, None);
    let cell = experiment.cell(None, None).expect("one of each");
    assert_eq!(cell.name(), "nginx, sd");
    assert_eq!(cell.rate_start(), 25.0 * 1_048_576.0);
    assert_eq!(cell.changes(), [("catalogue.chunk".into(), "off".into())]);
}

#[test]
fn accepts_proxy_in_front_of_server() {
    let with = |front: &str| read(&format!("{SMALL}front = \"{front}\"\n"));
    let front = |experiment: Experiment| experiment.cell(None, None).expect("one").server.front;
    assert_eq!(front(read(SMALL).expect("right")), None);
    assert_eq!(
        front(with("haproxy").expect("right")),
        Some(FrontProxy::HaProxy)
    );
    assert_eq!(
        front(with("nginx").expect("right")),
        Some(FrontProxy::Nginx)
    );
    let mistakes = with("squid").expect_err("unknown").to_string();
    assert!(
        mistakes.contains("server.nginx.front: `squid`"),
        "{mistakes}"
    );
}

#[test]
fn accepts_ssd_cache_for_other_servers_only() {
    let tier = "[flash]\npreset = \"ssd-sata-low-end\"\nsize = \"1GB\"\n";
    let with = |cache: &str, tier: &str| read(&format!("{SMALL}cache = {cache}\n{tier}"));
    let slices = "{ kind = \"nginx\", slice = \"1MiB\" }";
    let cell = with(slices, tier).expect("right").cell(None, None);
    let cell = cell.expect("one");
    let cache = cell.server.cache.expect("a cache");
    assert_eq!(
        (cache.kind, cache.slice_bytes),
        (CacheKind::Nginx, Some(1 << 20))
    );
    assert_eq!(
        cell.flash.and_then(|tier| tier.size_bytes),
        Some(1_000_000_000)
    );
    for (cache, tier, wrong) in [
        (slices, "", "server.nginx.cache"),
        (
            "{ kind = \"squid\" }",
            tier,
            "server.nginx.cache.kind: `squid`",
        ),
        ("{ slice = \"1MiB\" }", tier, "server.nginx.cache.kind"),
        (
            "{ kind = \"varnish\", slice = \"1MiB\" }",
            tier,
            "server.nginx.cache.slice",
        ),
        ("{ kind = \"varnish\" }\nfront = \"nginx\"", tier, "front"),
        (
            "{ kind = \"zfs\" }",
            tier,
            "x.toml:3: time_scale: must be 1",
        ),
        ("{ kind = \"zfs\" }\nmount = true", tier, "is a file system"),
    ] {
        let mistakes = with(cache, tier).expect_err("wrong").to_string();
        assert!(mistakes.contains(wrong), "{wrong} is not in {mistakes}");
    }
    let own = format!("{SMALL}{tier}[server.own]\nkind = \"headlong\"\ncache = {slices}\n");
    let mistakes = read(&own).expect_err("wrong").to_string();
    assert!(mistakes.contains("server.own.cache"), "{mistakes}");
}

#[test]
fn climb_determines_length_of_run() {
    let climb = "[climb]\nfill = \"100s\"\nfill_rate = \"5MiB/s\"\nfrom = \"10MiB/s\"\n\
                 step = \"50%\"\nstep_time = \"20s\"\nsteps = 3\n";
    let quick = "[quick.climb]\nsteps = 2\n";
    let text = format!("{SMALL}{climb}{quick}");
    let load = |is_quick| Experiment::from_text(Path::new("x.toml"), &text, is_quick);
    let phases = |is_quick| load(is_quick).expect("right").phases;
    assert_eq!(phases(false).ramp_up, Duration::from_secs(100));
    assert_eq!(phases(false).measured, Duration::from_secs(60));
    assert_eq!(phases(true).measured, Duration::from_secs(40));
    let climb = load(false).expect("right").climb.expect("climb is set");
    assert_eq!(climb.rate(2), 22.5 * 1_048_576.0);
    let own = "[server.slow]\nkind = \"nginx\"\nrate_start = { sd = \"4MiB/s\" }\n";
    let with_own = read(&format!("{text}{own}")).expect("right");
    let first = |server| {
        let cell = with_own
            .cell(Some(server), Some("sd"))
            .expect("climb is set");
        with_own.first_rate(&cell) / 1_048_576.0
    };
    assert_eq!((first("nginx"), first("slow")), (10.0, 4.0));
    let filled = climb.starting_at(first("slow") * 1_048_576.0).stretches()[0].0;
    assert_eq!(filled, 2.0 * 1_048_576.0, "two fifths, like the first step");
    let both = format!("{text}[phases]\nramp_up = \"5s\"\n");
    let mistakes = read(&both).expect_err("wrong").to_string();
    assert!(mistakes.contains("phases"), "{mistakes}");
    let none = read(&format!("{SMALL}{quick}"))
        .expect_err("wrong")
        .to_string();
    assert!(none.contains("quick.climb"), "{none}");
}

#[test]
fn flash_tier_is_default_for_headlong_only() {
    let tier = "[flash]\npreset = \"ssd-sata-low-end\"\nsize = \"100GB\"\nwarm = true\n\
                policy = \"lru\"\nwrite_per_day = \"30GB\"\n";
    let servers = "[server.with]\nkind = \"headlong\"\n\
                   [server.without]\nkind = \"headlong\"\nflash = false\n";
    let experiment = read(&format!("{SMALL}{servers}{tier}")).expect("right");
    let flash = |server| experiment.cell(Some(server), None).expect("one").flash;
    let with = flash("with").expect("a tier");
    assert_eq!(with.size_bytes, Some(100_000_000_000));
    assert_eq!((with.is_warm, with.policy), (true, Some("lru")));
    assert_eq!(with.write_per_day_bytes, Some(30_000_000_000));
    assert_eq!((flash("without"), flash("nginx")), (None, None));
    let missing = crate::rig::missing(&experiment, &experiment.cells()).join("; ");
    assert!(missing.contains("headlong simulate"), "{missing}");
}

#[test]
fn reports_all_mistakes_of_flash_tier() {
    let wrong = "flash = true\n[flash]\npreset = \"wd-red-wd10efrx\"\npolicy = \"fifo\"\n";
    let mistakes = read(&format!("{SMALL}{wrong}"))
        .expect_err("wrong")
        .to_string();
    for part in [
        "server.nginx.flash",
        "flash.preset",
        "is not an SSD",
        "flash.policy",
    ] {
        assert!(mistakes.contains(part), "{part} is missing in {mistakes}");
    }
    let large = "[flash]\npreset = \"ssd-sata-low-end\"\nsize = \"1TB\"\n";
    let mistakes = read(&format!("{SMALL}{large}"))
        .expect_err("wrong")
        .to_string();
    assert!(mistakes.contains("flash.size: is more than"), "{mistakes}");
    let none = SMALL.replace("kind = \"nginx\"", "kind = \"headlong\"\nflash = true");
    let mistakes = read(&none).expect_err("wrong").to_string();
    assert!(mistakes.contains("needs a table [flash]"), "{mistakes}");
}

#[test]
fn accepts_preload_and_mount_for_other_servers_only() {
    let cell = |text: &str| read(text).map(|e| e.cell(None, None).expect("one"));
    assert!(!cell(SMALL).expect("right").server.preload);
    let preloaded = cell(&format!("{SMALL}preload = true\n")).expect("right");
    assert!(preloaded.server.preload);
    let headlong = SMALL.replace("kind = \"nginx\"", "kind = \"headlong\"\npreload = true");
    let mistakes = cell(&headlong).expect_err("wrong").to_string();
    assert!(mistakes.contains("server.nginx.preload"), "{mistakes}");
    let mounted = cell(&format!("{SMALL}mount = true\n")).expect("right");
    assert!(mounted.server.mount);
    let reader = format!("{SMALL}mount = true\nreader = {{ page_cache = false }}\n");
    let reader = cell(&reader).expect("right").server.reader;
    assert_eq!(reader, "page_cache = false\n");
    for (by, key) in [("preload", "page_cache"), ("mount", "keep_open")] {
        let text = format!("{SMALL}{by} = true\nreader.{key} = \"1s\"\n");
        let mistakes = cell(&text).expect_err("the other's key").to_string();
        assert!(
            mistakes.contains(&format!("server.nginx.reader.{key}")),
            "{mistakes}"
        );
    }
    let mistakes = cell(&format!("{SMALL}reader.memory = \"1GiB\"\n")).expect_err("wrong");
    assert!(
        mistakes.to_string().contains("preload or mount"),
        "{mistakes}"
    );
    for wrong in [
        SMALL.replace("kind = \"nginx\"", "kind = \"headlong\"\nmount = true"),
        format!("{SMALL}mount = true\npreload = true\n"),
    ] {
        let mistakes = cell(&wrong).expect_err("wrong").to_string();
        assert!(mistakes.contains("server.nginx.mount"), "{mistakes}");
    }
}

#[test]
fn quality_is_judged_only_if_configured() {
    let plain = read(SMALL).expect("right");
    assert_eq!(plain.search.quality, QualityRules::default());
    let text = format!("{SMALL}[search]\nstalled = \"1%\"\nbit_rate = \"2500kbps\"\n");
    let quality = read(&text).expect("right").search.quality;
    assert_eq!(quality.stalled_max, Some(0.01));
    let told = serde_json::json!(quality);
    assert_eq!(told["bit_rate_min"], "2500kbps");
    let text = format!("{SMALL}[search]\nbit_rate = \"2GiB\"\n");
    let mistakes = read(&text).expect_err("no rate").to_string();
    assert!(
        mistakes.contains("search.bit_rate: `2GiB` has an unknown unit"),
        "{mistakes}"
    );
}

#[test]
fn server_and_workload_override_experiment() {
    let text = format!(
        "{SMALL}rate_start = {{ sd = \"30MiB/s\" }}\nkernel.read_ahead_kb = 512\n\
         [workload.hd]\npreset = \"youtube-hd\"\nchunk = \"512KiB\"\nset.requests.timeout = \"5s\"\n"
    );
    let experiment = read(&text).expect("right");
    let error = experiment.cell(None, None).expect_err("two workloads");
    assert!(error.contains("choose with --workload: hd, sd"), "{error}");
    let cell = experiment.cell(None, Some("hd")).expect("there");
    assert_eq!(cell.kernel.read_ahead_kb, 512);
    assert_eq!(cell.files.form, TitleForm::Chunks(512 << 10));
    assert!(
        cell.changes()
            .contains(&("requests.timeout".into(), "5s".into()))
    );
    let cell = experiment.cell(Some("nginx"), Some("sd")).expect("there");
    assert_eq!(cell.rate_start(), 30.0 * 1_048_576.0);
    let error = experiment
        .cell(Some("ngnix"), None)
        .expect_err("none of that name");
    assert!(error.contains("did you mean `nginx`?"), "{error}");
    // The chunked file set first, then the other: drives are not swapped back and forth.
    let names: Vec<_> = experiment
        .cells()
        .iter()
        .map(ExperimentCell::name)
        .collect();
    assert_eq!(names, ["nginx, hd", "nginx, sd"]);
}

/// The text of the page on experiments from `start` to `end`.
fn from_manual(start: &str, end: &str) -> &'static str {
    let page = include_str!("../../../../docs/lab/bench.md");
    let (_, rest) = page.split_once(start).expect("on the page");
    rest.split_once(end).expect("ends").0
}

#[test]
fn forms_that_the_manual_shows_are_accepted() {
    let rate = from_manual("`rate_start = {", "}`");
    let name = from_manual("`[baseline.", "]`");
    let text = format!(
        "{SMALL}rate_start = {{{rate}}}\n[server.headlong]\nkind = \"headlong\"\n\
         [baseline.{name}]\nservers = [\"nginx\"]\nsubject = \"headlong\"\nat_least = {{ sd = 2.0 }}\n"
    );
    let experiment = read(&text).expect("right");
    let cell = experiment.cell(Some("nginx"), None).expect("there");
    assert_eq!(cell.rate_start(), 70.0 * 1_048_576.0);
    let names: Vec<_> = experiment
        .baselines
        .iter()
        .map(|baseline| &*baseline.name)
        .collect();
    assert_eq!(names, ["nginx by default"]);
}

#[test]
fn quick_table_is_checked_even_if_unused() {
    let text =
        format!("{SMALL}[quick]\ntime_scale = 10\nmeasured = \"100s\"\nresolution = \"8%\"\n");
    let quick = Experiment::from_text(Path::new("x.toml"), &text, true).expect("right");
    assert_eq!((quick.time_scale, quick.search.resolution), (10, 0.08));
    assert_eq!(quick.phases.measured, Duration::from_secs(100));
    assert_eq!(read(&text).expect("right").time_scale, 5);
    let error = read(&format!("{SMALL}[quick]\ntime_scale = 0\n")).expect_err("no scale");
    assert!(
        error
            .to_string()
            .contains("quick.time_scale: `0` is out of range"),
        "{error}"
    );
}

#[test]
fn rejects_workload_with_other_titles() {
    let file = Path::new("x.toml");
    let good = read(SMALL).expect("right");
    good.check_workloads(file).expect("the same titles");
    let other = SMALL.replace("preset = \"youtube-sd\"", "preset = \"youtube-2011\"");
    let error = read(&other)
        .expect("well formed")
        .check_workloads(file)
        .expect_err("others");
    assert!(
        error.to_string().contains("asks for other titles"),
        "{error}"
    );
    let large = SMALL.replace("[files]", "size = \"10GB\"\n[files]");
    let error = read(&large)
        .expect("well formed")
        .check_workloads(file)
        .expect_err("too many");
    assert!(error.to_string().contains("set fewer titles"), "{error}");
    let wrong = format!("{SMALL}[files.set]\ntitle.sd.cuont = 3\n");
    let error = read(&wrong)
        .expect("well formed")
        .check_workloads(file)
        .expect_err("a slip");
    assert!(error.to_string().contains("title.sd.count"), "{error}");
}

#[test]
fn reports_specification_mistakes_with_others() {
    let text = SMALL.replace(
        "preset = \"youtube-sd\"",
        "preset = \"youtube-sd\"\nset.sessions.nonsense = 4",
    );
    let text = format!("nmae = \"x\"\n{text}[files.set]\ntitle.sd.cuont = 3\n");
    let error = read(&text).expect_err("three slips").to_string();
    for slip in ["nmae", "sessions.nonsense", "title.sd.count"] {
        assert!(error.contains(slip), "{slip}: {error}");
    }
}

#[test]
fn rejects_several_drives_if_server_ignores_links() {
    let with = |drive: &str, server: &str| {
        read(&format!(
            "{SMALL}{server}[workload.two]\npreset = \"youtube-sd\"\n{drive}"
        ))
    };
    let two = "drive = { count = 2 }\n";
    let experiment = with(two, "").expect("right");
    let count = |name: &str| experiment.workloads[name].drive.drives();
    assert_eq!((count("sd"), count("two")), (1, 2));
    for (drive, server, wrong) in [
        (
            two,
            "mount = true\n",
            "workload.two.drive.count: cannot be with [server.nginx]",
        ),
        (
            two,
            "[server.own]\nkind = \"headlong\"\n",
            "with [server.own]",
        ),
        ("drive = { count = 0 }\n", "", "workload.two.drive.count"),
    ] {
        let mistakes = with(drive, server).expect_err("wrong").to_string();
        assert!(mistakes.contains(wrong), "{mistakes}");
    }
}

/// `UPDATE=1 cargo test -p headlong-bench` rewrites the golden file.
#[test]
fn reports_all_mistakes_with_line_and_remedy() {
    let cases = [
        ("nothing", ""),
        ("not TOML", "name = \"x\"\n[drive\n"),
        (
            "misspelt names",
            "name = \"x\"\ntimescale = 5\n[drive]\npreset = \"wd-read\"\n[files]\ncatalog = \"a\"\n\
             [workload.sd]\npreset = \"youtube-ds\"\n[server.a]\nkind = \"ngnix\"\n\
             [server.b]\nkind = \"nginx\"\naio = \"thread\"\nkernel.sheduler = \"bfq\"\n",
        ),
        (
            "values that do not fit",
            "name = 3\ntime_scale = 0.5\nrepeats = 0\nmemory = \"4GIB\"\ndrive = 3\n\
             [search]\nfailures = 0.3\nresolution = \"0.1%\"\nstep = \"0.05%\"\n\
             [phases]\nmeasured = \"0s\"\n[kernel]\nscheduler = \"cfq\"\nread_ahead_kb = -1\n",
        ),
        (
            "servers that cannot be set up",
            "name = \"x\"\n[server.a]\nkind = \"command\"\ncommand = [\"caddy\"]\n\
             [server.b]\nkind = \"headlong\"\nconfig = { polcy = \"fixed\", piece = \"3KiB\" }\n\
             [server.c]\nkind = \"nginx\"\noutput_buffers = { number = 2 }\nmmap = true\n[server.d]\n",
        ),
        (
            "names of nothing",
            "name = \"x\"\n[workload.sd]\npreset = \"youtube-sd\"\n[server.nginx]\nkind = \"nginx\"\n\
             rate_start = { hd = \"20MiB/s\", sd = \"20\" }\n\
             [compare.servers]\nsdd = [\"nginx\"]\nsd = [\"nginxx\"]\n\
             [baseline.best]\nservers = [\"apache\"]\nat_least = { hd = 2 }\n",
        ),
    ];
    let mut shown = String::new();
    for (name, text) in cases {
        let error = read(text).expect_err(name);
        shown += &format!("== {name}\n{text}--\n{error}\n\n");
    }
    crate::golden_tests::compare("mistakes.txt", &shown);
}

#[test]
fn request_size_is_limited_by_kernel_and_drive() {
    let limit = |request_bytes_max, max_sectors_kb| {
        let drive = ExperimentDrive {
            request_bytes_max,
            ..ExperimentDrive::default()
        };
        let kernel = BlockQueueSettings {
            max_sectors_kb,
            ..BlockQueueSettings::default()
        };
        kernel.limited_by(&drive).max_sectors_kb
    };
    assert_eq!(limit(None, None), None);
    assert_eq!(limit(Some(512 * 1024), None), Some(512));
    assert_eq!(limit(Some(4096 * 1024), Some(1280)), Some(1280));
}
