//! What a data file does when the disk fails, when the rules panic, and when it was written by a newer build.
