//! Text escaped for HTML and SVG.

/// `text` with all markup characters escaped, and without the control characters that XML cannot
/// represent.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_external_text_is_escaped() {
        assert_eq!(
            escape("<a b='c'>&\"\u{7}"),
            "&lt;a b=&#39;c&#39;&gt;&amp;&quot;\u{fffd}"
        );
    }
}
