//! The text form of an adaptive player's [`PlayerConfig`]: one word for each parameter.
//!
//! Specifications (`player.rule = "bola"`) and traces (`rule=bola`) share the spelling. Omitted
//! words have the values of [`PlayerConfig::default`].
//!
//! Invariant: [`words`] describes a make completely, and [`read`] restores it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_player::{
    PlanError, PlayerConfig, ProbeSettings, RateRule, RequestExtent, ThroughputEstimate,
};
use headlong_units::{Duration, nearest};

/// All words, in the order in which they are written.
pub(crate) const KEYS: [&str; 25] = [
    "rule",
    "rendition",
    "reservoir",
    "cushion",
    "low",
    "start_rendition",
    "start_buffer",
    "resume_buffer",
    "buffer_low",
    "buffer_high",
    "connections",
    "request_segments",
    "estimate",
    "estimate_fast",
    "estimate_slow",
    "estimate_samples",
    "safety",
    "probing",
    "probing_duplicate",
    "probing_after_pause",
    "probing_every",
    "timeout",
    "retries",
    "retry_after",
    "patience",
];

/// Largest number of concurrent calls of a player, in specifications and traces.
const CONNECTIONS_MAX: u64 = 255;
/// A pause of at least this length is followed by another transient phase (thesis 5.4.5).
const AFTER_PAUSE: Duration = Duration::from_secs(40);

