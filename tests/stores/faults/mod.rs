//! What a damaged folder does to the embedded store: it opens with everything that was answered, or it says that it
//! cannot. Never less, without a word.

mod image;
mod operations;

use tidegate::domain::Durability;
use tidegate::store::OpenError;

use self::image::*;
use crate::bench::*;

#[tokio::test]
async fn an_image_of_a_killed_process_opens_whole() {
    let image = image(40).await;
    assert!(opens_whole(image.folder.path(), &image.contents, "as it is").await);
    assert!(opens_whole(image.folder.path(), &image.contents, "a second time").await);
}

#[tokio::test]
async fn flipped_bits_in_the_journal_are_seen() {
    let image = image(60).await;
    let len = data_len(&std::fs::read(journal(image.folder.path())).unwrap());
    let mut opened = 0;
    for (n, place) in places(2_000, (len + 100) * 8).enumerate() {
        let (byte, bit) = (place / 8, place % 8);
        let folder = changed(&image, |bytes| bytes[byte] ^= 1 << bit);
        let what = format!("flip {n}, bit {bit} of byte {byte} of {len}");
        let whole = opens_whole(folder.path(), &image.contents, &what).await;
        opened += u32::from(whole);
        assert!(
            !whole || byte >= len || in_a_batch_number(&image, byte),
            "{what}: opened"
        );
    }
    println!("{opened} of 2,000 opened whole, the others were refused");
}

#[tokio::test]
async fn a_journal_cut_anywhere_is_seen() {
    let image = image(30).await;
    let len = data_len(&std::fs::read(journal(image.folder.path())).unwrap());
    // Every byte of the last commits, and samples of what is before them.
    for cut in (0..len).step_by(97).chain(len.saturating_sub(2_000)..len) {
        let folder = changed(&image, |bytes| bytes.truncate(cut));
        assert!(
            !opens_whole(folder.path(), &image.contents, &format!("cut at {cut} of {len}")).await,
            "cut at {cut} of {len}: opened without what was answered"
        );
    }
    let folder = changed(&image, |bytes| bytes.truncate(len));
    assert!(opens_whole(folder.path(), &image.contents, "only zeros are gone").await);
}

#[tokio::test]
async fn a_torn_commit_that_was_never_answered_is_left_out() {
    let images = images(&[Durability::Fsync; 4]).await;
    let (older, newer) = (&images[2], &images[3]);
    let (from, to) = (len_of(older), len_of(newer));
    for cut in (from..to).step_by(61) {
        let folder = unanswered(older, newer, |bytes| bytes.truncate(cut));
        assert!(opens_whole(folder.path(), &older.contents, &format!("cut at {cut}")).await);
        let folder = unanswered(older, newer, |bytes| bytes[cut..].fill(0));
        assert!(opens_whole(folder.path(), &older.contents, &format!("zeros from {cut}")).await);
    }
    // A power cut may leave any sectors unwritten, not only the last ones.
    for sector in (from.next_multiple_of(512)..to - 512).step_by(512) {
        let folder = unanswered(older, newer, |bytes| bytes[sector..sector + 512].fill(0));
        assert!(opens_whole(folder.path(), &older.contents, &format!("no sector {sector}")).await);
    }
    let folder = unanswered(older, newer, |_| {});
    assert!(opens_whole(folder.path(), &newer.contents, "whole after all").await);
}

#[tokio::test]
async fn a_later_commit_tells_that_an_earlier_one_was_answered() {
    let images = images(&[Durability::Fsync; 4]).await;
    let (oldest, newest) = (&images[0], &images[3]);
    let middle = len_of(&images[1]) + 100;
    // The mark is old, as after a power cut; commit 4 says that commit 3 was on disk.
    let folder = unanswered(oldest, newest, |bytes| bytes[middle] ^= 1);
    assert!(!opens_whole(folder.path(), &newest.contents, "flip in commit 3").await);
}

