//! Log formats and their names.

use std::fmt;
use std::str::FromStr;

use super::alias::{FieldMap, FieldMapError};
use super::known::{ALIASES, HEADERS, PATTERNS};
use super::reader::{LineFormat, LineReader};
use super::template::{Template, TemplateError};
use super::{columns, json, variables};

/// A format of request logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// CSV with a header: the plain request log, or any other with a map.
    Csv(FieldMap),
    /// A text or JSON format known by name, such as `combined` or `headlong`.
    Known(&'static str),
    /// A `log_format` of nginx, verbatim.
    Nginx(String),
    /// A `LogFormat` of Apache, verbatim, or the name of one of its own.
    Apache(String),
    /// W3C extended, described by its `#Fields:` line, as written by IIS and CloudFront.
    W3c,
    /// One JSON object per line, by a map or by usual names.
    Json(FieldMap),
    /// A Parquet table with the columns of the plain request log, or any other with a map.
    Parquet(FieldMap),
}

/// Errors in the name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The format is unknown.
    #[error(
        "`{}` is not a format; known: {}, nginx:PATTERN, apache:PATTERN, csv, csv:MAP, w3c, json, \
         json:MAP, parquet and parquet:MAP", .0, known().collect::<Vec<_>>().join(", ")
    )]
    Unknown(String),
    /// Its map is invalid.
    #[error("format `{format}`: {error}")]
    Map {
        /// The format, as given.
        format: String,
        /// The error.
        error: FieldMapError,
    },
    /// Its pattern is invalid.
    #[error("format `{format}`: {error}")]
    Pattern {
        /// The format, as given.
        format: String,
        /// The error.
        error: TemplateError,
    },
}

/// Names of formats defined by data.
fn known() -> impl Iterator<Item = &'static str> {
    let dialects = json::DIALECTS.iter().map(|(name, _)| *name);
    let data = PATTERNS.iter().chain(&HEADERS);
    dialects.chain(data.map(|(name, _)| *name))
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let alias = ALIASES.iter().find(|(name, _)| *name == text);
        let text = alias.map_or(text, |(_, name)| name);
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let map = || {
            FieldMap::parse(rest).map_err(|error| FormatError::Map {
                format: text.to_owned(),
                error,
            })
        };
        let format = match name {
            "csv" | "plain" => Self::Csv(map()?),
            "json" => Self::Json(map()?),
            "parquet" => Self::Parquet(map()?),
            "nginx" => Self::Nginx(rest.to_owned()),
            "apache" => Self::Apache(rest.to_owned()),
            "w3c" if text == name => Self::W3c,
            // The other formats take no argument.
            _ => match known().find(|known| *known == text) {
                Some(known) => Self::Known(known),
                None => return Err(FormatError::Unknown(text.to_owned())),
            },
        };
        format.reader(None)?;
        Ok(format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_map = |f: &mut fmt::Formatter<'_>, name: &str, map: &FieldMap| {
            let colon = if map.is_empty() { "" } else { ":" };
            write!(f, "{name}{colon}{map}")
        };
        match self {
            Self::Csv(map) => with_map(f, "csv", map),
            Self::Json(map) => with_map(f, "json", map),
            Self::Parquet(map) => with_map(f, "parquet", map),
            Self::Known(name) => f.write_str(name),
            Self::Nginx(pattern) => write!(f, "nginx:{pattern}"),
            Self::Apache(pattern) => write!(f, "apache:{pattern}"),
            Self::W3c => f.write_str("w3c"),
        }
    }
}

impl Format {
    /// The format described by a server's configuration: nginx's `log_format` or Apache's
    /// `LogFormat`, verbatim, with or without the directive around it.
    ///
    /// # Errors
    /// If such lines contain no requests.
    pub fn from_configuration(text: &str) -> Result<Self, FormatError> {
        let text = text.trim();
        let is_variable = |name: &str| name.starts_with(|c: char| c == '{' || c.is_alphabetic());
        let is_nginx = text.starts_with("log_format") || text.split('$').skip(1).any(is_variable);
        let name = if is_nginx { "nginx" } else { "apache" };
        let pattern = match text.split_once(char::is_whitespace) {
            Some(("log_format", rest)) => quoted(rest, '\''),
            Some(("LogFormat", rest)) => quoted(rest, '"'),
            _ => text.to_owned(),
        };
        format!("{name}:{pattern}").parse()
    }

