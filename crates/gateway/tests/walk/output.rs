//! What a page shows, compared with what came.

/// Pages whose transcripts are one run of many races: there, a number is any number, and a line more may come, such as
/// for another kind of answer. Whether the numbers are right is judged by the commands themselves, with their exit codes.
const RACES: [&str; 2] = ["docs/demo.md", "docs/storm.md"];

/// Compares a transcript, which shows everything; a line `…` stands for any number of lines.
pub(crate) fn assert_same(place: &str, shown: &str, came: &str) {
    if is_race(place) {
        let without_gaps: Vec<_> = shown.lines().filter(|line| *line != "…").collect();
        return assert_among(place, &without_gaps.join("\n"), came);
    }
    let (wanted, given): (Vec<_>, Vec<_>) = (lines(place, shown), lines(place, came));
    assert!(is_same(&wanted, &given), "{place} shows\n{shown}\nbut this came\n{came}");
}

/// Each line that a page shows must come, in this order; others may come between.
pub(crate) fn assert_among(place: &str, shown: &str, came: &str) {
    let given = lines(place, came);
    let mut rest = given.iter();
    for line in lines(place, shown) {
        assert!(rest.any(|given| fits(&line, given)), "{place} shows\n{line}\nbut only this came\n{came}");
    }
}

fn lines(place: &str, text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| plain(line.trim_end(), is_race(place))).collect()
}

fn is_race(place: &str) -> bool {
    RACES.iter().any(|page| place.starts_with(page))
}

fn is_same(wanted: &[String], given: &[String]) -> bool {
    match (wanted, given) {
        ([], []) => true,
        ([gap, wanted @ ..], _) if gap == "…" => (0..=given.len()).any(|skipped| is_same(wanted, &given[skipped..])),
        ([line, wanted @ ..], [came, given @ ..]) => fits(line, came) && is_same(wanted, given),
        _ => false,
    }
}

/// Whether a line fits one that is shown, in which `…` stands for any text.
fn fits(shown: &str, came: &str) -> bool {
    let Some((beginning, rest)) = shown.split_once('…') else { return shown == came };
    let Some(mut came) = came.strip_prefix(beginning) else { return false };
    let mut parts: Vec<_> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = came.find(part) else { return false };
        came = &came[at + part.len()..];
    }
    came.ends_with(end)
}

/// The line with TIME for each point in time and, if numbers are any, N for them, U for UUIDs, and no lengths of
/// lines and gaps, since those depend on numbers.
fn plain(line: &str, has_any_numbers: bool) -> String {
    let line = replaced(line, "dddd-dd-ddTdd:dd:ddZ", "TIME");
    if !has_any_numbers {
        return line;
    }
    let line = replaced(&line, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "U");
    let mut plain: Vec<char> = Vec::new();
    for letter in line.chars() {
        let is_number = letter.is_ascii_digit() || (letter == '.' && plain.last() == Some(&'N'));
        let letter = if is_number { 'N' } else { letter };
        if !(plain.last() == Some(&letter) && "N ─═".contains(letter)) {
            plain.push(letter);
        }
    }
    plain.into_iter().collect()
}

/// Replaces each place that fits a pattern of digits (`d`), hexadecimal digits (`x`) and itself.
fn replaced(line: &str, pattern: &str, by: &str) -> String {
    let fits = |text: &str| {
        text.len() >= pattern.len()
            && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                _ => byte == wanted,
            })
    };
    let (mut result, mut rest) = (String::new(), line);
    while let Some(letter) = rest.chars().next() {
        let length = if fits(rest) { pattern.len() } else { letter.len_utf8() };
        result += if fits(rest) { by } else { &rest[..length] };
        rest = &rest[length..];
    }
    result
}

#[test]
fn gaps_stand_for_anything_and_nothing_else_does() {
    assert!(fits("a … c", "a b c") && fits("a…", "a") && fits("{\"x\": … } 409", "{\"x\": {} } 409"));
    assert!(!fits("a … c", "a b d") && !fits("a", "a b") && !fits("…b", "b c") && !fits("a…", "ba"));
    assert!(is_same(&["a".into(), "…".into()], &["a".into(), "b".into(), "c".into()]));
    assert!(!is_same(&["a".into()], &["a".into(), "b".into()]) && !is_same(&["a".into(), "b".into()], &["a".into()]));
    assert_eq!(plain("at 2026-11-29T17:45:13Z 1", false), "at TIME 1");
    assert_eq!(plain("│  12.5 ┆ 808a9df6-8dc6-476d-83be-5fe2b8cde5b2 ┌──┐", true), "│ N ┆ U ┌─┐");
}
