//! Commands that stand in the middle of a sentence, such as `oncegate records show RECORD --body`.

use std::{collections::HashMap, process::Command};

use crate::page;

/// Every flag of such a command must be one.
#[test]
fn commands_in_sentences_have_the_flags_that_they_name() {
    let mut helps = HashMap::new();
    let mut seen = 0;
    for page in page::all() {
        for span in spans(&page.prose()).filter(|span| span.starts_with("oncegate ")) {
            let words: Vec<_> = span.split_whitespace().skip(1).collect();
            let commands: Vec<_> = words.iter().copied().take_while(|word| is_command(word)).collect();
            let help = helps.entry(commands.join(" ")).or_insert_with(|| help(&commands));
            let help = help.as_ref().unwrap_or_else(|| panic!("{}: there is no command {span:?}", page.name));
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap();
                let is_known = help.split(|letter: char| letter.is_whitespace() || ",[]".contains(letter));
                assert!(is_known.into_iter().any(|word| word == flag), "{}: {span:?} has no flag {flag}", page.name);
            }
            seen += 1;
        }
    }
    assert!(seen > 5, "the sentences name commands");
}

fn is_command(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !word.starts_with('-')
}

/// What stands between single back-ticks.
fn spans(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

fn help(commands: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_oncegate")).args(commands).arg("--help").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}
