//! Consistency checks across the values of a specification.

use alloc::format;

use headlong_settings::Document;
use headlong_units::{BitRate, Bytes, Duration};

use super::{
    ArrivalRate, RequestSize, SESSIONS_MAX, Specification, TITLES_MAX, TitleGroup, TraceExtent,
};
use crate::TitleForm;

/// Longest title, in seconds: eleven days.
const DURATION_SECONDS_MAX: f64 = 1e6;
/// Largest number of requests of a session.
const REQUESTS_MAX: f64 = 1e6;
/// Smallest request, chunk file and segment: a page.
const BYTES_MIN: u64 = 4096;
/// Largest size of any kind.
const BYTES_MAX: u64 = 1 << 40;
/// Largest number of renditions of a work, a limit of the players.
const RENDITIONS_MAX: usize = 64;

/// Reports all inconsistencies.
pub(super) fn check(specification: &Specification, table: &mut Document) {
    check_names(specification, table);
    for group in &specification.groups {
        check_group(specification, group, table);
    }
    let titles: u64 = specification
        .groups
        .iter()
        .map(|group| u64::from(group.count) * u64::from(group.files_per_work()))
        .sum();
    if titles > TITLES_MAX {
        table.wrong(
            "title",
            format!("{titles} titles in all, renditions included; write {TITLES_MAX} or fewer"),
        );
    }
    let weights: f64 = specification.groups.iter().map(|group| group.weight).sum();
    if specification.groups.is_empty() {
        table.wrong(
            "title",
            "there are no titles; write a table like [title.sd] with their count",
        );
    } else if weights <= 0.0 {
        table.wrong(
            "title",
            "every group has weight 0; give the one that is watched a weight",
        );
    }
    if specification
        .classes
        .iter()
        .any(|class| class.share.is_nan() || class.share < 0.0)
        || specification.classes.iter().all(|class| class.share == 0.0)
    {
        table.wrong(
            "network",
            "no class has a share; write share = 1 for one of them",
        );
    }
    check_storage(specification, table);
    check_sessions(specification, table);
    check_viewing(specification, table);
}

pub(super) fn is_name(name: &str) -> bool {
    let letters = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    letters && !name.is_empty() && name.len() <= 64 && !name.bytes().all(|b| b.is_ascii_digit())
}

pub(super) const NAME_RULE: &str = "a name is 1 to 64 letters, digits, - and _, not digits alone";

fn check_names(specification: &Specification, table: &mut Document) {
    let rule = NAME_RULE;
    if !is_name(&specification.name) {
        table.wrong(
            "name",
            format!("`{}` is not a name; {rule}", specification.name),
        );
    }
    for group in &specification.groups {
        if !is_name(&group.name) {
            let key = format!("title.{}.count", group.name);
            table.wrong(&key, format!("`{}` is not a name; {rule}", group.name));
        }
    }
    for class in &specification.classes {
        if !is_name(&class.name) {
            let key = format!("network.{}.share", class.name);
            table.wrong(&key, format!("`{}` is not a name; {rule}", class.name));
        }
    }
}

