//! Reports on logs of a few lines.

use std::fmt::Write as _;

use headlong_characterise::Characterisation;
use headlong_trace::{CharacteriseSettings, Intake, SilentProgress, take_in};

const HEADER: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";

fn characterise_lines(lines: &str) -> Characterisation {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.csv");
    std::fs::write(&log, format!("{HEADER}{lines}")).expect("written");
    let intake = Intake {
        logs: vec![log],
        threads: 2,
        ..Intake::default()
    };
    let taken = take_in(&intake, &SilentProgress).expect("readable logs");
    let settings = CharacteriseSettings {
        rules: headlong_chains::ChainRules::default(),
        threads: 2,
        tables: None,
        title: String::new(),
        command: String::new(),
    };
    headlong_trace::characterise(&taken, &settings, |_| ()).expect("characterised")
}

#[test]
fn most_frequent_devices_are_listed_separately() {
    let mut lines = String::new();
    let mut session = 0;
    let mut push = |device: &str| {
        session += 1;
        writeln!(lines, "{session},100,{session},{device},1,0,1000,1000,1").expect("memory");
    };
    (0..70).for_each(|rare| push(&format!("A{rare:02}")));
    (0..1000).for_each(|_| push("windows"));
    (0..20).for_each(|_| push("phone"));
    let devices = characterise_lines(&lines).observed.devices;
    let sessions = |name: &str| {
        let of_name = devices.iter().find(|one| one.name == name);
        of_name.map(|one| one.sessions)
    };
    assert_eq!(sessions("windows"), Some(1000));
    assert_eq!(sessions("phone"), Some(20));
    assert_eq!((sessions("A00"), sessions("A69")), (Some(1), None));
    assert_eq!((devices.len(), sessions("others")), (64, Some(9)));
}

#[test]
fn fetching_each_segment_once_is_one_title() {
    let mut lines = String::new();
    for piece in 0..300 {
        let second = 100 + piece * 4;
        let name = format!("/film/720p/seg-{piece}.ts");
        writeln!(lines, "{second},500,1,tv,{name},0,,700000,1").expect("memory");
    }
    let told = characterise_lines(&lines);
    let figures: Vec<_> = told.figures().collect();
    let series = |figure: &str, series: &str| {
        let figure = figures
            .iter()
            .find(|one| one.id == figure)
            .expect("a figure");
        let all = figure.series.iter();
        let found: Vec<_> = all.filter(|one| one.name == series).collect();
        found[0].points.clone()
    };
    let fractions = series("figure-5.5", "combined");
    assert_eq!(fractions.last().map(|point| point[0]), Some(99.5));
    for (name, place) in [("start", 0.5), ("end", 99.5)] {
        let points = series("figure-5.7", name);
        let used: Vec<_> = points.iter().filter(|point| point[1] > 0.0).collect();
        assert_eq!(used, [&vec![place, 100.0]]);
    }
}
