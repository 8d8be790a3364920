//! The bytes of a stored value: a version, a checksum over key and body, the body. What a disk gives back is decoded with
//! checks at every step, so that damage is an answer (`None`) and never a panic.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const VERSION: u8 = 1;
const HEAD: usize = 9;

/// A value that is being written.
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub fn with_capacity(body: usize) -> Encoder {
        let mut bytes = Vec::with_capacity(HEAD + body);
        bytes.resize(HEAD, 0);
        Encoder(bytes)
    }

    pub fn u8(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Bytes with their length before them. No value comes near 4 GiB: the writer refuses events long before.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut encoder = self.u32(bytes.len() as u32);
        encoder.0.extend_from_slice(bytes);
        encoder
    }

    pub fn optional(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.u8(1).bytes(text.as_bytes()),
            None => self.u8(0),
        }
    }

    pub fn numbers(self, numbers: &[u64]) -> Self {
        let encoder = self.u32(numbers.len() as u32);
        numbers.iter().fold(encoder, |encoder, number| encoder.u64(*number))
    }

    /// The finished value of this key.
    pub fn seal(self, key: &[u8]) -> Vec<u8> {
        let mut bytes = self.0;
        let sum = checksum(key, bytes.get(HEAD..).unwrap_or_default());
        for (to, from) in bytes.iter_mut().zip(std::iter::once(VERSION).chain(sum.to_le_bytes())) {
            *to = from;
        }
        bytes
    }
}

/// The key goes in too: a whole value in a wrong place is damage as well.
fn checksum(key: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(key))
}

/// A value that is being read. Every step gives `None` where the bytes are not what it expects.
pub(super) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Checks version and checksum.
    pub fn open(key: &[u8], value: &'a [u8]) -> Option<Decoder<'a>> {
        let (head, body) = value.split_at_checked(HEAD)?;
        let (version, sum) = head.split_first()?;
        let sum = u64::from_le_bytes(sum.try_into().ok()?);
        (*version == VERSION && sum == checksum(key, body)).then_some(Decoder(body))
    }

    /// Decodes a whole value: nothing may be left over.
    pub fn whole<T>(key: &[u8], value: &'a [u8], decode: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut decoder = Decoder::open(key, value)?;
        let decoded = decode(&mut decoder)?;
        decoder.0.is_empty().then_some(decoded)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub fn optional(&mut self) -> Option<Option<&'a str>> {
        match self.optional_bytes()? {
            Some(bytes) => std::str::from_utf8(bytes).ok().map(Some),
            None => Some(None),
        }
    }

    pub fn optional_bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => self.bytes().map(Some),
            _ => None,
        }
    }

    pub fn numbers(&mut self) -> Option<Vec<u64>> {
        let count = self.u32()? as usize;
        let bytes = self.take(count.checked_mul(8)?)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        Some(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let encoder = Encoder::with_capacity(0).u8(7).u32(8).u64(9).bytes(b"abc");
        encoder
            .optional(Some("é"))
            .optional(None)
            .numbers(&[1, u64::MAX])
            .seal(b"key")
    }

    /// What the sample says, as text.
    fn decode(key: &[u8], value: &[u8]) -> Option<String> {
        Decoder::whole(key, value, |decoder| {
            let numbers = (decoder.u8()?, decoder.u32()?, decoder.u64()?);
            let texts = (decoder.bytes()?, decoder.optional()?, decoder.optional()?);
            Some(format!("{numbers:?} {texts:?} {:?}", decoder.numbers()?))
        })
    }

    #[test]
    fn what_was_sealed_is_read_back() {
        let expected = r#"(7, 8, 9) ([97, 98, 99], Some("é"), None) [1, 18446744073709551615]"#;
        assert_eq!(decode(b"key", &sample()).as_deref(), Some(expected));
    }

    #[test]
    fn every_flip_every_cut_and_a_wrong_place_are_seen() {
        let value = sample();
        for at in 0..value.len() {
            assert_eq!(decode(b"key", &value[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut flipped = value.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(decode(b"key", &flipped), None, "bit {bit} of {at}");
            }
        }
        assert_eq!(decode(b"other", &value), None);
    }
}