#[tokio::test]
async fn a_power_cut_may_take_what_was_only_handed_over() {
    use Durability::{Fsync, Os};
    let images = images(&[Fsync, Os, Os, Os]).await;
    let sector = len_of(&images[1]).next_multiple_of(512) + 512;
    let folder = changed(&images[3], |bytes| bytes[sector..sector + 512].fill(0));
    assert!(opens_whole(folder.path(), &images[1].contents, "commit 3 is torn, 4 is there").await);
    assert!(opens_whole(images[3].folder.path(), &images[3].contents, "killed").await);

    let images = self::images(&[Fsync, Os, Fsync]).await;
    let sector = len_of(&images[0]).next_multiple_of(512);
    let folder = changed(&images[2], |bytes| bytes[sector..sector + 512].fill(0));
    assert!(!opens_whole(folder.path(), &images[2].contents, "synced by commit 3").await);
}

#[tokio::test]
async fn a_missing_mark_format_or_database_is_seen() {
    for missing in ["MARK", "FORMAT", "db"] {
        let image = image(3).await;
        let path = image.folder.path().join(missing);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        assert!(
            !opens_whole(image.folder.path(), &image.contents, missing).await,
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_folder_of_a_newer_program_is_left_alone() {
    let image = image(1).await;
    std::fs::write(image.folder.path().join("FORMAT"), "tidegate 2\n").unwrap();
    let refused = open(image.folder.path()).err().unwrap();
    assert!(
        matches!(&refused, OpenError::Format { found, .. } if found == "tidegate 2"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::Locked { .. })));
    append(&store, &topic("once"), vec![event("a")]).await.unwrap();
    store.close().await.unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(all(&store, &topic("once")).await.len(), 1);
}

#[tokio::test]
async fn a_making_that_was_broken_off_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("db")).unwrap();
    std::fs::write(folder.path().join("db").join("lock"), "").unwrap();
    std::fs::write(folder.path().join("db").join("0.jnl"), "").unwrap();
    let store = open(folder.path()).unwrap();
    append(&store, &topic("again"), vec![event("a")]).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn damage_in_an_older_journal_is_seen() {
    let image = image(30).await;
    let folder = in_two_files(&image, |_| {});
    let len = data_len(&std::fs::read(journal(folder.path())).unwrap());
    assert!(opens_whole(folder.path(), &image.contents, "whole").await);
    for place in places(200, len * 8) {
        let folder = in_two_files(&image, |bytes| bytes[place / 8] ^= 1 << (place % 8));
        let whole = opens_whole(folder.path(), &image.contents, &format!("bit {place}")).await;
        assert!(!whole || in_a_batch_number(&image, place / 8), "bit {place}");
    }
    for cut in (0..len).step_by(211) {
        let folder = in_two_files(&image, |bytes| bytes.truncate(cut));
        assert!(!opens_whole(folder.path(), &image.contents, &format!("cut at {cut}")).await);
    }
    for missing in [journal, newer_journal] {
        let folder = in_two_files(&image, |_| {});
        std::fs::remove_file(missing(folder.path())).unwrap();
        assert!(!opens_whole(folder.path(), &image.contents, "a whole file is gone").await);
    }
}

#[tokio::test]
async fn a_missing_journal_that_held_nothing_but_groups_is_seen() {
    let live = tempfile::tempdir().unwrap();
    let store = open(live.path()).unwrap();
    // Nothing in the newer file leads to the older one: no event, no sum.
    make_group(&store, &topic("later"), &group("g")).await;
    make_group(&store, &topic("later"), &group("h")).await;
    append(&store, &topic("a"), vec![event("a")]).await.unwrap();
    append(&store, &topic("b"), vec![event("b")]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    copy(live.path(), folder.path());
    let contents = contents(&store).await;
    store.close().await.unwrap();
    let image = Image { folder, contents };
    let folder = in_two_files(&image, |_| {});
    assert!(opens_whole(folder.path(), &image.contents, "both files").await);
    let folder = in_two_files(&image, |_| {});
    std::fs::remove_file(journal(folder.path())).unwrap();
    assert!(!opens_whole(folder.path(), &image.contents, "the older file is gone").await);
    let found = tidegate::store::check_folder(folder.path(), |_| {}).unwrap().problems;
    assert!(
        found
            .iter()
            .any(|problem| problem.contains("a file of the journal is gone")),
        "{found:?}"
    );
}
