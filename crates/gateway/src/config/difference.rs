//! How a configuration differs from the one that is in force.

use std::collections::{BTreeMap, HashMap};

use super::{
    Config,
    origin::{Fault, Faults},
    route_kind::DEFAULTS,
    section::{Effective, SectionName},
};

// === types ===

/// What becomes of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteChange {
    /// There was none of that name.
    Added,
    /// There is none of that name any more.
    Removed,
    /// These keys, each with its value before and after.
    Changed(Vec<String>),
}

/// A key whose value is another one; `None` where the key, or its table, is not there.
#[derive(Debug)]
struct Difference<'a> {
    section: &'a SectionName,
    name: &'static str,
    before: Option<&'a Effective>,
    after: Option<&'a Effective>,
}

// === impl Config ===

impl Config {
    /// Whether this can take the place of `running` while requests are served: all but routes, secrets and the
    /// admin token stays what it is for the life of a process.
    ///
    /// # Errors
    /// Every value that needs a restart.
    pub(crate) fn check_over(&self, running: &Self) -> Result<(), Faults> {
        let differences = self.differences(running);
        let mut faults: Vec<_> = differences.iter().filter_map(Difference::needing_a_restart).collect();
        let is_told = |names: &[&str]| {
            differences.iter().any(|each| each.section == &SectionName::Table("store") && names.contains(&each.name))
        };
        for (names, is_same) in [
            (["url", "url_file"], self.store.address == running.store.address),
            (["front", "front_file"], self.front_address() == running.front_address()),
        ] {
            if !is_same && !is_told(&names) {
                faults.extend(self.unshown_change(names));
            }
        }
        faults.extend(self.secrets.changed_values(&running.secrets));
        Faults::check(faults)
    }

    fn front_address(&self) -> Option<&oncegate_store::redis::Address> {
        self.store.front.as_ref().map(|front| &front.address)
    }

