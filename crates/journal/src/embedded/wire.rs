//! Numbers and texts in a few bytes: seven bits a byte, the small numbers first.

/// Writes to the end of a buffer.
pub(super) trait Put {
    fn u8(&mut self, value: u8);
    fn number(&mut self, value: u64);
    /// A number that may be negative, near zero as a rule.
    fn signed(&mut self, value: i64);
    fn fixed(&mut self, value: u64);
    fn bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn number(&mut self, mut value: u64) {
        while value > 0x7f {
            self.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.push((value & 0x7f) as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63).cast_unsigned());
    }

    fn fixed(&mut self, value: u64) {
        self.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.extend(value);
    }
}

/// The bytes end early, or mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Reads from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Take<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Take<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn is_empty(&self) -> bool {
        self.offset == self.bytes.len()
    }

    pub(super) fn u8(&mut self) -> Result<u8, Unreadable> {
        let byte = *self.bytes.get(self.offset).ok_or(Unreadable)?;
        self.offset += 1;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, Unreadable> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Unreadable);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Unreadable)
    }

    pub(super) fn signed(&mut self) -> Result<i64, Unreadable> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn fixed(&mut self) -> Result<u64, Unreadable> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.slice(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Unreadable> {
        let length = usize::try_from(self.number()?).map_err(|_| Unreadable)?;
        self.slice(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Unreadable)
    }

    pub(super) fn slice(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let end = self.offset.checked_add(length).ok_or(Unreadable)?;
        let slice = self.bytes.get(self.offset..end).ok_or(Unreadable)?;
        self.offset = end;
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_is_taken(number: u64, signed: i64, fixed: u64, bytes: Vec<u8>) {
            let mut buffer = Vec::new();
            buffer.number(number);
            buffer.signed(signed);
            buffer.fixed(fixed);
            buffer.bytes(&bytes);
            let mut take = Take::new(&buffer);
            prop_assert_eq!(take.number(), Ok(number));
            prop_assert_eq!(take.signed(), Ok(signed));
            prop_assert_eq!(take.fixed(), Ok(fixed));
            prop_assert_eq!(take.bytes(), Ok(&bytes[..]));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            let mut take = Take::new(&bytes);
            while !take.is_empty() && take.number().is_ok() && take.text().is_ok() {}
        }
    }
}
