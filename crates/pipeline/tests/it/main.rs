//! The pipeline on stores in memory: everything is real but the disk of the store.

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
