//! Why a measurement is bad.

/// How deep arrays and objects may be nested: the limit of everything that reads measurements here.
pub(crate) const DEPTH_MAX: usize = 100;

/// Why some bytes are no measurement. It stands in public indexes, so it never quotes what it is about; positions count
/// bytes from the start of the measurement, at 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// There is nothing but white space.
    #[error("it is empty")]
    Empty,
    /// The bytes are not text.
    #[error("it is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Where.
        at: usize,
    },
    /// It ends in the middle.
    #[error("it is cut off at byte {at}: expected {expected}")]
    CutOff {
        /// Where it ends.
        at: usize,
        /// What could stand there.
        expected: &'static str,
    },
    /// Something else stands here.
    #[error("it is not JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Where.
        at: usize,
        /// What could stand here.
        expected: &'static str,
    },
    /// It is JSON, but no object.
    #[error("it is JSON, but not an object")]
    NotAnObject,
    /// Readers differ in which of the two they take, so one could be sanitised and the other be read.
    #[error("an object has a key twice, the second time at byte {at}")]
    DuplicateKey {
        /// Where the second one begins.
        at: usize,
    },
    /// It is nested too deep for usual readers.
    #[error("it is nested deeper than {DEPTH_MAX} levels at byte {at}")]
    TooDeep {
        /// Where.
        at: usize,
    },
    /// There is more after the object.
    #[error("something follows the JSON object at byte {at}")]
    Trailing {
        /// Where.
        at: usize,
    },
    /// It is longer than a measurement may be.
    #[error("it has more than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// A YAML document that cannot be read.
    #[error("it is not YAML at line {line} of the document: {reason}")]
    Yaml {
        /// Counted from the document's first line, at 1.
        line: usize,
        /// In the words of the parser, which quotes no content.
        reason: String,
    },
    /// Aliases that refer to aliases make a large text of a small one.
    #[error("its aliases expand to more than {max} bytes")]
    AliasBomb {
        /// The limit.
        max: usize,
    },
    /// A YAML document that is something else than a map.
    #[error("it is a YAML document, but not a map")]
    NotAMap,
    /// An entry whose report began with a header that could not be read.
    #[error("the header of its report is bad")]
    NoHeader,
}
