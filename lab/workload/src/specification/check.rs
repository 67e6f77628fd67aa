//! Consistency checks across the values of a specification.

use alloc::format;

use headlong_settings::Document;
use headlong_units::{BitRate, Bytes, Duration};

use super::{
    ArrivalRate, RequestSize, SESSIONS_MAX, Specification, TITLES_MAX, TitleGroup, TraceExtent,
};
use crate::{Curve, TitleForm};

/// Longest title, in seconds: eleven days.
pub(super) const DURATION_SECONDS_MAX: f64 = 1e6;
/// Largest number of requests of a session.
const REQUESTS_MAX: f64 = 1e6;
/// Smallest request, chunk file and segment: a page.
pub(super) const BYTES_MIN: u64 = 4096;
/// Largest size of any kind.
pub(super) const BYTES_MAX: u64 = 1 << 40;
/// Largest number of renditions of a work, a limit of the players.
const RENDITIONS_MAX: usize = 64;

/// Reports all inconsistencies.
pub(super) fn check(specification: &Specification, table: &mut Document) {
    check_name(table, "name", &specification.name);
    for group in &specification.groups {
        check_name(table, &format!("title.{}.count", group.name), &group.name);
        check_group(specification, group, table);
    }
    for class in &specification.classes {
        check_name(table, &format!("network.{}.share", class.name), &class.name);
    }
    let groups = &specification.groups;
    let titles = groups
        .iter()
        .map(|group| u64::from(group.count) * u64::from(group.files_per_work()));
    let titles: u64 = titles.sum();
    let text = format!("{titles} titles in all, renditions included; write {TITLES_MAX} or fewer");
    table.wrong_if(titles > TITLES_MAX, "title", text);
    let text = match groups.is_empty() {
        true => "there are no titles; write a table like [title.sd] with their count",
        false => "every group has weight 0; give the one that is watched a weight",
    };
    table.wrong_if(
        groups.iter().all(|group| group.weight == 0.0),
        "title",
        text,
    );
    let text = "no class has a share; write share = 1 for one of them";
    let is_shared = specification.classes.iter().any(|class| class.share > 0.0);
    table.wrong_if(!is_shared, "network", text);
    if let TitleForm::Chunks(chunk) = specification.storage.form {
        let is_good = (BYTES_MIN..=BYTES_MAX).contains(&chunk);
        let text = "out of bounds; write 4KiB to 1TiB, or segment, or off";
        table.wrong_if(!is_good, "catalogue.chunk", text);
        let bytes = Bytes(chunk);
        let text = format!("{bytes} is not a multiple of 8 bytes, the size of a content word");
        table.wrong_if(is_good && chunk % 8 != 0, "catalogue.chunk", text);
    }
    check_sessions(specification, table);
    check_requests(specification, table);
}

/// Reports a name that cannot be a folder or a key.
pub(super) fn check_name(table: &mut Document, key: &str, name: &str) {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let is_good = name.bytes().all(is_letter) && (1..=64).contains(&name.len());
    let is_name = is_good && !name.bytes().all(|b| b.is_ascii_digit());
    let rule = "a name is 1 to 64 letters, digits, - and _, not digits alone";
    table.wrong_if(!is_name, key, format!("`{name}` is not a name; {rule}"));
}

fn check_group(specification: &Specification, group: &TitleGroup, table: &mut Document) {
    let key = |key: &str| format!("title.{}.{key}", group.name);
    let longest = group.durations.law.quantile(1.0);
    let text = format!("durations are seconds above 0 and up to {DURATION_SECONDS_MAX}");
    table.wrong_if(longest <= 0.0, &key("durations"), text);
    let curve = &group.durations;
    let is_fraction = longest <= 1.0 && Curve::named(&curve.name).is_some();
    let text = format!(
        "`{}` is a curve of shares, and durations are seconds; write one like 120s, points, or \
         youtube-2011-duration",
        curve.name
    );
    table.wrong_if(is_fraction, &key("durations"), text);
    if !check_renditions(specification, group, table) {
        return;
    }
    let is_cut = specification.storage.form.chunk_bytes().is_some();
    let text = "a table of offsets is at the start of a title's one file, or a file of its own; \
                write 0, or catalogue.chunk = \"off\" or \"segment\"";
    table.wrong_if(
        is_cut && group.table_entry_bytes > 0,
        &key("table_entry_bytes"),
        text,
    );
    let seconds = group.segment_time.as_secs_f64();
    if longest / seconds > REQUESTS_MAX {
        let text = "the longest title would have more than a million segments; make them longer";
        return table.wrong(&key("segment_time"), text);
    }
    let text = "titles whose segments differ in size cannot be cut into equal chunk files; write \
                0, or catalogue.chunk = \"off\" or \"segment\"";
    table.wrong_if(
        is_cut && group.segment_variation > 0.0,
        &key("segment_variation"),
        text,
    );
    for bytes in group.segment_sizes() {
        let title_bytes = longest / seconds * bytes as f64;
        let request_bytes = match specification.requests.size {
            RequestSize::Bytes(bytes) => bytes as f64,
            RequestSize::Time(time) => time.as_secs_f64() / seconds * bytes as f64,
        };
        let text = "the longest title has more than 1TiB";
        table.wrong_if(title_bytes > BYTES_MAX as f64, &key("durations"), text);
        if request_bytes < BYTES_MIN as f64 || request_bytes > BYTES_MAX as f64 {
            let text = format!("{request_bytes:.0} bytes in group {}", group.name);
            let remedy = "write 4KiB to 1TiB, or a time that makes as many";
            table.wrong("requests.size", format!("{text}; {remedy}"));
        } else if title_bytes / request_bytes > REQUESTS_MAX {
            let text = "the longest title would take more than a million requests; ask for more \
                        at a time";
            table.wrong("requests.size", text);
        }
    }
}

