//! Whole retrieves, from a lake to a folder.

mod again;
mod disk;
mod hostile;
mod kill;
mod layout;
mod paged;
mod support;
mod union;
