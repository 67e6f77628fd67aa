//! A reply as it is to be sent: status, fields, and which bytes.
//!
//! The one idea: every body is the same shape, a list of parts (some text, then some bytes of the
//! file) and a closing text. A whole file is one part without text, a multipart reply has framing
//! in its texts, an error is only a closing text; so the server has one loop and no cases.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use headlong_units::ByteRange;

use crate::fields::FieldList;
use crate::range::RangeForm;
use crate::status::Status;

/// A reply, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyPlan {
    /// Status.
    pub status: Status,
    /// Fields in order, `content-length` among them except with 204 and 304. The shell adds
    /// `date` and what [`crate::CorsPolicy::reply_fields`] gives.
    pub fields: FieldList,
    /// What to send; nothing for HEAD, whatever `content-length` says.
    pub body: Body,
}

/// Texts and ranges of the file, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body {
    /// Each a text and then some bytes of the file.
    pub parts: Vec<Part>,
    /// What follows the last part.
    pub closing: String,
}

/// Some bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Sent before the bytes; empty unless the reply is multipart.
    pub preamble: String,
    /// Never empty, never beyond the end of the file.
    pub range: ByteRange,
    /// Whether the client named no end (`bytes=N-`), and so may stop reading anywhere (thesis 5.1).
    pub open_ended: bool,
}

impl Body {
    /// How many bytes go over the wire.
    pub fn length(&self) -> u64 {
        let text = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
        let part = |part: &Part| text(&part.preamble).saturating_add(part.range.len());
        let parts = self.parts.iter().map(part);
        parts.fold(text(&self.closing), u64::saturating_add)
    }

    pub(crate) fn text(closing: String) -> Self {
        Self {
            parts: Vec::new(),
            closing,
        }
    }

    pub(crate) fn single(range: ByteRange, form: RangeForm) -> Self {
        let part = Part {
            preamble: String::new(),
            range,
            open_ended: form == RangeForm::Open,
        };
        Self {
            parts: if range.is_empty() { vec![] } else { vec![part] },
            closing: String::new(),
        }
    }
}

impl ReplyPlan {
    /// The value of a field that occurs once, by its lower-case name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(n, _)| *n == name).map(|(_, value)| &**value)
    }

    /// Has the body sent by a content coding, as so many bytes, if that is known.
    pub fn code(&mut self, coding: &'static str, length: Option<u64>) {
        let is_kept = |(name, _): &(&str, _)| !matches!(*name, "content-length" | "accept-ranges");
        self.fields.retain(is_kept);
        if let Some(length) = length {
            let length = Cow::Owned(length.to_string());
            self.fields.push(("content-length", length));
        }
        self.fields
            .push(("content-encoding", Cow::Borrowed(coding)));
    }

    /// The bytes of the file that the body holds, all parts together.
    pub fn file_bytes(&self) -> u64 {
        let lengths = self.body.parts.iter().map(|part| part.range.len());
        lengths.fold(0, u64::saturating_add)
    }
}