    /// The fault of an address that differs in what is not shown.
    fn unshown_change(&self, names: [&'static str; 2]) -> Option<Fault> {
        let is_it = |key: &&Effective| {
            key.section == SectionName::Table("store") && names.contains(&key.name) && key.shown.is_some()
        };
        let key = self.effective.iter().find(is_it)?;
        let text = format!(
            "[store] {} is another address, or has another password or other options: needs a restart",
            key.name
        );
        Some(Fault::new(&key.origin, text))
    }

    /// What becomes of each route, by its name; routes that stay as they are are left out.
    pub(crate) fn route_changes(&self, running: &Self) -> BTreeMap<String, RouteChange> {
        let mut changes: BTreeMap<String, RouteChange> = BTreeMap::new();
        for difference in self.differences(running) {
            let Some(route) = route_name(difference.section) else { continue };
            let change = changes.entry(route.to_owned()).or_insert(RouteChange::Changed(Vec::new()));
            match (difference.before, difference.after, change) {
                (None, _, change) => *change = RouteChange::Added,
                (_, None, change) => *change = RouteChange::Removed,
                (Some(_), Some(_), RouteChange::Changed(keys)) => keys.push(difference.to_string()),
                (Some(_), Some(_), RouteChange::Added | RouteChange::Removed) => {}
            }
        }
        changes
    }

    fn differences<'a>(&'a self, running: &'a Self) -> Vec<Difference<'a>> {
        let (before, after) = (by_key(&running.effective), by_key(&self.effective));
        let of_key = |&(section, name): &(&'a SectionName, &'static str)| {
            let (before, after) = (before.get(&(section, name)).copied(), after.get(&(section, name)).copied());
            let is_same = before.map(|key| &key.shown) == after.map(|key| &key.shown);
            (!is_same).then_some(Difference { section, name, before, after })
        };
        let gone = running.effective.iter().map(|key| (&key.section, key.name)).filter(|key| !after.contains_key(key));
        let all = self.effective.iter().map(|key| (&key.section, key.name)).chain(gone);
        all.filter_map(|key| of_key(&key)).collect()
    }
}

fn by_key(keys: &[Effective]) -> HashMap<(&SectionName, &'static str), &Effective> {
    keys.iter().map(|key| ((&key.section, key.name), key)).collect()
}

fn route_name(section: &SectionName) -> Option<&str> {
    match section {
        SectionName::Table("defaults") => Some(DEFAULTS),
        SectionName::Member { list: "route", name } => Some(name),
        SectionName::Top | SectionName::Table(_) | SectionName::Member { .. } => None,
    }
}

// === impl Difference ===

impl Difference<'_> {
    fn needing_a_restart(&self) -> Option<Fault> {
        match (self.section, self.name) {
            // Where the token stands may change with the token.
            (SectionName::Table("admin"), "token" | "token_file") => None,
            (SectionName::Top, _) | (SectionName::Table("admin" | "store" | "access_log"), _) => {
                // These tables are always read whole, so the key is there.
                let after = self.after?;
                Some(Fault::new(&after.origin, format!("{}{self}: needs a restart", self.section.prefix())))
            }
            (SectionName::Table(_) | SectionName::Member { .. }, _) => None,
        }
    }
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |key: Option<&Effective>| key.and_then(|key| key.shown.clone()).unwrap_or("not set".to_owned());
        write!(f, "{} is {} instead of {}", self.name, shown(self.after), shown(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, Table, read};

    fn config(text: &str) -> Config {
        let table = Table::parse("gate.toml", text).unwrap();
        read(table, std::iter::empty(), &Sources::default()).unwrap()
    }

    const UPSTREAM: &str = "upstream = \"http://u\"\n";

    fn refused(before: &str, after: &str) -> String {
        let [before, after] = [before, after].map(|text| config(&format!("{UPSTREAM}{text}")));
        after.check_over(&before).map_or_else(|faults| faults.to_string(), |()| String::new())
    }

    #[test]
    fn what_cannot_change_while_running_is_refused_by_name() {
        for (before, after, fault) in [
            ("", "listen = \"0.0.0.0:80\"", "gate.toml:2:10: listen is \"0.0.0.0:80\" instead of \"127.0.0.1:8080\""),
            ("drain = \"5s\"", "", "drain is \"30s\" instead of \"5s\""),
            ("", "[admin]\nlisten = \"127.0.0.1:1\"", "gate.toml:3:10: [admin] listen is"),
            ("", "[store]\nurl = \"sqlite://x.db\"", "gate.toml:3:7: [store] url is"),
            ("", "[store]\ntimeout = \"1s\"", "gate.toml:3:11: [store] timeout is \"1s\" instead of \"2s\""),
            ("", "[store]\ncache_bytes = 0", "gate.toml:3:15: [store] cache_bytes is"),
            (
                "",
                "[access_log]\nformat = \"json\"",
                "gate.toml:3:10: [access_log] format is \"json\" instead of \"off\"",
            ),
            ("", "suspect_window = \"1m\"", "gate.toml:2:18: suspect_window is"),
        ] {
            let refused = refused(before, after);
            assert!(refused.starts_with(fault) && refused.ends_with(": needs a restart"), "{refused}");
        }
        let moved = config("upstream = \"http://v\"\n").check_over(&config(UPSTREAM)).unwrap_err().to_string();
        assert!(moved.starts_with("gate.toml:1:12: upstream is \"http://v\" instead of"), "{moved}");
    }

    #[test]
    fn what_is_not_shown_of_a_stores_address_cannot_change_either() {
        let url = |options: &str| format!("[store]\nurl = \"postgres://me:{options}\"\n");
        let front = |password: &str| format!("{}front = \"redis://:{password}@r\"\n", url("a@h/d"));
        for (before, after, place) in [
            (url("old-one@h/d"), url("new-one@h/d"), "gate.toml:3:7: [store] url is another address"),
            (
                url("a@h/d?sslmode=prefer"),
                url("a@h/d?sslmode=require"),
                "gate.toml:3:7: [store] url is another address",
            ),
            (front("old-one"), front("new-one"), "gate.toml:4:9: [store] front is another address"),
        ] {
            let told = refused(&before, &after);
            assert!(told.starts_with(place) && told.ends_with(": needs a restart"), "{told}");
            assert!(!told.contains("new-one") && !told.contains('\n'), "{told}");
            assert_eq!(refused(&after, &after), "");
        }
    }

    #[test]
    fn routes_secrets_and_the_admin_token_can_be_taken_over() {
        let token = "[admin]\ntoken = \"0123456789abcdef0123456789abcdef\"\n";
        let secret = "[[secrets]]\nid = \"a\"\nvalue = \"0123456789abcdef0123456789abcdef\"\n";
        let route = "[[route]]\nname = \"pay\"\nmatch = \"POST /pay\"\n[defaults]\nwait = \"2s\"\n";
        for text in [token, secret, route] {
            assert_eq!((refused("", text), refused(text, "")), Default::default());
        }
    }

    #[test]
    fn a_secret_does_not_change_under_its_id() {
        let secret = |value: &str| format!("[[secrets]]\nid = \"a\"\nvalue = \"{value}\"\n");
        let [old, new] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"].map(secret);
        let refused = refused(&old, &new);
        assert!(
            refused.contains("gate.toml:3:6: id \"a\" has another value") && !refused.contains("fedcba"),
            "{refused}"
        );
    }

    #[test]
    fn changes_of_routes_are_named_by_key() {
        let route = |keys: &str| format!("{UPSTREAM}[[route]]\nname = \"pay\"\nmatch = \"POST /pay\"\n{keys}");
        let (without, with) = (config(UPSTREAM), config(&route("")));
        assert_eq!(with.route_changes(&without), BTreeMap::from([("pay".to_owned(), RouteChange::Added)]));
        assert_eq!(without.route_changes(&with), BTreeMap::from([("pay".to_owned(), RouteChange::Removed)]));
        assert_eq!(with.route_changes(&with), BTreeMap::new());
        let waiting = config(&route("[defaults]\nwait = \"2s\"\n"));
        let changed = RouteChange::Changed(vec!["wait is \"2s\" instead of \"0s\"".to_owned()]);
        let expected = ["defaults", "pay"].map(|name| (name.to_owned(), changed.clone()));
        assert_eq!(waiting.route_changes(&with), BTreeMap::from(expected), "inherited values count");
    }
}
