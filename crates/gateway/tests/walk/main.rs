//! A newcomer's walk: every command of the pages is executed word for word, and what a page shows is compared with what
//! comes.
//!
//! page (blocks) → command (what is run, and what goes on running) → place, stage (where) → terminal → output
//!
//! Whatever a page shows and the walk does not execute stands in `elsewhere.rs`, with its reason.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../gate/http.rs"]
mod http;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../gate/process.rs"]
mod process;

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../servers"]
mod servers {
    pub(crate) mod postgres;
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod python;
}

mod command;
mod django;
mod elsewhere;
mod machine;
mod mention;
mod output;
mod page;
mod place;
mod stage;
mod statement;
mod terminal;
mod walk;

use walk::walk;

#[test]
fn the_words_of_the_readme_work() {
    walk("README.md", stage::none);
}

#[test]
fn the_words_for_contributors_work() {
    walk("CONTRIBUTING.md", stage::none);
}

#[test]
fn the_words_about_the_admin_page_work() {
    walk("docs/admin.md", stage::none);
}

#[test]
fn the_words_about_configuration_work() {
    walk("docs/configuration.md", stage::none);
}

#[test]
fn the_words_about_the_demo_work() {
    walk("docs/demo.md", stage::none);
}

#[test]
fn the_words_about_fingerprints_work() {
    walk("docs/fingerprint.md", stage::none);
}

#[test]
fn the_words_about_the_lab_work() {
    walk("docs/lab.md", stage::none);
}

#[test]
fn the_words_about_operating_work() {
    walk("docs/operating.md", stage::service);
}

#[test]
fn the_words_about_records_work() {
    walk("docs/records.md", stage::records);
}

#[test]
fn the_words_about_redis_work() {
    walk("docs/redis.md", stage::none);
}

#[test]
fn the_words_about_redis_in_front_of_postgresql_work() {
    walk("docs/tiered.md", stage::none);
}

#[test]
fn the_words_about_storms_work() {
    walk("docs/storm.md", stage::racing_service);
}

#[test]
fn the_words_about_transactions_work() {
    walk("docs/transactional.md", stage::none);
}

#[test]
fn the_words_of_the_django_example_work() {
    django::download();
    walk("examples/drf-payments/README.md", django::stage);
}

#[test]
fn the_words_of_the_likes_example_work() {
    walk("examples/likes/README.md", stage::none);
}

#[test]
fn every_page_with_something_to_run_is_walked() {
    let this = include_str!("main.rs");
    let pages = page::all().into_iter().filter(|page| page.blocks.iter().any(walk::is_walked));
    let forgotten: Vec<_> =
        pages.map(|page| page.name).filter(|name| !this.contains(&format!("(\"{name}\""))).collect();
    assert!(forgotten.is_empty(), "no test walks {forgotten:?}");
}

#[test]
fn what_nobody_can_run_is_listed() {
    for block in page::all().iter().flat_map(|page| &page.blocks).filter(|block| block.kind == page::Kind::Foreign) {
        let is_listed = elsewhere::ELSEWHERE.iter().any(|exception| walk::needs(block, exception));
        assert!(is_listed, "{}: neither executed nor listed in elsewhere.rs", block.place());
    }
}

#[test]
fn every_exception_is_needed() {
    let pages = page::all();
    for exception in elsewhere::ELSEWHERE {
        let page = pages.iter().find(|page| page.name == exception.page);
        let is_needed = page.is_some_and(|page| page.blocks.iter().any(|block| walk::needs(block, exception)));
        assert!(is_needed, "{} no longer says {:?}", exception.page, exception.words);
    }
}
