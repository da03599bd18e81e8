//! Placeholder, replaced by the next commit.
