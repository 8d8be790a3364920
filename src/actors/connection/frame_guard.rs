//! Reads the heads of frames before actix-http does, which looks at a frame's length only once all of it is in memory.
//! Here a frame is refused on what its head declares, and not a byte of it is passed on.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use actix_web::error::PayloadError;
use bytes::Bytes;
use futures_util::Stream;
use tokio::task::JoinHandle;

use crate::protocol::CloseCode;

/// The longest head: two bytes, eight of length, four of mask.
const HEAD_MAX: usize = 14;
/// The length of a mask.
const MASK: usize = 4;
/// The largest payload of a control frame.
const CONTROL_MAX: u64 = 125;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
/// A close frame's code, before its reason.
const CODE: usize = 2;

/// How many bytes of a client are looked at before others on its thread have their turn: about a hundred small frames.
const SLICE: usize = 8 << 10;

/// Why no more frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer sent what it must not.
    Refused(CloseCode, &'static str),
    /// The peer is gone without a close.
    Lost,
}

/// Where the guard leaves its word for the actor.
pub(super) type Verdict = Arc<OnceLock<Ending>>;

/// Follows the bytes of a client's frames from head to head.
#[derive(Debug)]
struct Scanner {
    /// The most bytes of a message, all its fragments together.
    limit: u64,
    head: [u8; HEAD_MAX],
    head_len: usize,
    /// The length that the head declares.
    declared: u64,
    /// What is left of the frame's payload.
    payload: u64,
    /// The bytes so far of a message that came in part.
    fragmented: Option<u64>,
    /// What a close frame says, as far as it is there: the codec does not tell a reason that is not UTF-8 from a bad code.
    close: Option<Vec<u8>>,
}

impl Scanner {
    fn new(limit: usize) -> Scanner {
        Scanner {
            limit: limit as u64,
            head: [0; HEAD_MAX],
            head_len: 0,
            declared: 0,
            payload: 0,
            fragmented: None,
            close: None,
        }
    }

    /// Follows a piece of the stream. An error says how many of its bytes are before the frame that is refused.
    fn scan(&mut self, bytes: &[u8]) -> Result<(), (usize, Ending)> {
        let (mut at, mut frame_at) = (0, 0);
        while let Some(byte) = bytes.get(at) {
            if self.payload > 0 {
                let here = (bytes.len() - at) as u64;
                let skipped = self.payload.min(here);
                self.payload -= skipped;
                let end = at + usize::try_from(skipped).unwrap_or(bytes.len());
                self.read_close(bytes.get(at..end).unwrap_or_default())
                    .map_err(|ending| (frame_at, ending))?;
                at = end;
                continue;
            }
            if self.head_len == 0 {
                frame_at = at;
            }
            if let Some(slot) = self.head.get_mut(self.head_len) {
                *slot = *byte;
            }
            self.head_len += 1;
            at += 1;
            self.check_head().map_err(|ending| (frame_at, ending))?;
        }
        Ok(())
    }

    /// Looks at the head as far as it is there; a whole one begins its payload.
    fn check_head(&mut self) -> Result<(), Ending> {
        let [first, second, ..] = self.head;
        if self.head_len < 2 {
            return Ok(());
        }
        if self.head_len == 2 {
            self.check_kind(first, second)?;
        }
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.head_len == 2 + extended {
            let bytes = self.head.get(2..2 + extended).unwrap_or_default();
            self.declared = match extended {
                0 => u64::from(second & 0x7f),
                _ => bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
            };
            self.check_length(first)?;
        }
        if self.head_len == 2 + extended + MASK {
            self.head_len = 0;
            self.payload = self.declared;
            self.close = (first & 0x0f == CLOSE).then(Vec::new);
        }
        Ok(())
    }

    /// Keeps what a close frame says, and looks at its reason once all of it is there.
    fn read_close(&mut self, masked: &[u8]) -> Result<(), Ending> {
        let Some(close) = &mut self.close else { return Ok(()) };
        let mask: Vec<u8> = self.head.iter().skip(2).take(MASK).copied().collect();
        let turned = mask.iter().cycle().skip(close.len() % MASK);
        close.extend(masked.iter().zip(turned).map(|(byte, mask)| byte ^ mask));
        let reason = close.get(CODE..).unwrap_or_default();
        if self.payload == 0 && std::str::from_utf8(reason).is_err() {
            let why = "the reason of a close is not UTF-8";
            return Err(Ending::Refused(CloseCode::InvalidData, why));
        }
        Ok(())
    }

