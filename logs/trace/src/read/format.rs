//! Formats as a user names them.

use std::fmt;
use std::str::FromStr;

use super::alias::{FieldMap, FieldMapError};
use super::template::{Rest, Template, TemplateError};
use super::{Reader, json, variables};

/// A format of request logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Columns with a header: the plain request log, or any other by a map.
    Csv(FieldMap),
    /// Our own access log, in JSON.
    Headlong,
    /// nginx's `combined`, with any fields behind it; our own access log in `combined` too.
    Combined,
    /// A `log_format` of nginx, verbatim.
    Nginx(String),
    /// A `LogFormat` of Apache, verbatim, or `common`, `combined`, `combinedio`.
    Apache(String),
    /// W3C extended by its `#Fields:`, as IIS and CloudFront write it.
    W3c,
    /// Squid's native format, also of Traffic Server.
    Squid,
    /// Objects of JSON, one a line, by a map or by names that are usual.
    Json(FieldMap),
    /// A Parquet table with the columns of the plain request log, or any other by a map.
    Parquet(FieldMap),
}

/// What is wrong with the name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No such format.
    #[error(
        "`{0}` is no format; there are csv, headlong, combined, nginx:PATTERN, apache:PATTERN, \
         w3c, squid, json, json:MAP, csv:MAP and parquet"
    )]
    Unknown(String),
    /// Its map is broken.
    #[error("format `{format}`: {error}")]
    Map {
        /// As it was given.
        format: String,
        /// What is wrong.
        error: FieldMapError,
    },
    /// Its pattern is broken.
    #[error("format `{format}`: {error}")]
    Pattern {
        /// As it was given.
        format: String,
        /// What is wrong.
        error: TemplateError,
    },
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
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
            "nginx" if rest == "combined" => Self::Combined,
            "nginx" => Self::Nginx(rest.to_owned()),
            "apache" => Self::Apache(rest.to_owned()),
            // The others take nothing behind their names.
            _ if text != name => return Err(FormatError::Unknown(text.to_owned())),
            "headlong" => Self::Headlong,
            "combined" => Self::Combined,
            "w3c" | "cloudfront" | "iis" => Self::W3c,
            "squid" | "ats" => Self::Squid,
            _ => return Err(FormatError::Unknown(text.to_owned())),
        };
        format.check()?;
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
            Self::Headlong => f.write_str("headlong"),
            Self::Combined => f.write_str("combined"),
            Self::Nginx(pattern) => write!(f, "nginx:{pattern}"),
            Self::Apache(pattern) => write!(f, "apache:{pattern}"),
            Self::W3c => f.write_str("w3c"),
            Self::Squid => f.write_str("squid"),
        }
    }
}

impl Format {
    /// Whether its pattern can be read by.
    fn check(&self) -> Result<(), FormatError> {
        let pattern = self.pattern(None);
        pattern.map(|_| ()).map_err(|error| FormatError::Pattern {
            format: self.to_string(),
            error,
        })
    }

    fn pattern(&self, session_field: Option<&str>) -> Result<Option<Template>, TemplateError> {
        match self {
            Self::Nginx(pattern) => {
                variables::nginx(pattern, Rest::Nothing, session_field).map(Some)
            }
            Self::Apache(pattern) => variables::apache(pattern, session_field).map(Some),
            _ => Ok(None),
        }
    }

    /// A reader of it; `Ok(None)` for those that need a header first.
    pub(crate) fn reader(
        &self,
        session_field: Option<&str>,
    ) -> Result<Option<Reader>, FormatError> {
        let pattern = self.pattern(session_field);
        let pattern = pattern.map_err(|error| FormatError::Pattern {
            format: self.to_string(),
            error,
        })?;
        Ok(match self {
            Self::Nginx(_) | Self::Apache(_) => pattern.map(Reader::Template),
            Self::Headlong => Some(Reader::Json(json::Json::headlong())),
            Self::Combined => Some(Reader::Template(variables::combined())),
            Self::Squid => Some(Reader::Squid),
            Self::Json(map) => Some(Reader::Json(json::Json::mapped(map, session_field))),
            Self::Csv(_) | Self::W3c | Self::Parquet(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_written_as_they_are_read() {
        for text in [
            "csv",
            "csv:ts=when,session=sid",
            "headlong",
            "combined",
            "nginx:$remote_addr [$time_local] \"$request\" $body_bytes_sent",
            "apache:common",
            "w3c",
            "squid",
            "json",
            "json:ts=time",
            "parquet",
        ] {
            let format: Format = text.parse().expect(text);
            assert_eq!(format.to_string(), text);
        }
    }

    #[test]
    fn a_mistake_is_found_before_any_log_is_opened() {
        let error = |text: &str| text.parse::<Format>().expect_err("a mistake").to_string();
        assert!(error("squid:x").starts_with("`squid:x` is no format"));
        assert_eq!(
            "csv: ,".parse::<Format>().map(|csv| csv.to_string()),
            Ok("csv".to_owned())
        );
        assert!(error("combinde").starts_with("`combinde` is no format; there are csv,"));
        assert!(error("json:x=y").starts_with("format `json:x=y`: no field is called `x`"));
        assert_eq!(
            error("nginx:$request $status"),
            "format `nginx:$request $status`: it has no time, and without it no request can be \
             made of a line"
        );
    }
}
