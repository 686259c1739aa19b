//! The pipeline on stores in memory: everything is real but the disk of the store.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

mod admitted;
mod agreement;
mod archives;
mod audit;
mod can_faults;
mod can_inputs;
mod can_kit;
mod can_races;
mod cans;
mod catalog_life;
mod catching_up;
mod clearing;
mod covering;
mod crash;
mod delete;
mod discover;
mod expiring;
mod faults;
mod frame_probing;
mod gaps;
mod generations;
mod hours;
mod in_time;
mod joined;
mod kit;
mod library;
mod line;
mod line_crash;
mod line_kit;
mod mortal_journal;
mod newest_rules;
mod odd;
mod races;
mod reading_one;
mod rebuilding;
mod redacting;
mod settling;
mod sweeping;
mod tables;
mod traces;
mod troubled;
mod two_lakes;
mod work;
mod works;
