//! Large values by small numbers: a state of a model holds numbers, so that it is hashed and compared fast, and what a pure machine
//! did once with a value is looked up the next time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex},
};

/// Values by number, each once; the first is number 0.
pub struct Intern<T>(Mutex<Inner<T>>);

struct Inner<T> {
    numbers: HashMap<Vec<u8>, u32>,
    values: Vec<Arc<T>>,
}

impl<T> Default for Intern<T> {
    fn default() -> Self {
        Self(Mutex::new(Inner { numbers: HashMap::new(), values: Vec::new() }))
    }
}

impl<T> Intern<T> {
    /// The number of a value; `key` says all of it.
    pub fn put(&self, key: Vec<u8>, value: T) -> u32 {
        let inner = &mut *self.0.lock().expect("intern");
        let next = u32::try_from(inner.values.len()).expect("fewer than four thousand million values");
        *inner.numbers.entry(key).or_insert_with(|| {
            inner.values.push(Arc::new(value));
            next
        })
    }

    /// The number of a value whose `Debug` says all of it.
    pub fn put_debug(&self, value: T) -> u32
    where
        T: std::fmt::Debug,
    {
        self.put(format!("{value:?}").into_bytes(), value)
    }

    /// The value of a number.
    pub fn get(&self, number: u32) -> Arc<T> {
        self.0.lock().expect("intern").values[number as usize].clone()
    }
}

/// Results of a pure function.
pub struct Memo<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The result for `key`, worked out the first time.
    pub fn get(&self, key: K, work_out: impl FnOnce() -> V) -> V {
        if let Some(known) = self.0.lock().expect("memo").get(&key) {
            return known.clone();
        }
        let value = work_out();
        self.0.lock().expect("memo").insert(key, value.clone());
        value
    }
}