/// Source of words, and receiver of errors.
pub(crate) trait WordSource {
    /// The value of a word, if it is present and readable.
    fn take(&mut self, key: &'static str) -> Option<String>;
    /// Reports an error.
    fn wrong(&mut self, key: &'static str, text: String);
    /// Whether the word was overridden from outside, by a caller that cannot remove the words that
    /// depend on the old value.
    fn is_changed(&self, _key: &'static str) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
enum RuleName {
    Fixed,
    Throughput,
    Buffer,
    Bola,
    Dynamic,
}

const RULES: [(&str, RuleName); 5] = [
    ("fixed", RuleName::Fixed),
    ("throughput", RuleName::Throughput),
    ("buffer", RuleName::Buffer),
    ("bola", RuleName::Bola),
    ("dynamic", RuleName::Dynamic),
];

const ESTIMATES: [(&str, bool); 2] = [("ewma", false), ("harmonic-mean", true)];
const TRUTHS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// Reads a make from a source. All errors are reported to the source.
pub(crate) fn read(source: &mut dyn WordSource) -> PlayerConfig {
    let base = PlayerConfig::default();
    let mut words = PlayerWords(source);
    let buffer_high = words.time("buffer_high").unwrap_or(base.buffer_high);
    // The same distance as in dash.js: one request for each segment.
    let buffer_low = buffer_high - (base.buffer_high - base.buffer_low);
    let make = PlayerConfig {
        start_buffer: words.time("start_buffer").unwrap_or(base.start_buffer),
        resume_buffer: words.time("resume_buffer").unwrap_or(base.resume_buffer),
        buffer_low: words.time("buffer_low").unwrap_or(buffer_low),
        buffer_high,
        connections: words
            .count("connections", 1, CONNECTIONS_MAX)
            .unwrap_or(base.connections),
        shape: words.shape().unwrap_or(base.shape),
        estimate: words.estimate(base.estimate),
        safety: words.safety().unwrap_or(base.safety),
        rule: words.rule(buffer_high),
        start_rendition: words
            .count("start_rendition", 0, u64::from(u32::MAX))
            .unwrap_or(base.start_rendition),
        probing: words.probing(),
        timeout: words.time_or_off("timeout").unwrap_or(base.timeout),
        retries: words
            .count("retries", 0, u64::from(u32::MAX))
            .unwrap_or(base.retries),
        retry_after: words.time("retry_after").unwrap_or(base.retry_after),
        patience: words.time_or_off("patience").unwrap_or(base.patience),
    };
    for error in make.check() {
        let key = match error {
            PlanError::ResumeBuffer => "resume_buffer",
            PlanError::Safety => "safety",
            PlanError::Samples(_) => "estimate_samples",
            _ => "start_buffer",
        };
        words.0.wrong(key, error.to_string());
    }
    make
}

struct PlayerWords<'a>(&'a mut dyn WordSource);

impl PlayerWords<'_> {
    fn value<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.0.take(key)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.0.wrong(key, reason);
                None
            }
        }
    }

    fn time(&mut self, key: &'static str) -> Option<Duration> {
        self.value(key, time)
    }

    fn time_or_off(&mut self, key: &'static str) -> Option<Option<Duration>> {
        self.value(key, |text| match text {
            "off" => Ok(None),
            text => time(text)
                .map(Some)
                .map_err(|reason| format!("{reason}, or off")),
        })
    }

    fn count(&mut self, key: &'static str, from: u64, to: u64) -> Option<u32> {
        self.value(key, |text| count(text, from, to))
    }

    fn one_of<T: Copy>(&mut self, key: &'static str, names: &[(&'static str, T)]) -> Option<T> {
        self.value(key, |text| {
            let found = names.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                let meant = nearest(text, all.iter().copied());
                let meant = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
                format!("`{text}` is unknown; write {}{meant}", all.join(" or "))
            })
        })
    }

    /// A word that is valid only with one value of the word `of`. If `of` was overridden from
    /// outside, the dependent word is ignored.
    fn only_with(&mut self, key: &'static str, of: &'static str, other: &str) {
        let is_passed = self.0.is_changed(of) && !self.0.is_changed(key);
        if self.0.take(key).is_some() && !is_passed {
            let text = format!("is valid only with {other}; remove it, or set that");
            self.0.wrong(key, text);
        }
    }

    fn shape(&mut self) -> Option<RequestExtent> {
        self.value("request_segments", |text| match text {
            "open-ended" => Ok(RequestExtent::OpenEnded),
            text => count(text, 1, u64::from(u32::MAX))
                .map(RequestExtent::Segments)
                .map_err(|reason| format!("{reason}, or open-ended")),
        })
    }

    fn estimate(&mut self, base: ThroughputEstimate) -> ThroughputEstimate {
        let is_harmonic = self.one_of("estimate", &ESTIMATES).unwrap_or(false);
        if is_harmonic {
            self.only_with("estimate_fast", "estimate", "estimate ewma");
            self.only_with("estimate_slow", "estimate", "estimate ewma");
            let samples = self.count("estimate_samples", 1, 20).unwrap_or(20);
            return ThroughputEstimate::HarmonicMean {
                samples: samples as u8,
            };
        }
        self.only_with("estimate_samples", "estimate", "estimate harmonic-mean");
        let (fast, slow) = match base {
            ThroughputEstimate::Ewma { fast, slow } => (fast, slow),
            ThroughputEstimate::HarmonicMean { .. } => {
                (Duration::from_secs(3), Duration::from_secs(8))
            }
        };
        ThroughputEstimate::Ewma {
            fast: self.time("estimate_fast").unwrap_or(fast),
            slow: self.time("estimate_slow").unwrap_or(slow),
        }
    }

    fn safety(&mut self) -> Option<f64> {
        self.value("safety", |text| {
            let share = text.parse().ok().filter(|share: &f64| share.is_finite());
            share.ok_or_else(|| format!("`{text}` is not a number; write a share like 0.9"))
        })
    }

    fn rule(&mut self, buffer_high: Duration) -> RateRule {
        let name = self.one_of("rule", &RULES).unwrap_or(RuleName::Dynamic);
        if !matches!(name, RuleName::Fixed) {
            self.only_with("rendition", "rule", "rule fixed");
        }
        if !matches!(name, RuleName::Buffer) {
            self.only_with("reservoir", "rule", "rule buffer");
            self.only_with("cushion", "rule", "rule buffer");
        }
        if !matches!(name, RuleName::Bola | RuleName::Dynamic) {
            self.only_with("low", "rule", "rule bola or dynamic");
        }
        let low = |words: &mut Self| words.time("low").unwrap_or(Duration::from_secs(10));
        match name {
            RuleName::Fixed => {
                RateRule::Fixed(self.count("rendition", 0, u64::from(u32::MAX)).unwrap_or(0))
            }
            RuleName::Throughput => RateRule::Throughput,
            // For a buffer of 240 s: 90 s, and 126 s above them (Huang et al. 2014, section 4).
            RuleName::Buffer => RateRule::Buffer {
                reservoir: self
                    .time("reservoir")
                    .unwrap_or(Duration(buffer_high.0 / 240 * 90)),
                cushion: self
                    .time("cushion")
                    .unwrap_or(Duration(buffer_high.0 / 240 * 126)),
            },
            RuleName::Bola => RateRule::Bola { low: low(self) },
            RuleName::Dynamic => RateRule::Dynamic { low: low(self) },
        }
    }

    fn probing(&mut self) -> Option<ProbeSettings> {
        let segments = self.value("probing", |text| match text {
            "off" => Ok(None),
            text => count(text, 1, u64::from(u32::MAX))
                .map(Some)
                .map_err(|reason| format!("{reason}, or off")),
        });
        let Some(segments) = segments.flatten() else {
            for key in ["probing_duplicate", "probing_after_pause", "probing_every"] {
                self.only_with(
                    key,
                    "probing",
                    "probing, the segments read of each rendition",
                );
            }
            return None;
        };
        Some(ProbeSettings {
            segments,
            duplicate: self.one_of("probing_duplicate", &TRUTHS).unwrap_or(false),
            after_pause: self.time("probing_after_pause").unwrap_or(AFTER_PAUSE),
            every: self.time_or_off("probing_every").unwrap_or(None),
        })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    text.parse()
        .map_err(|error: headlong_units::ParseError| error.to_string())
}