    /// The first two bytes: what kind of frame this is, and whether it may come here.
    fn check_kind(&self, first: u8, second: u8) -> Result<(), Ending> {
        let (last, opcode) = (first & 0x80 != 0, first & 0x0f);
        let wrong = if first & 0x70 != 0 {
            "reserved bits are set"
        } else if second & 0x80 == 0 {
            "a client's frames are masked"
        } else {
            match opcode {
                CONTINUATION if self.fragmented.is_none() => "nothing to continue",
                TEXT | BINARY if self.fragmented.is_some() => "a message within a message",
                CONTINUATION | TEXT | BINARY => return Ok(()),
                0x8..=0xa if !last => "a control frame in fragments",
                0x8..=0xa if u64::from(second & 0x7f) > CONTROL_MAX => "a control frame over 125 bytes",
                0x8..=0xa => return Ok(()),
                _ => "no such opcode",
            }
        };
        Err(Ending::Refused(CloseCode::ProtocolError, wrong))
    }

    /// The declared length, together with the fragments before it.
    fn check_length(&mut self, first: u8) -> Result<(), Ending> {
        if self.declared > i64::MAX as u64 {
            return Err(Ending::Refused(CloseCode::ProtocolError, "a length of 64 bits"));
        }
        if first & 0x08 != 0 {
            return Ok(());
        }
        let message = self.fragmented.unwrap_or(0) + self.declared;
        if message > self.limit {
            return Err(Ending::Refused(CloseCode::TooBig, "frame over limits.frame_bytes"));
        }
        self.fragmented = (first & 0x80 == 0).then_some(message);
        Ok(())
    }
}

/// A client's bytes, up to the first frame that is refused: there they end.
pub(super) struct FrameGuard<S> {
    bytes: S,
    scanner: Scanner,
    verdict: Verdict,
    /// What came and was not looked at yet.
    rest: Bytes,
    /// How many bytes were looked at since others had their turn.
    taken: usize,
    /// Ends when they had it. A task of its own, because the codec asks again and again in one turn.
    others: Option<JoinHandle<()>>,
}

