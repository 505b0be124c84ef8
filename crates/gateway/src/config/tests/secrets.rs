//! Secrets, and addresses that hold them.

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const POSTGRES: &str = "[store]\nurl = \"postgres://localhost/shop\"\n";

#[test]
fn secrets_come_from_files_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    let path = file.to_str().unwrap();
    let in_file = [("ONCEGATE__ADMIN__TOKEN_FILE", path)];
    let config = load_with(&format!("{UPSTREAM_LINE}[admin]\ntoken = \"{}\"", "x".repeat(32)), &in_file).unwrap();
    assert!(config.admin.token.as_ref().unwrap().is(b"0123456789abcdef0123456789abcdef"), "a variable wins");
    assert!(!config.print().contains("0123456789abcdef"), "{}", config.print());
    let both = faults(&format!("[admin]\ntoken = \"{}\"\ntoken_file = {path:?}", "x".repeat(32)));
    assert!(both.contains("both token and token_file are set"), "{both}");
    std::fs::write(&file, "two\nlines, long enough for a token\n").unwrap();
    assert!(load_with(UPSTREAM_LINE, &in_file).unwrap_err().contains("control character"));
    std::fs::write(&file, "0123456789abcdef0123456789abcdef \n").unwrap();
    assert!(load_with(UPSTREAM_LINE, &in_file).unwrap_err().contains("ends with white space"));
    std::fs::remove_file(&file).unwrap();
    assert!(load_with(UPSTREAM_LINE, &in_file).unwrap_err().contains("cannot be read"));
    assert!(faults("[[secrets]]\nid = \"a\"").contains("neither value nor value_file"));
    let same = "[[secrets]]\nid = \"a\"\nvalue = \"a secret of 16 bytes\"\n";
    assert!(faults(&format!("{same}{same}")).contains("stands twice"));
}

#[test]
fn a_secret_for_the_upstream_reaches_transactional_routes_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, "another secret of more than 32 bytes\n").unwrap();
    let text = format!(
        "{POSTGRES}[defaults]\nupstream_secret = {SECRET:?}\n\
         [[route]]\nname = \"a\"\nmatch = \"* /a\"\nbackend = \"transactional\"\n\
         [[route]]\nname = \"b\"\nmatch = \"* /b\"\nbackend = \"transactional\"\nupstream_secret_file = {file:?}\n\
         [[route]]\nname = \"c\"\nmatch = \"* /c\"\nbackend = \"idempotent\"\n"
    );
    let config = load(&text).unwrap();
    let sent = |name: &str| route(&config, name).upstream_secret.as_ref().map(|secret| secret.to_str().unwrap());
    assert_eq!(sent("a"), Some(SECRET), "inherited");
    assert_eq!(sent("b"), Some("another secret of more than 32 bytes"));
    assert_eq!((sent("c"), sent("defaults")), (None, None));
    for shown in [config.print(), format!("{config:?}")] {
        assert!(!shown.contains(SECRET) && !shown.contains("another secret"), "{shown}");
    }
}

#[test]
fn a_secret_for_the_upstream_that_cannot_do_what_it_is_for_is_refused() {
    let transactional = "[defaults]\nbackend = \"transactional\"\n";
    let unsent = format!("{POSTGRES}[defaults]\nbackend = \"idempotent\"\nupstream_secret = {SECRET:?}");
    let told = faults(&unsent);
    assert!(told.starts_with("oncegate.toml:6:19: upstream_secret: it is sent to no backend"), "{told}");
    let own = format!("[[route]]\nname = \"a\"\nmatch = \"* /a\"\nbackend = \"plain\"\nupstream_secret = {SECRET:?}");
    let told = faults(&format!("{POSTGRES}{transactional}{own}"));
    assert!(told.contains("upstream_secret: it is sent to no backend"), "{told}");
    let told = faults(&format!("{transactional}upstream_secret = {SECRET:?}"));
    assert!(told.contains("completes its records in PostgreSQL and cannot in sqlite://oncegate.db"), "{told}");
    for (secret, fault) in [("hunter2", "at least 32 are needed"), (&*"\u{e9}".repeat(20), "of ASCII only")] {
        let told = faults(&format!("{POSTGRES}{transactional}upstream_secret = {secret:?}"));
        assert!(told.contains(fault) && !told.contains(secret), "{told}");
    }
}

#[test]
fn the_address_of_the_store_comes_from_a_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("url");
    std::fs::write(&file, "postgres://ada:hunter2@db/shop\n").unwrap();
    let in_file = [("ONCEGATE__STORE__URL_FILE", file.to_str().unwrap())];
    let config = load_with(&format!("{UPSTREAM_LINE}[store]\nurl = \"sqlite://x.db\""), &in_file).unwrap();
    assert_eq!(config.store.address.to_string(), "postgres://ada@db:5432/shop", "a variable wins");
    assert!(!config.print().contains("hunter2"), "{}", config.print());
    let both = faults(&format!("[store]\nurl = \"sqlite://x.db\"\nurl_file = {file:?}"));
    assert!(both.contains("both url and url_file are set"), "{both}");
    std::fs::write(&file, "postgres://ada:hunter2@db:port/shop").unwrap();
    let unreadable = load_with(UPSTREAM_LINE, &in_file).unwrap_err();
    assert!(unreadable.contains("cannot be read") && !unreadable.contains("hunter2"), "{unreadable}");
}
