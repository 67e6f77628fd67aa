//! The keys of an adaptive player's [`PlayerConfig`], which specifications and traces share.
//!
//! Omitted keys have the values of [`PlayerConfig::default`].
//!
//! Invariant: [`words`] describes a make completely, and [`read`] restores it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_player::{PlanError, PlayerConfig, RateRule, RequestExtent};
use headlong_settings::{Document, ValueKind, named, number, time, whole};
use headlong_units::Duration;

use crate::keys::KeyVisitor;

/// Largest number of concurrent calls of a player, in specifications and traces.
const CONNECTIONS_MAX: u32 = 255;
const RULES: [&str; 5] = ["fixed", "throughput", "buffer", "bola", "dynamic"];

/// Former keys, each with its remedy; traces of version 0.1.0 have some of them.
const FORMER: &[(&str, &str)] = &[
    ("estimate", "remove it, or generate the trace again"),
    (
        "estimate_samples",
        "remove it; a harmonic mean is not available",
    ),
    ("probing", NO_PROBING),
    ("probing_duplicate", NO_PROBING),
    ("probing_after_pause", NO_PROBING),
    ("probing_every", NO_PROBING),
];
const NO_PROBING: &str = "remove it, or generate the trace again; devices of workloads of phases \
                          try several files";

/// Reads the make below `prefix`. All errors are reported to the table.
pub(crate) fn read(table: &mut Document, prefix: &str) -> PlayerConfig {
    let mut make = PlayerConfig::default();
    // The same distance as in dash.js: one request for each segment.
    let distance = make.buffer_high - make.buffer_low;
    table.reject_former(prefix, FORMER);
    let mut keys = table.section(prefix);
    keys.key("buffer_high", time(), &mut make.buffer_high);
    make.buffer_low = make.buffer_high - distance;
    visit(&mut make, &mut table.section(prefix));
    for error in make.check() {
        let key = match error {
            PlanError::ResumeBuffer => "resume_buffer",
            PlanError::Safety => "safety",
            _ => "start_buffer",
        };
        table.wrong(&format!("{prefix}.{key}"), error.to_string());
    }
    make
}

/// All parameters of a make, as words.
pub(crate) fn words(make: &PlayerConfig) -> Vec<(String, String)> {
    let mut writer = WordWriter(Vec::new());
    visit(&mut make.clone(), &mut writer);
    writer.0
}

/// The names of all keys, whatever the rule is.
pub(crate) fn names() -> Vec<String> {
    let mut names = KeyNames(Vec::new());
    visit(&mut PlayerConfig::default(), &mut names);
    names.0
}

struct KeyNames(Vec<String>);

impl KeyVisitor for KeyNames {
    fn key<V: 'static>(&mut self, key: &str, _: ValueKind<V>, _: &mut V) {
        self.0.push(key.to_owned());
    }

    fn misplaced(&mut self, key: &str, _: &str, _: &str) {
        self.0.push(key.to_owned());
    }
}

/// Writes values as words.
struct WordWriter(Vec<(String, String)>);

impl KeyVisitor for WordWriter {
    fn key<V: 'static>(&mut self, key: &str, kind: ValueKind<V>, value: &mut V) {
        let word = kind.show(value).trim_matches('"').to_owned();
        self.0.push((key.to_owned(), word));
    }
}

/// All keys, in the order in which they are written.
fn visit(make: &mut PlayerConfig, keys: &mut impl KeyVisitor) {
    let or_off = || time().optional().or_word("off", None);
    visit_rule(make, keys);
    keys.key("start_rendition", whole(), &mut make.start_rendition);
    keys.key("start_buffer", time(), &mut make.start_buffer);
    keys.key("resume_buffer", time(), &mut make.resume_buffer);
    keys.key("buffer_low", time(), &mut make.buffer_low);
    keys.key("buffer_high", time(), &mut make.buffer_high);
    let connections = whole().between(1, CONNECTIONS_MAX);
    keys.key("connections", connections, &mut make.connections);
    let shape = whole()
        .at_least(1)
        .map(RequestExtent::Segments, |shape| match shape {
            RequestExtent::Segments(count) => *count,
            RequestExtent::OpenEnded => 1,
        });
    let shape = shape.or_word("open-ended", RequestExtent::OpenEnded);
    keys.key("request_segments", shape, &mut make.shape);
    keys.key("estimate_fast", time(), &mut make.estimate_fast);
    keys.key("estimate_slow", time(), &mut make.estimate_slow);
    keys.key("safety", number(), &mut make.safety);
    keys.key("timeout", or_off(), &mut make.timeout);
    keys.key("retries", whole(), &mut make.retries);
    keys.key("retry_after", time(), &mut make.retry_after);
    keys.key("patience", or_off(), &mut make.patience);
}

fn visit_rule(make: &mut PlayerConfig, keys: &mut impl KeyVisitor) {
    // For a buffer of 240 s: 90 s, and 126 s above them (Huang et al. 2014, section 4).
    let part = |seconds| Duration(make.buffer_high.0 / 240 * seconds);
    let (mut reservoir, mut cushion) = (part(90), part(126));
    let (mut rendition, mut low) = (0, Duration::from_secs(10));
    let mut name = match make.rule {
        RateRule::Fixed(fixed) => {
            rendition = fixed;
            "fixed"
        }
        RateRule::Throughput => "throughput",
        RateRule::Buffer {
            reservoir: to,
            cushion: above,
        } => {
            (reservoir, cushion) = (to, above);
            "buffer"
        }
        RateRule::Bola { low: level } => {
            low = level;
            "bola"
        }
        RateRule::Dynamic { low: level } => {
            low = level;
            "dynamic"
        }
    };
    keys.key("rule", named(&RULES, |name| name), &mut name);
    let fixed = (name == "fixed", "rule", "rule fixed");
    keys.key_with(fixed, "rendition", whole(), &mut rendition);
    let buffer = (name == "buffer", "rule", "rule buffer");
    keys.key_with(buffer, "reservoir", time(), &mut reservoir);
    keys.key_with(buffer, "cushion", time(), &mut cushion);
    let has_low = matches!(name, "bola" | "dynamic");
    keys.key_with(
        (has_low, "rule", "rule bola or dynamic"),
        "low",
        time(),
        &mut low,
    );
    make.rule = match name {
        "fixed" => RateRule::Fixed(rendition),
        "throughput" => RateRule::Throughput,
        "buffer" => RateRule::Buffer { reservoir, cushion },
        "bola" => RateRule::Bola { low },
        _ => RateRule::Dynamic { low },
    };
}
