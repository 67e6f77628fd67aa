use std::ops::Range;
use std::path::Path;

use headlong_chains::ChainRules;
use proptest::prelude::*;

use super::*;
use crate::shards::tests::{lines, merged, one_run, taken, text_of};
use crate::{DropReason, Intake, PartialSums};

/// The intake of a piece with this text, of a log with that.
fn intake(folder: &Path, piece: &str, log: &str) -> Intake {
    let path = folder.join("piece");
    std::fs::write(&path, piece).expect("written");
    Intake {
        logs: vec![path],
        head: Some(log.as_bytes().to_vec()),
        threads: 2,
        memory_bytes_max: 128 << 20,
        keep_unplaced: true,
        ..Intake::default()
    }
}

/// A text in pieces, and what the pieces were read to.
struct ReadPieces {
    folder: tempfile::TempDir,
    log: String,
    heads: Vec<Vec<u8>>,
    parts: Vec<(u32, Vec<u8>)>,
}

impl ReadPieces {
    /// Reads pieces of these numbers of lines, the last with the rest.
    fn of(log: &str, sizes: &[usize], shards: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut read = Self {
            log: log.to_owned(),
            heads: Vec::new(),
            parts: Vec::new(),
            folder,
        };
        let all: Vec<&str> = log.split_inclusive('\n').collect();
        let mut rest = &all[..];
        let sizes = sizes.iter().copied().chain([usize::MAX]);
        for (number, size) in (0..).zip(sizes) {
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            if !piece.is_empty() {
                read.piece(number, piece, shards);
            }
        }
        read
    }

    fn piece(&mut self, number: u32, lines: &[&str], shards: u32) {
        let settings = PieceSettings {
            number,
            lines: lines.len() as u64,
            shards,
        };
        let intake = Intake {
            name: Some(self.name()),
            ..intake(self.folder.path(), &lines.concat(), &self.log)
        };
        let piece = read_piece(&intake, settings).expect("readable");
        self.heads.push(piece.head);
        self.parts.extend(piece.shards);
    }

    /// The name of the log in one run.
    fn name(&self) -> String {
        self.folder
            .path()
            .join("requests.csv")
            .display()
            .to_string()
    }

    fn survey(&self) -> Result<LogSurvey, PiecesError> {
        // Heads arrive in any order.
        LogSurvey::of(&self.name(), self.heads.iter().rev().map(Vec::as_slice))
    }

    fn shard<'s>(
        &self,
        survey: &'s LogSurvey,
        intake: &'s Intake,
        number: u32,
    ) -> ShardRequests<'s> {
        let parts = self.parts.iter().rev().filter(|(of, _)| *of == number);
        let parts = parts.map(|(_, part)| part.as_slice());
        ShardRequests::of(survey, intake, number, parts).expect("a shard")
    }

    /// The report of all pieces.
    fn report(&self) -> Result<String, PiecesError> {
        let intake = intake(self.folder.path(), "", "");
        let survey = LogSurvey::from_bytes(&self.survey()?.to_bytes())?;
        let numbers = || 0..survey.shards();
        let usages: Vec<Vec<u8>> = numbers()
            .map(|number| self.shard(&survey, &intake, number).usage())
            .collect::<Result<_, _>>()?;
        let (plan, _) = survey.plan(&intake, usages.iter().map(Vec::as_slice))?;
        let plan = SumPlan::from_bytes(&plan.to_bytes())?;
        let rules = ChainRules::default();
        let sums = numbers().map(|number| self.shard(&survey, &intake, number).sums(&plan, rules));
        let sums: Vec<PartialSums> = sums.collect::<Result<_, _>>()?;
        Ok(merged(sums)?)
    }

    /// The report of one run.
    fn expected(&self) -> String {
        one_run(&taken(self.folder.path(), &self.log))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn pieces_give_the_report_of_one_run(
        lines in lines(400),
        sizes in prop::collection::vec(1_usize..200, 0..6),
        shards in 1_u32..9,
    ) {
        let read = ReadPieces::of(&text_of(&lines), &sizes, shards);
        prop_assert_eq!(read.report().expect("a report"), read.expected());
    }
}

/// Requests of one viewer each 10 s, each line of another device and agent, from one address.
fn crowd(numbers: Range<u64>) -> String {
    let line = |number| {
        format!(
            "{},500,10.0.0.1,agent-{},device-{},/t/film-{}.mp4,0,,{}\n",
            1_000_000 + number * 10_000,
            number % 90,
            number % 90,
            number % 7,
            1_000_000 + number,
        )
    };
    let header = "ts_ms,service_ms,address,agent,device,file,offset,size,bytes\n";
    header.to_owned() + &numbers.map(line).collect::<String>()
}

#[test]
fn crowded_address_and_many_devices_are_those_of_one_run() {
    let read = ReadPieces::of(&crowd(0..400), &[100, 150], 5);
    let report = read.report().expect("a report");
    assert!(report.contains("come from one address, 10.0.0.1, and count as 90 viewers"));
    assert_eq!(report, read.expected());
}