fn check_group(specification: &Specification, group: &TitleGroup, table: &mut Document) {
    let key = |key: &str| format!("title.{}.{key}", group.name);
    if group.count == 0 {
        table.wrong(&key("count"), "is 0; write at least 1, or remove the group");
    }
    let points = group.durations.law.points();
    let longest = points.last().map_or(0.0, |point| point.0);
    if points.iter().any(|point| point.0 < 0.0) || longest <= 0.0 || longest > DURATION_SECONDS_MAX
    {
        let text = format!("durations are seconds above 0 and up to {DURATION_SECONDS_MAX}");
        table.wrong(&key("durations"), text);
    }
    if group.segment_time < Duration::from_millis(1)
        || group.segment_time > Duration::from_secs(86_400)
    {
        table.wrong(&key("segment_time"), "out of bounds; write 1ms to 24h");
        return;
    }
    if !check_renditions(specification, group, table) {
        return;
    }
    if group
        .segment_bytes
        .iter()
        .any(|(bytes, _)| !(BYTES_MIN..=BYTES_MAX).contains(bytes))
    {
        table.wrong(&key("segment_bytes"), "out of bounds; write 4KiB to 1TiB");
        return;
    }
    let chunk_bytes = specification.storage.form.chunk_bytes();
    if group.table_entry_bytes > 0 && chunk_bytes.is_some() {
        let text = "a table of offsets is at the start of a title's one file, or a file of its \
                    own; write 0, or catalogue.chunk = \"off\" or \"segment\"";
        table.wrong(&key("table_entry_bytes"), text);
    }
    if longest / group.segment_time.as_secs_f64() > REQUESTS_MAX {
        let text = "the longest title would have more than a million segments; make them longer";
        table.wrong(&key("segment_time"), text);
        return;
    }
    if group.segment_variation > 0.0 && chunk_bytes.is_some() {
        let text = "titles whose segments differ in size cannot be cut into equal chunk files; write 0, or catalogue.chunk = \"off\" or \"segment\"";
        table.wrong(&key("segment_variation"), text);
    }
    for bytes in group.segment_sizes() {
        let seconds = group.segment_time.as_secs_f64();
        let title_bytes = longest / seconds * bytes as f64;
        let request_bytes = match specification.requests.size {
            RequestSize::Bytes(bytes) => bytes as f64,
            RequestSize::Time(time) => time.as_secs_f64() / seconds * bytes as f64,
        };
        if title_bytes > BYTES_MAX as f64 {
            table.wrong(&key("durations"), "the longest title has more than 1TiB");
        }
        if request_bytes < BYTES_MIN as f64 || request_bytes > BYTES_MAX as f64 {
            let text = format!(
                "{request_bytes:.0} bytes in group {}; write 4KiB to 1TiB, or a time that makes as many",
                group.name
            );
            table.wrong("requests.size", text);
        } else if title_bytes / request_bytes > REQUESTS_MAX {
            table.wrong(
                "requests.size",
                "the longest title would take more than a million requests; ask for more at a time",
            );
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
    if group.renditions.is_empty() {
        // An empty list is a mistake.
        if table.is_written(&key) && !table.mistakes.is_about(&key) {
            let sizes = format!("title.{}.segment_bytes", group.name);
            if !table.is_written(&sizes) {
                table.wrong(&key, "is empty; write bit rates, upwards, or remove it");
            }
        }
        return true;
    }
    if group.renditions.len() > RENDITIONS_MAX {
        let count = group.renditions.len();
        table.wrong(
            &key,
            format!("{count} renditions; write up to {RENDITIONS_MAX}"),
        );
        return false;
    }
    if let Some(pair) = group.renditions.windows(2).find(|pair| pair[0] >= pair[1]) {
        let text = format!("{} is not above {}; write them upwards", pair[1], pair[0]);
        table.wrong(&key, text);
        return false;
    }
    let sizes = group.segment_sizes();
    if sizes
        .iter()
        .any(|bytes| !(BYTES_MIN..=BYTES_MAX).contains(bytes))
    {
        let time = group.segment_time;
        let text = format!(
            "a segment of {time} has less than 4KiB or more than 1TiB; write other rates, or another segment_time"
        );
        table.wrong(&key, text);
        return false;
    }
    let rate = |bytes: u64| bit_rate(bytes, group.segment_time);
    if sizes.windows(2).any(|pair| rate(pair[0]) >= rate(pair[1])) {
        table.wrong(
            &key,
            "two are alike in whole bytes of a segment; write rates further apart",
        );
        return false;
    }
    if specification.storage.form.chunk_bytes().is_some() {
        let text = "titles with renditions are cut by segments, not by bytes; write \
                    catalogue.chunk = \"segment\" or \"off\"";
        table.wrong(&key, text);
    }
    true
}

fn check_storage(specification: &Specification, table: &mut Document) {
    let storage = &specification.storage;
    if let TitleForm::Chunks(chunk) = storage.form {
        if !(BYTES_MIN..=BYTES_MAX).contains(&chunk) {
            table.wrong(
                "catalogue.chunk",
                "out of bounds; write 4KiB to 1TiB, or segment, or off",
            );
        } else if chunk % 8 != 0 {
            table.wrong(
                "catalogue.chunk",
                format!(
                    "{} is not a multiple of 8 bytes, the size of a content word",
                    Bytes(chunk)
                ),
            );
        }
    }
    if !(1..=BYTES_MAX).contains(&storage.pad_bytes) {
        table.wrong("catalogue.pad", "out of bounds; write 1B to 1TiB");
    }
}

fn check_sessions(specification: &Specification, table: &mut Document) {
    let sessions = &specification.sessions;
    match sessions.extent {
        TraceExtent::Sessions(0) => {
            table.wrong("sessions.count", "is 0; write how many sessions there are")
        }
        TraceExtent::Time(Duration::ZERO) => table.wrong(
            "sessions.length",
            "is 0; write how long sessions arrive, like 15min",
        ),
        TraceExtent::Time(time) => {
            if let ArrivalRate::Sessions(rate) = sessions.rate
                && rate * time.as_secs_f64() > SESSIONS_MAX as f64
            {
                let text = format!(
                    "more than {SESSIONS_MAX} sessions; write a shorter time or a lower rate"
                );
                table.wrong("sessions.length", text);
            }
        }
        TraceExtent::Sessions(_) => {}
    }
    let requests = &specification.requests;
    if sessions.resume_time > Duration::ZERO && (requests.open_ended || !requests.pacing) {
        let text = "needs viewers whose requests follow playback; write 0s, or \
                    requests.pacing = true and requests.open_ended = false";
        table.wrong("sessions.resume_time", text);
    }
    if specification.requests.connections == 0 {
        table.wrong("requests.connections", "is 0; write 1 or more");
    }
}

fn check_viewing(specification: &Specification, table: &mut Document) {
    let viewing = &specification.viewing;
    let outside =
        |points: &[(f64, f64)], max| points.iter().any(|point| !(0.0..=max).contains(&point.0));
    if outside(viewing.fraction.law.points(), 1.0) {
        table.wrong("viewing.fraction", "a fraction lies between 0 and 1");
    }
    if outside(viewing.pause_time.law.points(), DURATION_SECONDS_MAX) {
        table.wrong("viewing.pause_time", "pauses are seconds, not negative");
    }
    check_open_ended(specification, table);
    let (form, size) = (specification.storage.form, specification.requests.size);
    let exceeds = specification.groups.iter().any(|group| {
        let largest = group.segment_sizes().into_iter().max().unwrap_or(0);
        let most = match form {
            TitleForm::Whole => u64::MAX,
            TitleForm::Chunks(bytes) => bytes,
            TitleForm::Segments => largest,
        };
        request_bytes(size, group.segment_time, largest) > most
    });
    if specification.requests.connections > 1 && exceeds {
        table.wrong("requests.connections", "a request over several files uses one connection; write 1, or a request no larger than catalogue.chunk says");
    }
}

fn check_open_ended(specification: &Specification, table: &mut Document) {
    let requests = &specification.requests;
    if !requests.open_ended {
        return;
    }
    if specification.storage.form.is_split() {
        let text =
            "an open-ended request ends where its file does; write catalogue.chunk = \"off\"";
        table.wrong("requests.open_ended", text);
    }
    if requests.timeout.is_some() {
        let text = "an open-ended request lasts as long as the title's download; write \
                    requests.timeout = \"off\"";
        table.wrong("requests.open_ended", text);
    }
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
