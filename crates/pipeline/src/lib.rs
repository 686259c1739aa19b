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
//! | [`HourFolder`] | what lies in the folder of an hour, by its names |
#![warn(missing_docs)]

pub mod audit;
mod blocking;
pub mod consolidate;
pub mod delete;
mod error;
mod fetched;
pub mod gaps;
mod hour_folder;
pub mod retrieve;
pub mod scan;
mod scope;
mod scratch;
mod store;
pub mod work_list;

pub use error::Error;
pub use hour_folder::{HourFolder, Secondary};
pub use scope::Scope;
pub use scratch::Scratch;
pub use store::{Algorithm, Store};
