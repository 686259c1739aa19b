//! What happens to objects once they are in the lake. Every stage reads objects, writes objects and adds journal entries;
//! none calls another.
//!
//! | look here | for |
//! |---|---|
//! | [`consolidate`] | the archives of an hour become one, whatever other replicas do at the same time |
//! | [`work_list`] | which hours are to be consolidated, as entries of a journal, and who does it |
//! | [`scan`] | finding the hours that need it, from the lake alone |
//! | [`delete`] | removing hours for good, and lifting that |
//! | [`audit`] | what is unmerged, damaged, or missing in a mirror, and mending it |
//! | [`retrieve`] | getting hours out of the lake, as files |
//! | [`gaps`] | what was collected of an hour, and what was not |
//! | [`frame_probe`] | how large the frames of archives should be on a lake |
//! | [`measurement`] | reading one measurement of an archive |
//! | [`bucket`] | what a sealed bucket holds |
//! | [`HourFolder`] | what lies in the folder of an hour, by its names |
//! | [`stage`] | the stages that reports pass, the keys of their work, and what every stage needs |
//! | [`inputs`] | the objects of the lake that reports come from |
//! | [`discover`] | which of them are in no can yet |
//! | [`canning`] | they become cans of a bucket that is open |
//! | [`seal`] | the cans of a bucket get their final names and bytes |
//! | [`admission`] | how much may run at once |
//! | [`verify`] | a can or an archive is read from end to end, and compared with its index |
//! | [`generation`] | which rules are in force, and which follow |
//! | [`clear`] | report files that are in verified cans are removed |
//! | [`sweep`] | what was replaced is removed |
//! | [`keep`], [`expire`] | how long cans and archives are kept, and what is kept no longer goes |
//! | [`line`](mod@line) | a journal's worker runs the stages, and what follows is added |
//! | [`autoclave`] | a can becomes an archive of sanitised measurements |
//! | [`joined`] | the indexes of a sealed bucket become one |
//! | [`centrifuge`] | an archive becomes rows of the catalog |
//! | `cover.rs` | what came of each hour of a feed becomes rows of the catalog |
//! | [`features`] | what is taken out of measurements into tables |
//! | [`holdings`] | what the lake has of a bucket, and what of it belongs into the catalog |
//! | [`look`] | what the lake has of a bucket, counted for people |
//! | [`rebuild`] | the catalog is made anew, from the lake alone |
//! | [`redact`] | one measurement is taken out of every archive, for good |
//! | [`check`] | whether indexes, objects and the catalog agree |
//! | [`export`] | which objects other programs can read as they are |
//! | [`trace`] | the way of one measurement, from its source to its rows |
#![warn(missing_docs)]

pub mod admission;
mod archive_index;
mod archive_writer;
pub mod audit;
pub mod autoclave;
mod blocking;
pub mod bucket;
pub mod canning;
mod cans;
pub mod centrifuge;
pub mod check;
pub mod clear;
pub mod consolidate;
mod cover;
pub mod delete;
pub mod discover;
mod entry_length;
mod error;
pub mod expire;
pub mod export;
pub mod features;
mod fetch_file;
mod fetched;
pub mod frame_probe;
pub mod gaps;
pub mod generation;
pub mod holdings;
mod hour_folder;
pub mod inputs;
pub mod joined;
pub mod keep;
mod lake_key;
pub mod line;
pub mod look;
pub mod measurement;
pub mod rebuild;
pub mod redact;
mod report_facts;
pub mod retrieve;
pub mod scan;
mod scope;
mod scratch;
pub mod seal;
pub mod stage;
mod store;
mod succession;
pub mod sweep;
pub mod trace;
pub mod verify;
pub mod work_list;

pub use cans::Refused;
pub use error::Error;
pub use hour_folder::{HourFolder, Secondary};
pub use lake_key::lake_key;
pub use scope::{Listed, Scope};
pub use scratch::Scratch;
pub use store::{Algorithm, Store};
