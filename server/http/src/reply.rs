//! A planned reply: status, fields, and bytes.
//!
//! Every body has the same shape, a list of parts (some text, then bytes of the file) and a closing
//! text. A whole file is one part without text, a multipart reply has its framing in the texts, an
//! error is only a closing text; so the server sends all of them with one loop.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use headlong_units::ByteRange;

use crate::fields::FieldList;
use crate::range::RangeForm;
use crate::status::Status;

/// A planned reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyPlan {
    /// Status.
    pub status: Status,
    /// Fields in order, including `content-length` except with 204 and 304. The caller adds `date`
    /// and the fields of [`crate::CorsPolicy::reply_fields`].
    pub fields: FieldList,
    /// The body; empty for HEAD, whatever `content-length` is.
    pub body: PlannedBody,
}

/// Texts and ranges of the file, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedBody {
    /// Each is a text followed by bytes of the file.
    pub parts: Vec<BodyPart>,
    /// Text after the last part.
    pub closing: String,
}

/// A range of the file with a preceding text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPart {
    /// Sent before the bytes; empty unless the reply is multipart.
    pub preamble: String,
    /// Never empty, never beyond the end of the file.
    pub range: ByteRange,
    /// Whether the client named no end (`bytes=N-`), and so may stop reading anywhere (thesis 5.1).
    pub open_ended: bool,
}

impl PlannedBody {
    /// Length of the body in bytes.
    pub fn length(&self) -> u64 {
        let text = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
        let part = |part: &BodyPart| text(&part.preamble).saturating_add(part.range.len());
        let parts = self.parts.iter().map(part);
        parts.fold(text(&self.closing), u64::saturating_add)
    }

    /// A body that is only a text.
    pub fn text(closing: String) -> Self {
        Self {
            parts: Vec::new(),
            closing,
        }
    }

    pub(crate) fn single(range: ByteRange, form: RangeForm) -> Self {
        let part = BodyPart {
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
    /// Value of a field, by its lower-case name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(n, _)| *n == name).map(|(_, value)| &**value)
    }

    /// Marks the body as sent with a content coding, with its length if known.
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

    /// Bytes of the file in all parts together.
    pub fn file_bytes(&self) -> u64 {
        let lengths = self.body.parts.iter().map(|part| part.range.len());
        lengths.fold(0, u64::saturating_add)
    }
}