fn count(text: &str, from: u64, to: u64) -> Result<u32, String> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_digits.then(|| text.parse().ok()).flatten();
    let number = number.filter(|number| (from..=to).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("`{text}` is out of bounds; write {from} to {to}"))
}

/// All parameters of a make, as words.
pub(crate) fn words(make: &PlayerConfig) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    let mut say = |key: &'static str, value: String| words.push((key, value));
    let time = |time: Duration| time.to_string();
    let or_off = |time: Option<Duration>| time.map_or("off".to_owned(), |time| time.to_string());
    match make.rule {
        RateRule::Fixed(rendition) => {
            say("rule", "fixed".to_owned());
            say("rendition", rendition.to_string());
        }
        RateRule::Throughput => say("rule", "throughput".to_owned()),
        RateRule::Buffer { reservoir, cushion } => {
            say("rule", "buffer".to_owned());
            say("reservoir", time(reservoir));
            say("cushion", time(cushion));
        }
        RateRule::Bola { low } => {
            say("rule", "bola".to_owned());
            say("low", time(low));
        }
        RateRule::Dynamic { low } => {
            say("rule", "dynamic".to_owned());
            say("low", time(low));
        }
    }
    say("start_rendition", make.start_rendition.to_string());
    say("start_buffer", time(make.start_buffer));
    say("resume_buffer", time(make.resume_buffer));
    say("buffer_low", time(make.buffer_low));
    say("buffer_high", time(make.buffer_high));
    say("connections", make.connections.to_string());
    say(
        "request_segments",
        match make.shape {
            RequestExtent::Segments(most) => most.to_string(),
            RequestExtent::OpenEnded => "open-ended".to_owned(),
        },
    );
    match make.estimate {
        ThroughputEstimate::Ewma { fast, slow } => {
            say("estimate", "ewma".to_owned());
            say("estimate_fast", time(fast));
            say("estimate_slow", time(slow));
        }
        ThroughputEstimate::HarmonicMean { samples } => {
            say("estimate", "harmonic-mean".to_owned());
            say("estimate_samples", samples.to_string());
        }
    }
    say("safety", make.safety.to_string());
    match make.probing {
        None => say("probing", "off".to_owned()),
        Some(probing) => {
            say("probing", probing.segments.to_string());
            say("probing_duplicate", probing.duplicate.to_string());
            say("probing_after_pause", time(probing.after_pause));
            say("probing_every", or_off(probing.every));
        }
    }
    say("timeout", or_off(make.timeout));
    say("retries", make.retries.to_string());
    say("retry_after", time(make.retry_after));
    say("patience", or_off(make.patience));
    words
}
