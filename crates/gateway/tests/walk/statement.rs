//! The statement of `docs/fingerprint.md`, which is for programs that compute record ids themselves.

use crate::{
    page::{Kind, Page},
    servers::postgres::PostgresServer,
};

#[test]
fn the_statement_for_record_ids_gives_what_the_page_says() {
    let page = Page::read("docs/fingerprint.md");
    let is_statement = |text: &str| text.starts_with("SELECT ");
    let block = page.blocks.iter().find(|block| block.kind == Kind::Foreign && is_statement(&block.text)).unwrap();
    let given = PostgresServer::start().unwrap().execute("postgres", &block.text).unwrap();
    assert!(page.prose().contains(&format!("\ngives `{given}`.")), "it gives {given}");
}
