//! What a client knows: entities with encoded components, and resources. Operations change it.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use crate::msgpack::{self, Bounds, Reader};

/// How large a view may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewBounds {
    /// Most entities.
    pub entities: usize,
    /// Most values, components and resources together.
    pub values: usize,
    /// Most bytes of all values together.
    pub bytes: usize,
}

impl Default for ViewBounds {
    fn default() -> Self {
        Self { entities: 100_000, values: 1_000_000, bytes: 16 * 1024 * 1024 }
    }
}

/// Why operations were refused. What stood before the fault has been applied: ask for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the operations: {fault}")]
pub struct Error {
    /// Offset in the array of operations, bytes.
    pub at: usize,
    /// What is wrong.
    pub fault: ViewFault,
}

/// What is wrong with operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewFault {
    /// Not the MessagePack that should stand here.
    #[error(transparent)]
    Form(#[from] msgpack::Fault),
    /// No operation has this code.
    #[error("{0} is no operation")]
    Code(u8),
    /// An operation with a wrong number of elements.
    #[error("operation {code} of {elements} elements")]
    Elements {
        /// The operation.
        code: u8,
        /// Its elements.
        elements: usize,
    },
    /// The view is as large as it may be.
    #[error("more than {limit} {what}")]
    Full {
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

impl From<msgpack::Error> for Error {
    fn from(e: msgpack::Error) -> Self {
        Self { at: e.at, fault: e.fault.into() }
    }
}

type Values = BTreeMap<u16, Vec<u8>>;

/// A mirror of what a seat sees.
#[derive(Clone, Debug, Default)]
pub struct View {
    entities: BTreeMap<u64, Values>,
    resources: Values,
    bounds: ViewBounds,
    values: usize,
    bytes: usize,
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.entities == other.entities && self.resources == other.resources
    }
}

impl View {
    /// An empty view.
    pub fn new(bounds: ViewBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Entities by rising number, each with its components by rising number.
    pub fn entities(&self) -> &BTreeMap<u64, BTreeMap<u16, Vec<u8>>> {
        &self.entities
    }

    /// Resources by rising number.
    pub fn resources(&self) -> &BTreeMap<u16, Vec<u8>> {
        &self.resources
    }

    /// A component's value, as MessagePack.
    pub fn component(&self, entity: u64, component: u16) -> Option<&[u8]> {
        self.entities.get(&entity)?.get(&component).map(Vec::as_slice)
    }

    /// A resource's value, as MessagePack.
    pub fn resource(&self, resource: u16) -> Option<&[u8]> {
        self.resources.get(&resource).map(Vec::as_slice)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.bounds);
    }

    /// Applies the operations of a frame or a tail, in order.
    ///
    /// # Errors
    /// When they cannot be read or the view would pass its bounds.
    pub fn apply(&mut self, ops: &[u8]) -> Result<(), Error> {
        let bounds = Bounds::SERVER;
        let mut reader = Reader::new(ops);
        let count = reader.array(&bounds)?;
        for _ in 0..count {
            let at = reader.position();
            let elements = reader.array(&bounds)?;
            let wrong = |code| Error { at, fault: ViewFault::Elements { code, elements } };
            let Some(rest) = elements.checked_sub(2) else { return Err(wrong(0)) };
            match reader.u8()? {
                code @ (0 | 2) => {
                    if rest % 2 != 0 {
                        return Err(wrong(code));
                    }
                    let entity = reader.u53()?;
                    self.known(at, entity)?;
                    for _ in 0..rest / 2 {
                        let component = reader.u16()?;
                        self.put(at, Some(entity), component, reader.value(&bounds)?)?;
                    }
                }
                1 if rest == 0 => {
                    if let Some(values) = self.entities.remove(&reader.u53()?) {
                        self.values -= values.len();
                        self.bytes -= values.values().map(Vec::len).sum::<usize>();
                    }
                }
                3 => {
                    let entity = reader.u53()?;
                    for _ in 0..rest {
                        let component = reader.u16()?;
                        let gone = self.entities.get_mut(&entity).and_then(|values| values.remove(&component));
                        self.forget(gone);
                    }
                }
                4 if rest == 1 => {
                    let resource = reader.u16()?;
                    self.put(at, None, resource, reader.value(&bounds)?)?;
                }
                5 if rest == 0 => {
                    let gone = self.resources.remove(&reader.u16()?);
                    self.forget(gone);
                }
                code @ (1 | 4 | 5) => return Err(wrong(code)),
                code => return Err(Error { at, fault: ViewFault::Code(code) }),
            }
        }
        if reader.is_empty() {
            return Ok(());
        }
        let fault = msgpack::Fault::Length { what: "extra bytes", length: reader.rest().len(), limit: 0 };
        Err(Error { at: reader.position(), fault: fault.into() })
    }

    /// Replaces everything by a snapshot's operations.
    ///
    /// # Errors
    /// As [`Self::apply`]; the view then holds what stood before the fault.
    pub fn snapshot(&mut self, ops: &[u8]) -> Result<(), Error> {
        self.clear();
        self.apply(ops)
    }

    /// The hash by which tests compare client and server (`docs/wire.md`, "State hash").
    pub fn hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        for (entity, values) in &self.entities {
            hasher.update(&entity.to_be_bytes());
            hash_values(&mut hasher, values);
        }
        hasher.update(&[0xff; 8]);
        hash_values(&mut hasher, &self.resources);
        hasher.digest()
    }

    fn known(&mut self, at: usize, entity: u64) -> Result<(), Error> {
        let limit = self.bounds.entities;
        if self.entities.len() >= limit && !self.entities.contains_key(&entity) {
            return Err(Error { at, fault: ViewFault::Full { what: "entities", limit } });
        }
        self.entities.entry(entity).or_default();
        Ok(())
    }

    fn put(&mut self, at: usize, entity: Option<u64>, key: u16, value: &[u8]) -> Result<(), Error> {
        let values = match entity {
            Some(entity) => self.entities.entry(entity).or_default(),
            None => &mut self.resources,
        };
        let full = |what, limit| Error { at, fault: ViewFault::Full { what, limit } };
        let old = values.get(&key).map(Vec::len);
        let bytes = self.bytes - old.unwrap_or(0) + value.len();
        if bytes > self.bounds.bytes {
            return Err(full("bytes", self.bounds.bytes));
        }
        if old.is_none() {
            if self.values >= self.bounds.values {
                return Err(full("values", self.bounds.values));
            }
            self.values += 1;
        }
        let place = values.entry(key).or_default();
        place.clear();
        place.extend_from_slice(value);
        self.bytes = bytes;
        Ok(())
    }

    fn forget(&mut self, value: Option<Vec<u8>>) {
        if let Some(value) = value {
            self.values -= 1;
            self.bytes -= value.len();
        }
    }
}

fn hash_values(hasher: &mut Xxh3, values: &Values) {
    for (key, value) in values {
        hasher.update(&key.to_be_bytes());
        hasher.update(&(value.len() as u32).to_be_bytes());
        hasher.update(value);
    }
}
