//! The step machine, event by event.