#[test]
fn dropped_lines_and_steps_of_the_clock_have_their_places_in_the_log() {
    let mut log = crowd(0..30);
    log += "not a line\n";
    log += crowd(0..30).split_once('\n').expect("a header").1;
    let read = ReadPieces::of(&log, &[20, 11, 2], 3);
    let survey = read.survey().expect("heads");
    let samples = &survey.dropped().by_reason()[1];
    assert_eq!(samples.reason, DropReason::Shape);
    assert_eq!(samples.samples[0].line, 32);
    let report = read.report().expect("a report");
    assert!(
        report.contains("1 times the clock of a log went back"),
        "{report}"
    );
    assert_eq!(report, read.expected());
}

#[test]
fn files_table_is_counted_once() {
    let read = ReadPieces::of(&crowd(0..60), &[20, 20], 2);
    let table = read.folder.path().join("files.csv");
    let rows = "file,title,kind,kbps,size\n/t/film-1.mp4,one,video,900,2000000\nodd,,,x\n\
                /t/none.mp4,none,video,1,1\n";
    std::fs::write(&table, rows).expect("written");
    let intake = Intake {
        files: Some(table),
        ..intake(read.folder.path(), "", "")
    };
    let survey = read.survey().expect("heads");
    let usages = (0..2).map(|number| read.shard(&survey, &intake, number).usage());
    let usages: Vec<Vec<u8>> = usages.collect::<Result<_, _>>().expect("usages");
    let planned = survey.plan(&intake, usages.iter().map(Vec::as_slice));
    let (_, log) = planned.expect("a plan");
    assert_eq!(log.dropped.count(), 1);
    assert_eq!(log.files.len(), 8);
    let sizes = log.files.iter().map(|file| file.size_bytes);
    assert!(sizes.into_iter().any(|size| size == 2_000_000));
}

fn told<T>(result: Result<T, PiecesError>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn lost_and_repeated_pieces_are_named() {
    let mut read = ReadPieces::of(&crowd(0..60), &[20, 20], 2);
    let part = read.parts.pop().expect("a part");
    let lost = told(read.report());
    assert!(
        lost.contains("of all shards are here, of 60 that the pieces have"),
        "{lost}"
    );
    read.parts.push(part.clone());
    read.parts.push(part);
    assert!(told(read.report()).contains("of all shards are here, of 60"));
    let survey = read.survey().expect("heads");
    let intake = intake(read.folder.path(), "", "");
    let usages: Vec<Vec<u8>> = Vec::new();
    assert!(told(survey.plan(&intake, usages.iter().map(Vec::as_slice))).contains("0 requests"));
    read.heads.push(read.heads[1].clone());
    assert!(told(read.survey()).contains("piece 1 is here twice"));
    read.heads.pop();
    // Piece 5, after five empty ones.
    read.heads
        .push(ReadPieces::of(&crowd(0..9), &[0; 5], 3).heads.remove(0));
    assert!(told(read.survey()).contains("for 2 and for 3 shards"));
    let cut = read.heads[0].len() - 1;
    read.heads = vec![read.heads[0][..cut].to_vec()];
    assert!(told(read.survey()).contains("is cut or damaged"));
}

#[test]
fn shard_with_missing_requests_is_not_summed() {
    let mut read = ReadPieces::of(&crowd(0..60), &[20, 20], 2);
    let survey = read.survey().expect("heads");
    let intake = intake(read.folder.path(), "", "");
    let usages = (0..2).map(|number| read.shard(&survey, &intake, number).usage());
    let usages: Vec<Vec<u8>> = usages.collect::<Result<_, _>>().expect("usages");
    let planned = survey.plan(&intake, usages.iter().map(Vec::as_slice));
    let (plan, _) = planned.expect("a plan");
    let (number, _) = read.parts.remove(0);
    let shard = read.shard(&survey, &intake, number);
    let error = told(shard.sums(&plan, ChainRules::default()));
    assert!(
        error.contains(&format!("of shard {number} are here")),
        "{error}"
    );
}

#[test]
fn line_that_changes_the_columns_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "#Fields: date time c-ip cs-uri-stem sc-status sc-bytes\n";
    let line = "2026-11-28 10:00:00 10.0.0.1 /film.mp4 200 1000\n";
    let changed = "#Fields: date time cs-uri-stem c-ip sc-status sc-bytes\n\
                   2026-11-28 10:00:00 /film.mp4 10.0.0.1 200 1000\n";
    let settings = PieceSettings {
        number: 3,
        lines: 2,
        shards: 2,
    };
    let read = |piece: &str| {
        let intake = Intake {
            name: Some("access.log".to_owned()),
            ..intake(folder.path(), piece, &format!("{head}{line}"))
        };
        read_piece(&intake, settings)
    };
    assert!(read(&format!("{head}{line}")).is_ok());
    let error = read(changed).expect_err("columns").to_string();
    assert!(
        error.starts_with("access.log, piece 3: a line changes the columns"),
        "{error}"
    );
}
