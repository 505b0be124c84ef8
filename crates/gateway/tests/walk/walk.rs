//! One walk through one page.

use std::fs;

use crate::{
    command::{self, exit_code, goes_on, words},
    elsewhere::{ELSEWHERE, Exception},
    output,
    page::{Block, Kind, Page},
    place::Place,
    stage::Staged,
    terminal::{Running, Terminal},
};

/// Walks through a page from its top, as a person would who types what it says.
pub(crate) fn walk(page: &str, prepare: fn(&mut Place) -> Staged) {
    let Some(mut place) = Place::enter(page) else { return };
    let staged = prepare(&mut place);
    let mut walk = Walk { terminal: Terminal::open(&place), place, running: Vec::new(), printed: None };
    for block in &Page::read(page).blocks {
        // Shown when the walk fails.
        eprintln!("{} {:?}", block.place(), block.kind);
        walk.step(block);
    }
    for running in walk.running.into_iter().rev().chain(staged.running) {
        running.stop();
    }
}

struct Walk {
    terminal: Terminal,
    /// What was started by the page and goes on.
    running: Vec<Running>,
    /// What the last block of commands printed, if there was one.
    printed: Option<String>,
    place: Place,
}

// === impl Walk ===

impl Walk {
    fn step(&mut self, block: &Block) {
        match block.kind {
            Kind::Commands => {
                let commands = command::split(&block.text);
                let printed: Vec<_> = commands.iter().map(|command| self.execute(block, command)).collect();
                self.printed = Some(printed.concat());
            }
            Kind::Transcript => self.transcript(block),
            Kind::Configuration => self.configure(block),
            Kind::Output => {
                if let Some(printed) = &self.printed {
                    output::assert_among(&block.place(), &block.text, printed);
                }
            }
            // Listed, as a test of its own sees to, or played by another one.
            Kind::Foreign | Kind::Sessions => {}
        }
    }

    /// Executes a command and returns what it printed, which is what it has printed until now if it goes on.
    fn execute(&mut self, block: &Block, command: &str) -> String {
        if ELSEWHERE.iter().any(|exception| exception.covers(&block.page, words(command))) {
            return String::new();
        }
        let typed = self.place.words(command);
        if let Some(ready) = goes_on(command) {
            let mut running = Running::start(self.terminal.another(&self.place), &typed, ready);
            self.place.note_main_process(running.id());
            let printed = running.printed();
            self.running.push(running);
            return printed;
        }
        let (printed, code) = self.terminal.run(&typed);
        assert_eq!(code, exit_code(command), "{}: the exit code of {typed}\n{printed}", block.place());
        printed
    }

    /// Executes what stands behind each `$`, and compares everything that it prints.
    fn transcript(&mut self, block: &Block) {
        for (command, shown) in exchanges(&block.text) {
            let printed = self.execute(block, &command);
            output::assert_same(&block.place(), &shown, &printed);
        }
    }

    /// A configuration must be one: each key known, each value allowed.
    fn configure(&mut self, block: &Block) {
        let file = self.place.directory().join("shown.toml");
        fs::write(&file, self.place.words(&block.text)).unwrap();
        // What a snippet leaves out.
        let upstream = "ONCEGATE__UPSTREAM=http://127.0.0.1:8000";
        let (printed, code) =
            self.terminal.run(&format!("{upstream} oncegate serve --config shown.toml --print-config"));
        assert_eq!(code, 0, "{}: {printed}", block.place());
        fs::remove_file(file).unwrap();
    }
}

/// Whether the walk does anything with a block.
pub(crate) fn is_walked(block: &Block) -> bool {
    match block.kind {
        Kind::Commands => command::split(&block.text)
            .iter()
            .any(|command| !ELSEWHERE.iter().any(|exception| exception.covers(&block.page, words(command)))),
        Kind::Transcript | Kind::Configuration => true,
        Kind::Output | Kind::Foreign | Kind::Sessions => false,
    }
}

/// Whether this is what the exception speaks of.
pub(crate) fn needs(block: &Block, exception: &Exception) -> bool {
    let covers = |words: &str| exception.covers(&block.page, words);
    match block.kind {
        Kind::Commands => command::split(&block.text).iter().any(|command| covers(words(command))),
        Kind::Foreign => block.text.lines().next().is_some_and(covers),
        Kind::Transcript | Kind::Configuration | Kind::Output | Kind::Sessions => false,
    }
}

/// The commands of a transcript, each with what it prints.
fn exchanges(transcript: &str) -> Vec<(String, String)> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for line in transcript.lines() {
        match (line.strip_prefix("$ "), exchanges.last_mut()) {
            (Some(command), _) => exchanges.push((command.to_owned(), String::new())),
            (None, Some((command, shown))) if shown.is_empty() && command.ends_with('\\') => {
                *command += &format!("\n{line}");
            }
            (None, Some((_, shown))) => *shown += &format!("{line}\n"),
            (None, None) => panic!("a transcript begins with a command, not with {line}"),
        }
    }
    exchanges
}
