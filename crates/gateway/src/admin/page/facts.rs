//! How what stands in a record is shown. Of keys and scopes as much as `oncegate records` shows.

use std::time::Duration;

use oncegate_core::{Record, RecordDigest, State, Timestamp};

use super::html::Html;
use crate::records::table;

/// A moment, and how long ago that is, or until then.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> Html {
    let (iso, distance) = (table::time(at), distance(at, now));
    let shown = iso.trim_end_matches('Z').replace('T', " ");
    let values = [("iso", Html::text(&iso)), ("shown", Html::text(shown)), ("distance", Html::text(distance))];
    Html::filled("<time datetime=\"{{iso}}\">{{shown}} <small>{{distance}}</small></time>", &values)
}

fn distance(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", length(at.since(now))) } else { format!("{} ago", length(now.since(at))) }
}

/// A length for people: one unit, rounded down.
pub(super) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 if length.subsec_millis() > 0 => format!("{} ms", length.as_millis()),
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A number of bytes.
pub(super) fn bytes(count: usize) -> String {
    match count {
        1 => "1 byte".to_owned(),
        0..10_240 => format!("{count} bytes"),
        _ => format!("{} KiB", count / 1024),
    }
}

/// The way to a record.
pub(super) fn link(record: RecordDigest) -> Html {
    let values = [("record", Html::text(record)), ("short", Html::text(record.short()))];
    Html::filled("<a class=\"code\" href=\"/records/{{record}}\">{{short}}</a>", &values)
}

/// Text of clients, on which nothing rests.
pub(super) fn code(text: &str) -> Html {
    Html::filled("<code>{{text}}</code>", &[("text", Html::text(table::shown(text)))])
}

/// The scope as text for people.
pub(super) fn scope(record: &Record) -> Html {
    match record.id.scope().is_anonymous() {
        true => Html::text(table::scope(record)),
        false => code(record.id.scope().as_str()),
    }
}

/// The state, told by a word and by a colour.
pub(super) fn state(record: &Record, now: Timestamp) -> Html {
    let (class, word) = match record.state {
        State::InFlight { .. } if record.is_abandoned(now) => ("bad", "abandoned"),
        State::InFlight { .. } => ("busy", "in flight"),
        State::Unknown { .. } => ("bad", "unknown"),
        State::Completed { .. } => ("good", "completed"),
    };
    badge(class, word)
}

pub(super) fn badge(class: &'static str, word: &'static str) -> Html {
    Html::filled(
        "<span class=\"badge {{class}}\">{{word}}</span>",
        &[("class", Html::of(class)), ("word", Html::of(word))],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_one_unit() {
        for (millis, text) in [
            (0, "0 s"),
            (250, "250 ms"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(length(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_moment_is_before_or_after_the_present() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        assert!(moment(now.after(Duration::from_secs(30)), now).into_string().contains("in 30 s"));
        assert!(moment(now, now.after(Duration::from_secs(30))).into_string().contains("30 s ago"));
    }
}
