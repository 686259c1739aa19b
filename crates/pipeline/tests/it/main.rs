//! The pipeline on stores in memory: everything is real but the disk of the store.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod audit;
mod crash;
mod delete;
mod faults;
mod gaps;
mod hours;
mod kit;
mod library;
mod odd;
mod races;
mod troubled;
mod work;
