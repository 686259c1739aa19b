//! The integration tests of collecting.
