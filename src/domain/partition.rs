//! Which partition an event belongs to.

use xxhash_rust::xxh3::xxh3_64;

/// `jump(xxh3_64(key or id), partitions)`: the same for every store and every gateway, for ever.
///
/// ```
/// use tidegate::domain::partition_of;
/// assert_eq!(partition_of("device-7", 8), partition_of("device-7", 8));
/// assert!(partition_of("device-7", 8) < 8);
/// ```
pub fn partition_of(key_or_id: &str, partitions: u32) -> u32 {
    jump(xxh3_64(key_or_id.as_bytes()), partitions)
}

/// Lamping and Veach's jump consistent hash, as in their paper.
fn jump(mut hash: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0_i64, 0_i64);
    while next < i64::from(buckets) {
        bucket = next;
        hash = hash.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let step = f64::from(1_u32 << 31) / (((hash >> 33) + 1) as f64);
        next = ((bucket + 1) as f64 * step) as i64;
    }
    bucket as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_move_when_a_partition_is_added() {
        let moved = (0..10_000)
            .map(|n| format!("key-{n}"))
            .filter(|key| partition_of(key, 8) != partition_of(key, 9))
            .count();
        // One ninth of them is what the paper promises; a plain modulo would move eight ninths.
        assert!((900..1_350).contains(&moved), "{moved}");
    }

    #[test]
    fn the_mapping_never_changes() {
        // Figures that stored topics depend on: a change here orphans every cursor.
        let found: Vec<u32> = ["a", "b", "device-7", "", "é"]
            .iter()
            .map(|key| partition_of(key, 8))
            .collect();
        assert_eq!(found, FROZEN);
        assert_eq!(partition_of("anything", 1), 0);
    }

    const FROZEN: [u32; 5] = [1, 2, 5, 0, 3];
}
