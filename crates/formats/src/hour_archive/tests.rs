//! Archives of every kind: sound ones, broken ones, and those that somebody made to do harm.

mod bombs;
mod document;
mod foreign;
mod hostile;
mod merging;
mod round_trip;
mod support;
mod tampered;
mod tools;
