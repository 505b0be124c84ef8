//! The walk-through of `docs/sql.md`, and what `docs/strategies.md` shows, typed into real `psql` sessions line by line.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use crate::server::{Server, repository};

/// Longest wait for what a statement prints.
const PATIENCE: Duration = Duration::from_secs(30);

/// Printed behind each statement by `psql` itself.
const END: &str = "the statement has ended";

/// One `psql`, with both outputs in one.
struct Session {
    psql: Child,
    lines: Receiver<String>,
}

#[tokio::test]
async fn the_walk_through_prints_what_the_page_says() {
    play("docs/sql.md", 30).await;
}

#[tokio::test]
async fn the_page_on_strategies_shows_what_psql_prints() {
    play("docs/strategies.md", 8).await;
}

#[tokio::test]
async fn the_page_on_postgresql_shows_what_psql_prints() {
    play("docs/postgresql.md", 4).await;
}

/// Types every statement of a page; there are so many at the least.
async fn play(page: &str, least: usize) {
    let server = Server::migrated().await;
    let page = fs::read_to_string(repository().join(page)).unwrap();
    let (mut sessions, mut statements, mut differences) = (HashMap::new(), 0, String::new());
    for block in blocks(&page) {
        for Exchange { session, typed, shown } in exchanges(&block) {
            let session = sessions.entry(session).or_insert_with(|| Session::open(&server));
            let printed = session.run(&typed);
            statements += 1;
            if printed.trim_end() != shown.trim_end() {
                differences += &format!("{typed}\nshows\n{shown}\nbut printed\n{printed}\n");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(statements >= least, "only {statements} statements were found on the page");
}

// === the page ===

/// What is typed into one session, and what the page shows behind it.
struct Exchange {
    session: String,
    typed: String,
    shown: String,
}

/// The blocks of `psql`.
fn blocks(page: &str) -> Vec<String> {
    let after = page.split("```psql\n").skip(1);
    after.map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// A line behind `first=> ` begins a statement, one behind `first-> ` goes on with it.
fn exchanges(block: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in block.lines() {
        if let Some((session, typed)) = prompted(line, "=> ") {
            exchanges.push(Exchange { session, typed, shown: String::new() });
        } else if let Some((_, typed)) = prompted(line, "-> ") {
            exchanges.last_mut().unwrap().typed += &format!("\n{typed}");
        } else {
            exchanges.last_mut().unwrap().shown += &format!("{line}\n");
        }
    }
    exchanges
}

fn prompted(line: &str, prompt: &str) -> Option<(String, String)> {
    let (session, typed) = line.split_once(prompt)?;
    ["first", "second"].contains(&session).then(|| (session.to_owned(), typed.to_owned()))
}

// === impl Session ===

impl Session {
    fn open(server: &Server) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut psql = server.psql();
        psql.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let child = psql.spawn().unwrap();
        // The command keeps the pipe's other end open for as long as it lives.
        drop(psql);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(reader).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { psql: child, lines }
    }

    /// Types it and returns what comes before the next prompt.
    fn run(&mut self, typed: &str) -> String {
        write!(self.psql.stdin.as_mut().unwrap(), "{typed}\n\\! echo '{END}'\n").unwrap();
        let mut printed = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == END => return printed,
                // The page has no white space at the ends of lines.
                Ok(line) => printed += &format!("{}\n", line.trim_end()),
                Err(_) => panic!("{typed} does not end:\n{printed}"),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
