//! The pages, and their blocks.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One page of Markdown.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
}

/// What stands between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) page: String,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `sh`: commands.
    Commands,
    /// `console`: commands behind `$`, each with all that it prints.
    Transcript,
    /// `toml`: a configuration.
    Configuration,
    /// `psql`: sessions that `crates/store/tests/contract/page.rs` plays.
    Sessions,
    /// Nothing: lines of what the commands above print; without commands above it is a picture.
    Output,
    /// Anything else, which nobody runs here.
    Foreign,
}

/// Every page that speaks to people.
pub(crate) fn all() -> Vec<Page> {
    let mut names = Vec::new();
    for directory in ["", "docs"] {
        names.extend(markdown(directory));
    }
    for example in entries("examples") {
        names.extend(markdown(&format!("examples/{example}")));
    }
    names.iter().map(|name| Page::read(name)).collect()
}

fn markdown(directory: &str) -> impl Iterator<Item = String> {
    let names = entries(directory).into_iter().filter(|name| name.ends_with(".md"));
    names.map(move |name| Path::new(directory).join(name).to_str().unwrap().to_owned())
}

fn entries(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join(directory)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

// === impl Page ===

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let text = fs::read_to_string(repository().join(name)).unwrap();
        let blocks = blocks(name, &text);
        Self { name: name.to_owned(), text, blocks }
    }

    /// The page's sentences: everything outside of blocks.
    pub(crate) fn prose(&self) -> String {
        let mut is_prose = true;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.starts_with("```") {
                is_prose = !is_prose;
            } else if is_prose {
                prose += &format!("{line}\n");
            }
        }
        prose
    }
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(text.lines()) {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                let kind = kind(language);
                blocks.push(Block { page: page.to_owned(), line: number, kind, text: String::new() });
            }
            None if is_open => blocks.last_mut().unwrap().text += &format!("{line}\n"),
            None => {}
        }
    }
    assert!(!is_open, "{page}: the last block has no end");
    blocks
}

fn kind(language: &str) -> Kind {
    match language {
        "sh" => Kind::Commands,
        "console" => Kind::Transcript,
        "toml" => Kind::Configuration,
        "psql" => Kind::Sessions,
        "" => Kind::Output,
        _ => Kind::Foreign,
    }
}

// === impl Block ===

impl Block {
    /// Where it stands, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}
