//! Markup into which text gets escaped or not at all.

use std::fmt::{Display, Write as _};

/// Markup of ours. Text of others enters through [`Html::text`] alone, since templates are constants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Markup that stands in the program.
    pub(super) fn of(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// Any text, as text: between tags, or within the quotation marks of an attribute.
    pub(super) fn text(text: impl Display) -> Self {
        let mut html = String::new();
        for character in text.to_string().chars() {
            match character {
                '&' => html += "&amp;",
                '<' => html += "&lt;",
                '>' => html += "&gt;",
                '"' => html += "&quot;",
                '\'' => html += "&#39;",
                // A browser would take it for the end of the text, or drop it.
                '\0' => html.push(char::REPLACEMENT_CHARACTER),
                character => html.push(character),
            }
        }
        Self(html)
    }

    /// A template whose `{{name}}` are filled in, in one pass, so that no value is read as a template.
    pub(super) fn filled(template: &'static str, values: &[(&str, Self)]) -> Self {
        let (mut html, mut rest) = (String::new(), template);
        while let Some((before, behind)) = rest.split_once("{{") {
            let (name, after) = behind.split_once("}}").unwrap_or((behind, ""));
            let value = values.iter().find(|(each, _)| *each == name);
            debug_assert!(value.is_some(), "nobody says what {name} is");
            let _ = write!(html, "{before}{}", value.map_or("", |(_, value)| value.0.as_str()));
            rest = after;
        }
        Self(html + rest)
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<I: IntoIterator<Item = Html>>(parts: I) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "<script>alert(1)</script>\" onload='x' &lt; \0";
        let html = Html::text(hostile).into_string();
        assert_eq!(html, "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x&#39; &amp;lt; \u{fffd}");
    }

    #[test]
    fn no_value_is_read_as_a_template() {
        let values = [("a", Html::text("{{b}}")), ("b", Html::of("<i>"))];
        assert_eq!(Html::filled("{{a}} {{b}}{{a}}", &values).into_string(), "{{b}} <i>{{b}}");
    }
}