/// Checks a group's renditions, if it has any.
fn check_renditions(
    specification: &Specification,
    group: &TitleGroup,
    table: &mut Document,
) -> bool {
    let key = format!("title.{}.renditions", group.name);
    let renditions = &group.renditions;
    if renditions.is_empty() {
        // An empty list is a mistake.
        let sizes = format!("title.{}.segment_bytes", group.name);
        if table.is_written(&key) && !table.is_written(&sizes) {
            table.wrong_too(&key, "is empty; write bit rates, upwards, or remove it");
        }
        return true;
    }
    let sizes = group.segment_sizes();
    let rate = |bytes: u64| bit_rate(bytes, group.segment_time);
    let wrong = if renditions.len() > RENDITIONS_MAX {
        let count = renditions.len();
        format!("{count} renditions; write up to {RENDITIONS_MAX}")
    } else if let Some(pair) = renditions.windows(2).find(|pair| pair[0] >= pair[1]) {
        format!("{} is not above {}; write them upwards", pair[1], pair[0])
    } else if sizes
        .iter()
        .any(|bytes| !(BYTES_MIN..=BYTES_MAX).contains(bytes))
    {
        let text = format!(
            "a segment of {} has less than 4KiB or more than 1TiB",
            group.segment_time
        );
        format!("{text}; write other rates, or another segment_time")
    } else if sizes.windows(2).any(|pair| rate(pair[0]) >= rate(pair[1])) {
        "two are alike in whole bytes of a segment; write rates further apart".into()
    } else {
        let is_cut = specification.storage.form.chunk_bytes().is_some();
        let text = "titles with renditions are cut by segments, not by bytes; write \
                    catalogue.chunk = \"segment\" or \"off\"";
        table.wrong_if(is_cut, &key, text);
        return true;
    };
    table.wrong(&key, wrong);
    false
}

fn check_sessions(specification: &Specification, table: &mut Document) {
    let (sessions, requests) = (&specification.sessions, &specification.requests);
    if let (TraceExtent::Time(time), ArrivalRate::Sessions(rate)) = (sessions.extent, sessions.rate)
    {
        let is_long = rate * time.as_secs_f64() > SESSIONS_MAX as f64;
        let text =
            format!("more than {SESSIONS_MAX} sessions; write a shorter time or a lower rate");
        table.wrong_if(is_long, "sessions.length", text);
    }
    let is_paced = requests.pacing && !requests.open_ended;
    let text = "needs viewers whose requests follow playback; write 0s, or requests.pacing = true \
                and requests.open_ended = false";
    let resumes = sessions.resume_time > Duration::ZERO;
    table.wrong_if(resumes && !is_paced, "sessions.resume_time", text);
}

fn check_requests(specification: &Specification, table: &mut Document) {
    let (form, requests) = (specification.storage.form, &specification.requests);
    let text = "an open-ended request ends where its file does; write catalogue.chunk = \"off\"";
    table.wrong_if(
        requests.open_ended && form.is_split(),
        "requests.open_ended",
        text,
    );
    let text = "an open-ended request lasts as long as the title's download; write \
                requests.timeout = \"off\"";
    let is_timed = requests.open_ended && requests.timeout.is_some();
    table.wrong_if(is_timed, "requests.open_ended", text);
    let exceeds = specification.groups.iter().any(|group| {
        let largest = group.segment_sizes().into_iter().max().unwrap_or(0);
        let most = match form {
            TitleForm::Whole => u64::MAX,
            TitleForm::Chunks(bytes) => bytes,
            TitleForm::Segments => largest,
        };
        request_bytes(requests.size, group.segment_time, largest) > most
    });
    let text = "a request over several files uses one connection; write 1, or a request no larger \
                than catalogue.chunk says";
    table.wrong_if(
        requests.connections > 1 && exceeds,
        "requests.connections",
        text,
    );
}

/// Bit rate of segments of this size.
pub(crate) fn bit_rate(segment_bytes: u64, segment_time: Duration) -> BitRate {
    let bits = u128::from(segment_bytes) * 8 * 1_000_000_000;
    let time = u128::from(segment_time.0.max(1));
    BitRate(
        u64::try_from((bits + time / 2) / time)
            .unwrap_or(u64::MAX)
            .max(1),
    )
}

/// Bytes of a request in a title with segments of this size.
pub(crate) fn request_bytes(size: RequestSize, segment_time: Duration, segment_bytes: u64) -> u64 {
    match size {
        RequestSize::Bytes(bytes) => bytes,
        RequestSize::Time(time) => {
            let bytes =
                u128::from(segment_bytes) * u128::from(time.0) / u128::from(segment_time.0.max(1));
            u64::try_from(bytes).unwrap_or(u64::MAX)
        }
    }
}