    /// All formats tried on a log of unknown format, most specific first. `ats` matches the lines
    /// of `squid`, and is distinguished later.
    pub(crate) fn all() -> Vec<Self> {
        let tried = known().filter(|name| *name != "ats");
        let mut all: Vec<Self> = tried.map(Self::Known).collect();
        all.extend([
            Self::Csv(FieldMap::default()),
            Self::W3c,
            Self::Json(FieldMap::default()),
        ]);
        all
    }

    /// A reader of the format; `Ok(None)` for those that need a header.
    pub(crate) fn reader(
        &self,
        session_field: Option<&str>,
    ) -> Result<Option<LineReader>, FormatError> {
        let pattern = |error| FormatError::Pattern {
            format: self.to_string(),
            error,
        };
        let form = match self {
            Self::Nginx(text) => {
                LineFormat::Template(variables::nginx(text, session_field).map_err(pattern)?)
            }
            Self::Apache(text) => {
                LineFormat::Template(variables::apache(text, session_field).map_err(pattern)?)
            }
            Self::Known(name) => {
                let template = Template::known(name, session_field).map(LineFormat::Template);
                let json = || json::JsonReader::dialect(name, session_field).map(LineFormat::Json);
                let columns = || {
                    columns::DelimitedReader::known(name, session_field).map(LineFormat::Columns)
                };
                match template.or_else(json).or_else(columns) {
                    Some(form) => form,
                    None => return Ok(None),
                }
            }
            Self::Json(map) => LineFormat::Json(json::JsonReader::mapped(map, session_field)),
            Self::Csv(_) | Self::W3c | Self::Parquet(_) => return Ok(None),
        };
        Ok(Some(LineReader::new(form, session_field)))
    }
}

/// Joins the quoted parts of a text; a quote after a backslash is literal.
fn quoted(text: &str, quote: char) -> String {
    let (mut joined, mut is_inside, mut before) = (String::new(), false, ' ');
    for c in text.chars() {
        match (c == quote && before != '\\', is_inside) {
            (true, _) => is_inside = !is_inside,
            (false, true) => joined.push(c),
            (false, false) => {}
        }
        before = c;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_round_trip_as_text() {
        for text in [
            "csv",
            "csv:ts=when,session=sid",
            "headlong",
            "combined",
            "nginx:$remote_addr [$time_local] \"$request\" $body_bytes_sent",
            "apache:common",
            "w3c",
            "squid",
            "ats",
            "haproxy",
            "envoy-json",
            "json",
            "json:ts=time",
            "parquet",
        ] {
            let format: Format = text.parse().expect(text);
            assert_eq!(format.to_string(), text);
        }
        assert_eq!("nginx:combined".parse(), Ok(Format::Known("combined")));
    }

    #[test]
    fn configuration_is_accepted_verbatim() {
        let nginx = "log_format video '$remote_addr [$time_iso8601] '\n  '\"$request\" \
                     $body_bytes_sent';";
        let of = |text| Format::from_configuration(text).map(|format| format.to_string());
        assert_eq!(
            of(nginx).as_deref(),
            Ok("nginx:$remote_addr [$time_iso8601] \"$request\" $body_bytes_sent")
        );
        let apache = "LogFormat \"%h %t \\\"%r\\\" %b\" video";
        assert_eq!(of(apache).as_deref(), Ok("apache:%h %t \\\"%r\\\" %b"));
        assert_eq!(of("%h %t %r %b").as_deref(), Ok("apache:%h %t %r %b"));
    }

    #[test]
    fn format_errors_are_found_when_parsing() {
        let error = |text: &str| text.parse::<Format>().expect_err("a mistake").to_string();
        assert!(error("squid:x").starts_with("`squid:x` is not a format"));
        assert_eq!(
            "csv: ,".parse::<Format>().map(|csv| csv.to_string()),
            Ok("csv".to_owned())
        );
        assert!(error("combinde").starts_with("`combinde` is not a format; known: headlong,"));
        assert!(error("json:x=y").starts_with("format `json:x=y`: no field is named `x`"));
        assert_eq!(
            error("nginx:$request $status"),
            "format `nginx:$request $status`: it has no time, which is required to make a request \
             of a line"
        );
    }
}
