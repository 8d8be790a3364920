//! The mark: the number of the newest commit that is on disk, in a file of its own.
//!
//! It is the second witness. The database can lose its newest commits to damage and open without a word; below its mark
//! the store does not open. The number is written after each commit that was synced, so it is never ahead of the data;
//! it is handed to the operating system at once (so it is exact after `kill -9`) and synced at most once a second (so
//! after a power cut it may be older). Two slots in turn: a torn write harms only the one that was about to be replaced.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::codec::{Decoder, Encoder};

const SLOT_BYTES: usize = 512;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
const SLOT_NAMES: [&[u8]; 2] = [b"mark-0", b"mark-1"];

/// The file.
pub(super) struct Mark {
    file: File,
    number: u64,
    synced: Option<Instant>,
}

impl Mark {
    /// Makes the file, with the number 0.
    pub fn create(path: &Path) -> io::Result<Mark> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.set_len((SLOT_NAMES.len() * SLOT_BYTES) as u64)?;
        let mut mark = Mark {
            file,
            number: 0,
            synced: None,
        };
        mark.put(0)?;
        mark.sync()?;
        Ok(mark)
    }

    /// Opens the file; `None` where it holds no number that can be read.
    pub fn open(path: &Path) -> io::Result<Option<Mark>> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let slots = bytes.chunks(SLOT_BYTES).zip(SLOT_NAMES);
        let number = slots.filter_map(|(slot, name)| {
            let value = slot.get(..ENCODED_BYTES)?;
            Decoder::whole(name, value, |decoder| decoder.u64())
        });
        Ok(number.max().map(|number| Mark {
            file,
            number,
            synced: None,
        }))
    }

    /// The number of the newest commit that is known to be on disk.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes that the commit is on disk. Call it only after that is true.
    pub fn put(&mut self, number: u64) -> io::Result<()> {
        let slot = usize::from(number % 2 == 1);
        let name = SLOT_NAMES.get(slot).copied().unwrap_or_default();
        self.file.seek(SeekFrom::Start((slot * SLOT_BYTES) as u64))?;
        self.file.write_all(&Encoder::with_capacity(8).u64(number).seal(name))?;
        self.number = number;
        Ok(())
    }

    /// Syncs the file, if that was not done within the last second.
    pub fn sync_sometimes(&mut self) -> io::Result<()> {
        match self.synced {
            Some(synced) if synced.elapsed() < SYNC_INTERVAL => Ok(()),
            _ => self.sync(),
        }
    }

    /// Syncs the file.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = Some(Instant::now());
        Ok(())
    }
}

/// Version, checksum and number.
const ENCODED_BYTES: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_number_is_read_back_and_a_torn_slot_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("MARK");
        let mut mark = Mark::create(&path).unwrap();
        assert_eq!(Mark::open(&path).unwrap().unwrap().number(), 0);
        for number in 1..=7 {
            mark.put(number).unwrap();
            assert_eq!(Mark::open(&path).unwrap().unwrap().number(), number);
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT_BYTES + 12] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Mark::open(&path).unwrap().unwrap().number(), 6);
        bytes[3] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(Mark::open(&path).unwrap().is_none());
    }
}
