//! Quoting of comma-separated values.

/// Quotes the text written since `from`, if it would be read as several cells.
pub(crate) fn quote(text: &mut Vec<u8>, from: usize) {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text[from..].iter().any(is_special) {
        return;
    }
    let cell = text.split_off(from);
    text.push(b'"');
    for byte in cell {
        if byte == b'"' {
            text.push(b'"');
        }
        text.push(byte);
    }
    text.push(b'"');
}
