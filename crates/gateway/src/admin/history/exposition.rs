//! As much of the text of `/metrics` as the charts need (OpenMetrics, as `prometheus-client` writes it).

/// One sample of the text: `name{labels} value`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    labels: &'a str,
    pub(super) value: f64,
}

/// Every sample, comments left out.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(Line::read)
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let (labels, rest) = match rest.strip_prefix('{') {
            // A value of a label may have a brace, but nothing behind the labels has one.
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest),
        };
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    /// The value of a label, as it was before it was written down.
    pub(super) fn label(&self, wanted: &str) -> Option<String> {
        let mut rest = self.labels;
        while let Some((name, behind)) = rest.split_once("=\"") {
            let (value, end) = quoted(behind)?;
            if name.trim_start_matches(',') == wanted {
                return Some(value);
            }
            rest = &behind[end..];
        }
        None
    }
}

/// The text up to its closing quotation mark, and where that ends.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, at + 1)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            character => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_labels_and_a_value() {
        let text = "# TYPE a counter\na_total{route=\"x\",le=\"+Inf\"} 3\nb 0.5\n# EOF\n";
        let found: Vec<_> = lines(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name, found[0].value, found[0].label("le")), ("a_total", 3.0, Some("+Inf".to_owned())));
        assert_eq!((found[1].name, found[1].value, found[1].label("le")), ("b", 0.5, None));
    }

    #[test]
    fn no_value_of_a_label_imitates_another() {
        let text = "a{route=\"x\\\",le=\\\"1\\\\} 7 {\\n\",le=\"2\"} 3";
        let line = lines(text).next().unwrap();
        assert_eq!(line.label("route").unwrap(), "x\",le=\"1\\} 7 {\n");
        assert_eq!((line.label("le").unwrap().as_str(), line.value), ("2", 3.0));
    }
}
