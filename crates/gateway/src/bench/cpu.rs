//! CPU time of processes, from `/proc`.

use std::{fs, time::Duration};

use anyhow::Context as _;
use rustix::param::clock_ticks_per_second;

/// Positions in `/proc/PID/stat` behind the name (proc(5) counts from 1 and from the id): user and system time of the
/// process, and of its children that it has waited for.
const OWN: std::ops::Range<usize> = 11..13;
const CHILDREN: std::ops::Range<usize> = 13..15;

/// User and system time of a process so far; all its threads, not its children.
pub(super) fn of_process(pid: u32) -> anyhow::Result<Duration> {
    read(&format!("/proc/{pid}/stat"), OWN)
}

/// User and system time of the children of this process that have ended.
pub(super) fn of_ended_children() -> anyhow::Result<Duration> {
    read("/proc/self/stat", CHILDREN)
}

/// User and system time of a process and of its children, those that have ended too: of a whole PostgreSQL server, by
/// its first process.
pub(super) fn of_family(parent: u32) -> anyhow::Result<Duration> {
    let mut sum = read(&format!("/proc/{parent}/stat"), OWN.start..CHILDREN.end)?;
    for entry in fs::read_dir("/proc").context("/proc cannot be read")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has just ended is counted with the parent's next time.
        if parent_of(pid) == Some(parent) {
            sum += of_process(pid).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// The parent of a process, if it still runs.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn read(file: &str, fields: std::ops::Range<usize>) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    let ticks = ticks(&stat, fields).with_context(|| format!("{file} has an unknown form"))?;
    Ok(Duration::from_micros(ticks.saturating_mul(1_000_000) / clock_ticks_per_second()))
}

/// The name is in brackets and may contain anything, brackets and spaces too.
fn ticks(stat: &str, fields: std::ops::Range<usize>) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let all: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    all.get(fields)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) b ) S 1 42 42 0 -1 4194560 1 2 3 4 100 20 7 5 20 0 1 0 99";
        assert_eq!(ticks(stat, OWN), Some(120));
        assert_eq!(ticks(stat, CHILDREN), Some(12));
        assert_eq!(ticks("42 (a) S 1", OWN), None);
    }

    #[test]
    fn a_family_is_a_process_and_its_children() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        assert_eq!(parent_of(child.id()), Some(std::process::id()));
        while of_process(child.id()).unwrap().is_zero() {}
        assert!(of_family(std::process::id()).unwrap() > Duration::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_works_uses_time() {
        let before = of_process(std::process::id()).unwrap();
        // At least one tick.
        while of_process(std::process::id()).unwrap() == before {}
    }
}
