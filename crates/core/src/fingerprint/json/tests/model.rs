//! The definition of canonical JSON as plainly as it can be written, and ways to spell and to change a value.

use sha2::{Digest, Sha256};

/// A JSON value, free of any spelling.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A number, `true`, `false` or `null`.
    Literal(String),
    String(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The canonical text, as the definition says it.
    pub(super) fn canonical(&self) -> Vec<u8> {
        match self {
            Self::Literal(literal) => literal.clone().into_bytes(),
            Self::String(text) => quoted(text).into_bytes(),
            Self::Array(elements) => {
                let elements: Vec<_> = elements.iter().map(Self::canonical).collect();
                [b"[", &elements.join(&b',')[..], b"]"].concat()
            }
            Self::Object(members) => {
                let member = |(name, value): &(String, Value)| (held(quoted(name).into()), held(value.canonical()));
                let mut members: Vec<_> = members.iter().map(member).collect();
                members.sort();
                let members: Vec<_> = members.into_iter().map(|(name, value)| [name, value].join(&b':')).collect();
                [b"{", &members.join(&b',')[..], b"}"].concat()
            }
        }
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.canonical()).into()
    }

    /// The value as JSON, in one of many spellings.
    pub(super) fn spelled(&self, dice: &mut Dice) -> String {
        let value = match self {
            Self::Literal(literal) => literal.clone(),
            Self::String(text) => spelled_string(text, dice),
            Self::Array(elements) => {
                let elements: Vec<_> = elements.iter().map(|element| element.spelled(dice)).collect();
                format!("[{}{}]", dice.space(), elements.join(","))
            }
            Self::Object(members) => {
                let mut spelled = Vec::new();
                for (name, value) in members {
                    let place = dice.below(spelled.len() + 1);
                    let name = spelled_string(name, dice);
                    let member = format!("{}{name}{}:{}", dice.space(), dice.space(), value.spelled(dice));
                    spelled.insert(place, member);
                }
                format!("{{{}{}}}", dice.space(), spelled.join(","))
            }
        };
        format!("{}{value}{}", dice.space(), dice.space())
    }

    /// The same value with one scalar or name changed; which one, the dice say.
    pub(super) fn changed(&self, dice: &mut Dice) -> Self {
        match self {
            Self::Literal(literal) if literal.ends_with(|end: char| end.is_ascii_digit()) => {
                Self::Literal(format!("{literal}0"))
            }
            Self::Literal(_) => Self::Literal("17".to_owned()),
            Self::String(text) => Self::String(format!("{text}\u{0}")),
            Self::Array(elements) if elements.is_empty() => Self::Array(vec![Self::Literal("0".to_owned())]),
            Self::Array(elements) => {
                let mut elements = elements.clone();
                let place = dice.below(elements.len());
                elements[place] = elements[place].changed(dice);
                Self::Array(elements)
            }
            Self::Object(members) if members.is_empty() => Self::Object(vec![("a".into(), Self::Object(vec![]))]),
            Self::Object(members) => {
                let mut members = members.clone();
                let place = dice.below(members.len());
                let (name, value) = &mut members[place];
                if dice.below(4) == 0 {
                    name.push_str("\u{1}unheard of");
                } else {
                    *value = value.changed(dice);
                }
                Self::Object(members)
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn held(text: Vec<u8>) -> Vec<u8> {
    if text.len() <= 64 { text } else { [b"#", &Sha256::digest(&text)[..]].concat() }
}

fn spelled_string(text: &str, dice: &mut Dice) -> String {
    let mut spelled = String::from("\"");
    for character in text.chars() {
        match dice.below(4) {
            0 => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let digits = if dice.below(2) == 0 { format!("{unit:04x}") } else { format!("{unit:04X}") };
                    spelled.push_str("\\u");
                    spelled.push_str(&digits);
                }
            }
            1 if character == '/' => spelled.push_str("\\/"),
            _ => {
                let quoted = quoted(&character.to_string());
                spelled.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
    }
    spelled + "\""
}

/// A small source of choices that a seed repeats.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    pub(super) fn space(&mut self) -> &'static str {
        ["", "", "", "", " ", "\n", "\t \r\n"][self.below(7)]
    }
}
