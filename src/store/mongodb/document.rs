//! Writing BSON piece by piece into one buffer. The library's raw documents are put together from finished values, each
//! copied into the one around it; an event's payload would be copied once for every level of its nesting.

use mongodb::bson::RawDocumentBuf;

/// The types that are written, with their numbers in BSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Boolean = 0x08,
    Null = 0x0a,
    Int32 = 0x10,
    Int64 = 0x12,
}

/// Leaves room for the length of what follows.
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Ends the document or array that begins at `start`.
pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Ends the string that begins at `start`.
pub(super) fn close_string(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// One document. Names are our own, or were looked at: they have no NUL.
pub(super) struct Writer {
    out: Vec<u8>,
    start: usize,
}

impl Writer {
    pub fn new(capacity: usize) -> Writer {
        let mut out = Vec::with_capacity(capacity);
        let start = open(&mut out);
        Writer { out, start }
    }

    fn name(&mut self, kind: Kind, name: &str) {
        self.out.push(kind as u8);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
    }

    pub fn raw(&mut self, name: &str, kind: Kind, bytes: &[u8]) {
        self.name(kind, name);
        self.out.extend_from_slice(bytes);
    }

    pub fn string(&mut self, name: &str, text: &str) {
        self.name(Kind::String, name);
        let start = open(&mut self.out);
        self.out.extend_from_slice(text.as_bytes());
        close_string(&mut self.out, start);
    }

    pub fn int32(&mut self, name: &str, number: i32) {
        self.raw(name, Kind::Int32, &number.to_le_bytes());
    }

    pub fn int64(&mut self, name: &str, number: i64) {
        self.raw(name, Kind::Int64, &number.to_le_bytes());
    }

    /// A document or array, filled by `fill`.
    pub fn nested(&mut self, name: &str, kind: Kind, fill: impl FnOnce(&mut Writer)) {
        self.name(kind, name);
        let outer = self.start;
        self.start = open(&mut self.out);
        fill(self);
        close(&mut self.out, self.start);
        self.start = outer;
    }

    /// `None` cannot be, for what is written here is a document.
    pub fn finish(mut self) -> Option<RawDocumentBuf> {
        close(&mut self.out, self.start);
        RawDocumentBuf::from_bytes(self.out).ok()
    }
}
