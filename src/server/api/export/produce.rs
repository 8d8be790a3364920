//! The side of an export that reads: page after page, as fast as they are taken.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::mpsc;

use crate::actors::shared::Shared;
use crate::actors::start::within_deadline;
use crate::domain::TopicName;
use crate::protocol::{ErrorCode, Failure};
use crate::store::{Framing, LineRange};

/// The bytes of one piece, roughly.
const PIECE_BYTES: usize = 512 << 10;
/// The most events that are looked at for one piece: where few are in the range of times, its reader still hears of it.
const PIECE_EVENTS: usize = 16_384;

/// What to export.
pub(super) struct Export {
    pub(super) topic: TopicName,
    pub(super) seqs: RangeInclusive<u64>,
    pub(super) ts: RangeInclusive<u64>,
    pub(super) framing: Framing,
    pub(super) gzip: bool,
}

/// A part of an export on its way to the socket.
pub(super) enum Piece {
    Content(Bytes),
    /// All of it was sent. What ends without this is not complete.
    End,
    Broken(Failure),
}

/// Reads an export and hands it over. Ends early where nobody takes it any more.
pub(super) async fn produce(shared: Arc<Shared>, export: Export, pieces: mpsc::Sender<Piece>) {
    let mut writer = Writer::new(&export);
    let mut next = *export.seqs.start();
    let last = *export.seqs.end();
    while next <= last {
        // The place first, then the page: nothing is read ahead that could not be handed over.
        let Ok(place) = pieces.reserve().await else { return };
        let range = LineRange {
            seqs: next..=last,
            ts: export.ts.clone(),
            framing: export.framing,
            max_events: PIECE_EVENTS,
            max_bytes: PIECE_BYTES,
        };
        shared.faults.at("export.read");
        let lines = match within_deadline(shared.store.read_lines(&export.topic, range)).await {
            Ok(lines) => lines,
            Err(failure) => return place.send(Piece::Broken(failure)),
        };
        next = lines.upto.map_or(last, |upto| upto.max(next)).saturating_add(1);
        match writer.write(lines.json).await {
            Ok(content) if content.is_empty() => {}
            Ok(content) => place.send(Piece::Content(content)),
            Err(failure) => return place.send(Piece::Broken(failure)),
        }
    }
    for last in [
        writer.finish().await.map_or_else(Piece::Broken, Piece::Content),
        Piece::End,
    ] {
        let is_empty = matches!(&last, Piece::Content(content) if content.is_empty());
        let is_broken = matches!(&last, Piece::Broken(_));
        if !is_empty && (pieces.send(last).await.is_err() || is_broken) {
            return;
        }
    }
}

/// Makes a body of events' JSON.
struct Writer {
    framing: Framing,
    begun: bool,
    /// Taken while it works on a thread of its own.
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl Writer {
    fn new(export: &Export) -> Writer {
        Writer {
            framing: export.framing,
            begun: false,
            gzip: export.gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    async fn write(&mut self, mut json: Vec<u8>) -> Result<Bytes, Failure> {
        if self.framing == Framing::List && !self.begun {
            // The comma before the first event.
            if let Some(first) = json.first_mut() {
                *first = b'[';
                self.begun = true;
            }
        }
        self.compress(json, false).await
    }

    async fn finish(&mut self) -> Result<Bytes, Failure> {
        let end: &[u8] = match (self.framing, self.begun) {
            (Framing::Line, _) => b"",
            (Framing::List, true) => b"]",
            (Framing::List, false) => b"[]",
        };
        self.compress(end.to_vec(), true).await
    }

    async fn compress(&mut self, content: Vec<u8>, last: bool) -> Result<Bytes, Failure> {
        let Some(mut encoder) = self.gzip.take() else {
            return Ok(content.into());
        };
        let work = tokio::task::spawn_blocking(move || {
            encoder.write_all(&content)?;
            if last {
                let rest = encoder.finish()?;
                return Ok::<_, std::io::Error>((None, rest));
            }
            let ready = std::mem::take(encoder.get_mut());
            Ok((Some(encoder), ready))
        });
        let broke = |error: &dyn std::fmt::Display| {
            Failure::new(ErrorCode::StoreUnavailable, format!("compressing broke down: {error}"))
        };
        let (encoder, ready) = work
            .await
            .map_err(|error| broke(&error))?
            .map_err(|error| broke(&error))?;
        self.gzip = encoder;
        Ok(ready.into())
    }
}