impl<S> FrameGuard<S> {
    /// `limit` is the most bytes of a message.
    pub(super) fn new(bytes: S, limit: usize, verdict: Verdict) -> FrameGuard<S> {
        FrameGuard {
            bytes,
            scanner: Scanner::new(limit),
            verdict,
            rest: Bytes::new(),
            taken: 0,
            others: None,
        }
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Stream for FrameGuard<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let guard = self.get_mut();
        if guard.verdict.get().is_some() {
            return Poll::Ready(None);
        }
        if let Some(others) = &mut guard.others {
            // However it ended, they had it.
            let _ = std::task::ready!(Pin::new(others).poll(cx));
            guard.others = None;
        }
        let next = match guard.rest.is_empty() {
            true => std::task::ready!(Pin::new(&mut guard.bytes).poll_next(cx)),
            false => Some(Ok(std::mem::take(&mut guard.rest))),
        };
        match next {
            Some(Ok(mut bytes)) => {
                let left = SLICE - guard.taken;
                guard.rest = bytes.split_off(bytes.len().min(left));
                guard.taken += bytes.len();
                if guard.taken == SLICE {
                    guard.taken = 0;
                    guard.others = Some(tokio::task::spawn_local(async {}));
                }
                if let Err((good, ending)) = guard.scanner.scan(&bytes) {
                    let _ = guard.verdict.set(ending);
                    // The frames before it are answered first.
                    bytes.truncate(good);
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            ended => {
                let _ = guard.verdict.set(Ending::Lost);
                Poll::Ready(ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match payload {
            0..=125 => frame.push(0x80 | u8::try_from(payload).unwrap()),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&u16::try_from(payload).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(payload as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0xff; MASK]);
        frame.resize(frame.len() + payload, 0x8f);
        frame
    }

    /// In pieces of every size from one byte on: where it was refused, and why.
    fn verdicts(bytes: &[u8]) -> Vec<Option<(usize, Ending)>> {
        [1, 2, 3, 7, bytes.len()]
            .into_iter()
            .map(|piece| {
                let mut scanner = Scanner::new(70_000);
                let mut before = 0;
                for piece in bytes.chunks(piece) {
                    if let Err((at, ending)) = scanner.scan(piece) {
                        return Some((before + at, ending));
                    }
                    before += piece.len();
                }
                None
            })
            .collect()
    }

    fn refused(bytes: &[u8], code: CloseCode) {
        for verdict in verdicts(bytes) {
            assert!(
                matches!(verdict, Some((_, Ending::Refused(given, _))) if given == code),
                "{verdict:?} of {:?}",
                bytes.get(..8)
            );
        }
    }

    #[test]
    fn whole_messages_fragments_and_control_frames_between_them_pass() {
        let mut bytes = Vec::new();
        for payload in [0, 1, 125, 126, 65_535, 65_536, 70_000] {
            bytes.extend(frame(0x81, payload));
            bytes.extend(frame(0x82, payload));
        }
        bytes.extend(frame(0x01, 40_000));
        bytes.extend(frame(0x89, 125));
        bytes.extend(frame(0x00, 20_000));
        bytes.extend(frame(0x8a, 0));
        bytes.extend(frame(0x80, 10_000));
        bytes.extend(frame(0x88, 2));
        assert_eq!(verdicts(&bytes), vec![None; 5]);
    }

    #[test]
    fn what_is_too_long_is_refused_on_its_head() {
        refused(&frame(0x81, 70_001)[..10], CloseCode::TooBig);
        refused(&[0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0], CloseCode::TooBig);
        let mut fragments = frame(0x01, 60_000);
        fragments.extend(&frame(0x80, 10_001)[..4]);
        refused(&fragments, CloseCode::TooBig);
    }

    #[test]
    fn every_wrong_head_is_a_protocol_error() {
        for first in [0xc1, 0xa1, 0x91] {
            refused(&frame(first, 1), CloseCode::ProtocolError);
        }
        for opcode in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
            refused(&frame(0x80 | opcode, 1), CloseCode::ProtocolError);
        }
        for control in [0x08, 0x09, 0x0a] {
            refused(&frame(control, 1), CloseCode::ProtocolError);
            refused(&frame(0x80 | control, 126), CloseCode::ProtocolError);
        }
        refused(&[0x81, 0x01, b'a'], CloseCode::ProtocolError);
        refused(&frame(0x80, 1), CloseCode::ProtocolError);
        refused(&[frame(0x01, 1), frame(0x81, 1)].concat(), CloseCode::ProtocolError);
        let mut negative = frame(0x81, 70_000)[..10].to_vec();
        negative[2] = 0x80;
        refused(&negative, CloseCode::ProtocolError);
    }

    #[test]
    fn a_close_has_its_reason_in_utf_8() {
        let close = |payload: &[u8]| {
            let mask = [0x11, 0x22, 0x33, 0x44];
            let mut bytes = vec![0x88, 0x80 | u8::try_from(payload.len()).unwrap()];
            bytes.extend(mask);
            bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
            bytes
        };
        for good in [
            &b""[..],
            b"\x03\xe8",
            b"\xff\xff",
            "\u{3}\u{0}κόσμε".as_bytes(),
            b"\x03\xe8bye",
        ] {
            assert_eq!(verdicts(&close(good)), vec![None; 5], "{good:x?}");
        }
        for bad in [&b"\x03\xe8\xff"[..], b"\x03\xe8\xce", b"\x03\xe8ok\xed\xa0\x80"] {
            refused(&close(bad), CloseCode::InvalidData);
            // What a ping carries is its own business.
            let mut ping = close(bad);
            ping[0] = 0x89;
            assert_eq!(verdicts(&ping), vec![None; 5]);
        }
    }

    #[test]
    fn what_came_before_the_refused_frame_is_passed_on() {
        let good = [frame(0x81, 5), frame(0x89, 3)].concat();
        let bytes = [good.clone(), frame(0x83, 1)].concat();
        let (at, _) = Scanner::new(100).scan(&bytes).unwrap_err();
        assert_eq!(at, good.len());
    }
}
