//! The query with its parameters in a fixed order.

use std::borrow::Cow;

/// Sorts the parameters by name, stably.
///
/// Parameters are what `&` separates, a name is what stands before the first `=`, and names compare
/// byte by byte as they were sent (`%61` is not `a`). Parameters of one name keep their order: in
/// `a=1&a=2` the order can matter to the upstream.
pub(super) fn sort_parameters(query: &str) -> Cow<'_, str> {
    if !query.contains('&') {
        return Cow::Borrowed(query);
    }
    let mut parameters: Vec<&str> = query.split('&').collect();
    parameters.sort_by_key(|parameter| parameter.split('=').next());
    Cow::Owned(parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted_by_name() {
        assert_eq!(sort_parameters("b=2&a=1"), "a=1&b=2");
        assert_eq!(sort_parameters("b&a-b=1&a=2"), "a=2&a-b=1&b", "by name, not by the whole parameter");
    }

    #[test]
    fn parameters_of_one_name_keep_their_order() {
        assert_eq!(sort_parameters("b=1&a=2&a=1"), "a=2&a=1&b=1");
    }

    #[test]
    fn nothing_is_decoded_or_dropped() {
        for query in ["", "a", "a=", "=a", "%41=1&A=1", "&", "&&a==&a=b=c", "a;b=1"] {
            assert_eq!(sort_parameters(query), query);
        }
    }
}
