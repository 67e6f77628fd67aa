//! Formats of `/metrics`: OpenMetrics 1.0.0 and Prometheus text 0.0.4.
//!
//! The `Accept` field selects the format. Clients that name neither (curl, browsers, agents older
//! than 2020) get 0.0.4, which all scrapers support and browsers display. Both have the same
//! series; only the metadata differs. Exemplars are only in OpenMetrics: 0.0.4 does not support
//! them.

use http::HeaderMap;
use http::header::ACCEPT;

use super::exemplars::{self, Exemplars};

/// A format of `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposition {
    /// OpenMetrics, as written by the encoder.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
}

impl Exposition {
    /// The format that a request selects.
    pub(super) fn negotiate(headers: &HeaderMap) -> Self {
        let fields = headers.get_all(ACCEPT).iter();
        let fields = fields.filter_map(|field| field.to_str().ok());
        let (mut open, mut text) = (0, 0);
        for range in fields.flat_map(|field| field.split(',')) {
            let (media, weight) = media_and_weight(range);
            if media.eq_ignore_ascii_case("application/openmetrics-text") {
                open = open.max(weight);
            } else if media.eq_ignore_ascii_case("text/plain") {
                text = text.max(weight);
            }
        }
        if open > 0 && open >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Media type of the format.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts an OpenMetrics text into this format.
    pub(super) fn write(self, open_metrics: String, exemplars: &[Exemplars]) -> String {
        match self {
            Self::OpenMetrics => exemplars::add(open_metrics, exemplars),
            Self::Text => to_text(&open_metrics),
        }
    }
}

/// Splits a media range into its type and its weight in thousandths. A version is ignored: there is
/// only one of each format.
fn media_and_weight(range: &str) -> (&str, u32) {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value)
    });
    let weight = weight.map_or(Some(1.0), |value| value.trim().parse::<f64>().ok());
    // An invalid weight counts as zero, as if the range were absent.
    let weight = weight.filter(|weight| (0.0..=1.0).contains(weight));
    (media, (weight.unwrap_or(0.0) * 1000.0) as u32)
}

/// Declares counters with `_total`, and infos as gauges with `_info`; drops `UNIT` and `EOF`.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // HELP precedes TYPE, but its name depends on the type.
    let mut help = None;
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(name), words) => help = Some((name, words.unwrap_or_default())),
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                    text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
                }
                text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            // `UNIT` and `EOF`.
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &[&'static str]) -> Exposition {
        let mut headers = HeaderMap::new();
        for field in accept {
            headers.append(ACCEPT, http::HeaderValue::from_static(field));
        }
        Exposition::negotiate(&headers)
    }

    #[test]
    fn accept_field_selects_format_with_text_as_default() {
        // Prometheus 2.42.
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [
            &[prometheus][..],
            &["text/plain; q=0.2", "Application/OpenMetrics-Text"],
            &["text/plain;q=0.5, application/openmetrics-text;q=0.5"],
        ] {
            assert_eq!(negotiate(accept), Exposition::OpenMetrics, "{accept:?}");
        }
        for accept in [
            &[][..],
            &["*/*"],
            &["text/html,application/xhtml+xml,*/*;q=0.8"],
            &["text/plain;version=0.0.4"],
            &["text/plain;version=0.0.4;q=1,*/*;q=0.1"],
            &["application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=0.3,text/plain"],
            &["application/openmetrics-text;q=much"],
        ] {
            assert_eq!(negotiate(accept), Exposition::Text, "{accept:?}");
        }
    }

    #[test]
    fn text_format_declares_names_of_series() {
        let open_metrics = "# HELP a_bytes Bytes of a.\n# TYPE a_bytes counter\n\
                            # UNIT a_bytes bytes\na_bytes_total{b=\"# c\"} 3\n\
                            # HELP build The program.\n# TYPE build info\n\
                            build_info{version=\"1\"} 1\n# TYPE g gauge\ng 2\n\
                            # HELP u What.\n# TYPE u unknown\nu 4\n# EOF\n";
        let text = "# HELP a_bytes_total Bytes of a.\n# TYPE a_bytes_total counter\n\
                    a_bytes_total{b=\"# c\"} 3\n\
                    # HELP build_info The program.\n# TYPE build_info gauge\n\
                    build_info{version=\"1\"} 1\n# TYPE g gauge\ng 2\n\
                    # HELP u What.\n# TYPE u untyped\nu 4\n";
        assert_eq!(Exposition::Text.write(open_metrics.into(), &[]), text);
        assert_eq!(
            Exposition::OpenMetrics.write(open_metrics.into(), &[]),
            open_metrics
        );
    }
}
