//! What the page shows of the examples is what the examples are.

const PAGE: &str = include_str!("../../../../docs/transactional.md");

/// The blocks in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The page's question for the requests that the backend did not complete.
pub(crate) fn question() -> &'static str {
    blocks("sql").pop().unwrap()
}

#[test]
fn the_page_shows_the_examples_word_for_word() {
    let python = include_str!("../../../../examples/transactional-payments/payments.py");
    let rust = include_str!("../../../../examples/axum-orders/src/main.rs");
    for (language, example) in [("python", python), ("rust", rust)] {
        let [shown] = blocks(language)[..] else { panic!("one block of {language}") };
        assert!(example.contains(shown), "the page's {language} is not in its example:\n{shown}");
    }
}
