//! The rule for names that go on wire and disk.

use tenure_shared::limits;

/// Says what is wrong with a name, if anything: 1 to 48 of `[a-z0-9_-.]`, the first a letter.
pub(crate) fn fault(what: &str, name: &str) -> Option<String> {
    if name.is_empty() || name.len() > limits::NAME_BYTES {
        return Some(format!("{what} {name:?} has {} bytes; expected 1 to {}", name.len(), limits::NAME_BYTES));
    }
    let alphabet = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-' | b'.');
    if !name.bytes().all(alphabet) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Some(format!(
            "{what} {name:?}: expected a letter and then letters, digits, '_', '-' or '.', all lower case"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_checked() {
        for good in ["pos", "a", "steer-2", "x.y_z", &"n".repeat(48)] {
            assert_eq!(super::fault("component", good), None);
        }
        for bad in ["", "Pos", "9x", "_x", "a b", "a/b", "é", &"n".repeat(49)] {
            assert!(super::fault("component", bad).is_some(), "{bad:?} was accepted");
        }
    }
}
