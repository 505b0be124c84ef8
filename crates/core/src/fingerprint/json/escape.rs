//! The characters of strings, and the one way in which each is written.

/// How many bytes from the start of `text` a string holds as they are: neither `"` nor `\` nor a
/// control character, which ends or breaks it.
pub(super) fn plain_run(text: &[u8]) -> usize {
    let (words, tail) = text.as_chunks();
    for (position, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return 8 * position + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    text.len() - tail.len() + tail.iter().position(is_special).unwrap_or(tail.len())
}

/// Looks at eight bytes at once: the lowest bit set in the answer is in the first special one.
///
/// `(x - 0x20) & !x` has the top bit set in a byte below 0x20; so has `(x - 1) & !x` in a zero byte,
/// which `"` and `\` become when they are taken out by exclusive or. A borrow can reach only bytes
/// above the first hit.
fn special_bytes(word: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let below = |word: u64, limit: u8| word.wrapping_sub(each(limit)) & !word;
    let (quotes, backslashes) = (word ^ each(b'"'), word ^ each(b'\\'));
    (below(word, 0x20) | below(quotes, 1) | below(backslashes, 1)) & each(0x80)
}

/// The character that a backslash and this byte stand for; `u` is not among them.
pub(super) fn meaning(escaped: u8) -> Option<char> {
    match escaped {
        b'"' | b'\\' | b'/' => Some(char::from(escaped)),
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        b'n' => Some('\n'),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        _ => None,
    }
}

/// The canonical form of a character in a string: as RFC 8785 section 3.2.2.2 and `JSON.stringify`.
pub(super) fn canonical(character: char, buffer: &mut [u8; 6]) -> &[u8] {
    match character {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\u{8}' => b"\\b",
        '\t' => b"\\t",
        '\n' => b"\\n",
        '\u{c}' => b"\\f",
        '\r' => b"\\r",
        '\0'..'\u{20}' => {
            let digit = |value: u32| char::from_digit(value, 16).expect("below 16") as u8;
            let code = u32::from(character);
            *buffer = [b'\\', b'u', b'0', b'0', digit(code >> 4), digit(code & 0xf)];
            buffer
        }
        _ => character.encode_utf8(buffer).as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_ends_at_the_first_special_byte_wherever_it_stands() {
        for length in 0..50 {
            let plain = "ж".repeat(25).into_bytes()[..length].to_vec();
            assert_eq!(plain_run(&plain), length);
            for special in (0..0x20).chain([b'"', b'\\']) {
                let mut text = plain.clone();
                text.push(special);
                text.extend_from_slice(b"more than one block of plain text, and \" again");
                assert_eq!(plain_run(&text), length, "{special:#04x}");
            }
        }
        assert_eq!(plain_run(b"\x20\x7f\x80\xff/'"), 6);
    }

    #[test]
    fn every_character_has_one_form() {
        let canonical = |character| String::from_utf8(canonical(character, &mut [0; 6]).to_vec()).unwrap();
        assert_eq!(canonical('\0'), "\\u0000");
        assert_eq!(canonical('\u{1f}'), "\\u001f");
        assert_eq!(canonical('\u{8}'), "\\b");
        assert_eq!(canonical('"'), "\\\"");
        assert_eq!(canonical('\\'), "\\\\");
        for character in ['/', ' ', '\u{7f}', '\u{2028}', 'ж', '😀'] {
            assert_eq!(canonical(character), character.to_string());
        }
    }
}
