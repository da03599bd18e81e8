//! Placement: its rules as properties.
