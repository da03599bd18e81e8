//! Whole values, taken without recursion and without reserving anything by a claimed length.

use super::{
    Bounds, Error, Fault, MAX_DEPTH, Reader,
    read::{Head, within},
};

/// An open array or map while a value is skipped.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Values still to come; for a map keys and values.
    left: usize,
    map: bool,
    /// Where this map's keys start in the list of keys.
    keys: usize,
    /// Where the child being read starts.
    child: usize,
}

/// A map key by value, so that two encodings of one number count as the same key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Uint(u64),
    Negative(i64),
    Text(&'a [u8]),
    Other(&'a [u8]),
}

impl<'a> Reader<'a> {
    /// Takes one value of any type and returns its encoding. It never recurses and reserves nothing by claimed lengths.
    ///
    /// # Errors
    /// When the form is wrong or a bound is passed.
    pub fn value(&mut self, bounds: &Bounds) -> Result<&'a [u8], Error> {
        let start = self.at;
        if !self.shallow(bounds)? {
            self.at = start;
            self.deep(bounds)?;
        }
        Ok(self.data.get(start..self.at).unwrap_or_default())
    }

    /// Takes a value that nests at most in one array of scalars: most payloads, without the stack of [`Self::deep`].
    fn shallow(&mut self, bounds: &Bounds) -> Result<bool, Error> {
        let at = self.at;
        let count = match self.head()? {
            Head::Array(len) if bounds.depth > 0 => {
                within(at, "array", len, bounds.collection)?;
                len
            }
            Head::Map(_) | Head::Array(_) => return Ok(false),
            scalar => {
                self.body(at, &scalar)?;
                return Ok(true);
            }
        };
        for _ in 0..count {
            let at = self.at;
            match self.head()? {
                Head::Array(_) | Head::Map(_) => return Ok(false),
                scalar => self.body(at, &scalar)?,
            }
        }
        Ok(true)
    }

    fn deep(&mut self, bounds: &Bounds) -> Result<(), Error> {
        let limit = bounds.depth.min(MAX_DEPTH);
        let mut stack = [Open::default(); MAX_DEPTH];
        let mut depth = 0_usize;
        // Grows with keys that were read, never by a claimed length.
        let mut keys: Vec<Key<'a>> = Vec::new();
        loop {
            let at = self.at;
            if let Some(parent) = depth.checked_sub(1).and_then(|d| stack.get_mut(d)) {
                parent.child = at;
            }
            let head = self.head()?;
            let (left, map) = match head {
                Head::Array(len) => (len, false),
                Head::Map(len) => (len * 2, true),
                ref scalar => {
                    self.body(at, scalar)?;
                    (0, false)
                }
            };
            if let Head::Array(len) | Head::Map(len) = head {
                within(at, head.name(), len, bounds.collection)?;
                if depth == limit {
                    return Err(Error { at, fault: Fault::Depth { limit } });
                }
                if left > 0 {
                    stack[depth] = Open { left, map, keys: keys.len(), child: at };
                    depth += 1;
                    continue;
                }
            }
            // A value is complete; it may complete the arrays and maps around it.
            loop {
                let Some(open) = depth.checked_sub(1).and_then(|d| stack.get_mut(d)) else { return Ok(()) };
                if open.map && open.left % 2 == 0 {
                    keys.push(self.key(open.child)?);
                }
                open.left -= 1;
                if open.left > 0 {
                    break;
                }
                if open.map {
                    let own = keys.get_mut(open.keys..).unwrap_or_default();
                    own.sort_unstable();
                    if own.windows(2).any(|pair| pair[0] == pair[1]) {
                        return Err(Error { at: open.child, fault: Fault::DuplicateKey });
                    }
                    keys.truncate(open.keys);
                }
                depth -= 1;
            }
        }
    }

    /// The key that was read from `start` up to here.
    fn key(&self, start: usize) -> Result<Key<'a>, Error> {
        let mut again = Self { data: self.data, at: start };
        Ok(match again.head()? {
            Head::Uint(n) => Key::Uint(n),
            Head::Negative(n) => Key::Negative(n),
            Head::Text(len) => Key::Text(again.take(len)?),
            _ => Key::Other(self.data.get(start..self.at).unwrap_or_default()),
        })
    }
}
