//! Writes an array of operations in one pass, straight into the caller's buffer.

use crate::msgpack::{array_head, uint};

/// An operation that carries components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The entity appears.
    Spawn = 0,
    /// Components of an entity appear or change.
    Set = 2,
}

/// Appends one array of operations to a buffer. Its length is known at the end only, so room for it is kept at the
/// front: three bytes, of which [`finish`](Self::finish) takes back what a short array does not need.
///
/// Components go to the operation that was opened last; [`spawn`](Self::spawn) and [`set`](Self::set) open one.
#[derive(Debug)]
#[must_use = "an array of operations is whole after `finish`"]
pub struct OpsWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count: usize,
    /// Where the open operation's header stands, and its elements so far.
    open: Option<(usize, usize)>,
}

/// Bytes of an array header with a 16-bit length.
const HEAD16: usize = 3;
/// Longest array whose header is one byte.
const SHORT: usize = 15;

impl<'a> OpsWriter<'a> {
    /// Starts an array at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD16]);
        Self { out, start, count: 0, open: None }
    }

    /// Operations so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Opens the spawn of an entity.
    pub fn spawn(&mut self, entity: u64) {
        self.begin(Op::Spawn, entity);
    }

    /// Opens a change of an entity.
    pub fn set(&mut self, entity: u64) {
        self.begin(Op::Set, entity);
    }

    /// Opens an operation that carries components.
    pub fn begin(&mut self, op: Op, entity: u64) {
        self.head(op as u8, entity);
    }

    /// Adds a component, as MessagePack, to the open operation.
    pub fn component(&mut self, component: u16, value: &[u8]) {
        uint(self.out, u64::from(component));
        self.out.extend_from_slice(value);
        self.grow(2);
    }

    /// Adds a component that `write` encodes straight into the buffer: exactly one MessagePack value.
    ///
    /// # Errors
    /// Those of `write`; the component is then left out.
    pub fn component_with<E>(
        &mut self,
        component: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.out.len();
        uint(self.out, u64::from(component));
        match write(self.out) {
            Ok(()) => {
                self.grow(2);
                Ok(())
            }
            Err(error) => {
                self.out.truncate(before);
                Err(error)
            }
        }
    }

    /// The entity disappears.
    pub fn despawn(&mut self, entity: u64) {
        self.head(1, entity);
    }

    /// Components of an entity disappear.
    pub fn remove(&mut self, entity: u64, components: impl IntoIterator<Item = u16>) {
        self.head(3, entity);
        for component in components {
            uint(self.out, u64::from(component));
            self.grow(1);
        }
    }

    /// A resource appears or changes; `value` is MessagePack.
    pub fn resource(&mut self, resource: u16, value: &[u8]) {
        self.head(4, u64::from(resource));
        self.out.extend_from_slice(value);
        self.grow(1);
    }

    /// A resource disappears.
    pub fn remove_resource(&mut self, resource: u16) {
        self.head(5, u64::from(resource));
    }

    /// Appends operations that were written before: the elements of a finished array, without its header.
    pub fn append(&mut self, elements: &[u8], count: usize) {
        self.close();
        self.out.extend_from_slice(elements);
        self.count += count;
    }

    /// Writes the array's header and returns the number of operations.
    pub fn finish(mut self) -> usize {
        self.close();
        let (start, count) = (self.start, self.count);
        if count <= SHORT {
            self.out[start] = 0x90 | count as u8;
            // A short array is a small one: moving it costs less than two bytes in every quiet frame.
            self.out.copy_within(start + HEAD16.., start + 1);
            self.out.truncate(self.out.len() - (HEAD16 - 1));
        } else if let Ok(short) = u16::try_from(count) {
            self.out[start] = 0xdc;
            self.out[start + 1..start + HEAD16].copy_from_slice(&short.to_be_bytes());
        } else {
            let mut head = Vec::new();
            array_head(&mut head, count);
            self.out.splice(start..start + HEAD16, head);
        }
        count
    }

    /// Starts an operation: a one-byte header to be patched, the code, the entity or resource.
    fn head(&mut self, code: u8, subject: u64) {
        self.close();
        self.open = Some((self.out.len(), 2));
        self.count += 1;
        self.out.extend_from_slice(&[0, code]);
        uint(self.out, subject);
    }

    fn grow(&mut self, elements: usize) {
        debug_assert!(self.open.is_some(), "a component without an operation");
        if let Some((_, count)) = &mut self.open {
            *count += elements;
        }
    }

    /// Writes the open operation's header.
    fn close(&mut self) {
        let Some((at, elements)) = self.open.take() else { return };
        if elements <= SHORT {
            self.out[at] = 0x90 | elements as u8;
        } else {
            // More than six components in one operation: rare enough to move its bytes.
            let mut head = Vec::new();
            array_head(&mut head, elements);
            self.out.splice(at..=at, head);
        }
    }
}
