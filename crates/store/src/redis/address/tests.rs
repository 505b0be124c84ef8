use super::*;

fn shown(text: &str) -> String {
    text.parse::<Address>().map_or_else(|error| error.to_string(), |address| address.to_string())
}

#[test]
fn addresses_are_shown_without_their_passwords() {
    for (text, expected) in [
        ("redis://h", "redis://h:6379"),
        ("redis://:hunter2@h", "redis://h:6379"),
        ("redis://ada:hunter2@h:7000/3", "redis://ada@h:7000/3"),
        ("redis://ada:hunter2@[::1]:7000", "redis://ada@[::1]:7000"),
        ("redis-cluster://ada:hunter2@a,b:7001,c", "redis-cluster://ada@a:6379,b:7001,c:6379"),
    ] {
        assert_eq!(shown(text), expected);
        assert!(!format!("{:?}", text.parse::<Address>()).contains("hunter2"));
        assert!(Address::is_meant_by(text));
    }
}

#[test]
fn users_and_passwords_may_have_any_character() {
    for (text, user, password) in [
        ("redis://a%40b:p%3Aw%2F@h", Some("a@b"), Some("p:w/")),
        ("redis://ada:p@w?x/y@h", Some("ada"), Some("p@w?x/y")),
        ("redis://:only@h", None, Some("only")),
        ("redis://h", None, None),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.settings.username(), address.settings.password()), (user, password), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_without_repeating_it() {
    for (text, why) in [
        ("redis://u:hunter2@", "a host is missing"),
        ("redis://u:hunter2@h:port", "a port is a number"),
        ("redis://u:hunter2@h/name", "a database is a number"),
        ("redis://u:hunter2@a,b", "several hosts are a Cluster"),
        ("redis-cluster://u:hunter2@a,b/1", "a Cluster has no databases"),
        ("redis://u:hunter2@h?cacert=/ca.pem", "only over TLS"),
        ("redis://u:hunter2@h?timeout=1", "an option that there is not"),
        ("u:hunter2@h", "no scheme"),
    ] {
        let said = shown(text);
        assert!(said.contains(why) && !said.contains("hunter2"), "{text}: {said}");
    }
}

#[cfg(feature = "redis-tls")]
#[test]
fn authorities_that_cannot_be_read_are_named() {
    let said = shown("rediss://ada:hunter2@h?cacert=/does/not/exist.pem");
    assert!(said.contains("/does/not/exist.pem: cannot be read") && !said.contains("hunter2"), "{said}");
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert!(shown(&format!("rediss://h?cacert={}", empty.path().display())).contains("no certificate"));
    assert_eq!(shown("rediss-cluster://a,b"), "rediss-cluster://a:6379,b:6379");
}

#[cfg(not(feature = "redis-tls"))]
#[test]
fn tls_is_refused_where_there_is_none() {
    assert!(shown("rediss://h").contains("redis-tls"));
}
