//! Reading a log, and the list of topics.

use tidegate::domain::{Event, NewEvent, Retention};
use tidegate::store::{Appended, Write};

use crate::bench::*;

pub async fn reads_stop_at_events_and_bytes(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.limits");
    append(&store, &topic, events("x", 9)).await.unwrap();
    let one = all(&store, &topic).await[0].json.len();
    for (max_events, max_bytes, expected) in [
        (3, usize::MAX, 3),
        (0, usize::MAX, 0),
        (100, usize::MAX, 9),
        (100, 0, 1),
        (100, 1, 1),
        (100, one, 1),
        (100, one + 1, 2),
        (100, 3 * one, 3),
        (2, 3 * one, 2),
    ] {
        let read = store.read(&topic, 1, max_events, max_bytes).await.unwrap();
        assert_eq!(read.len(), expected, "{max_events} events, {max_bytes} bytes");
    }
}

pub async fn reads_begin_anywhere(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.begin");
    append(&store, &topic, events("x", 6)).await.unwrap();
    let retention = Retention {
        count: Some(4),
        ..Retention::default()
    };
    write(
        &store,
        Write::Trim {
            topic: topic.clone(),
            retention,
        },
    )
    .await
    .unwrap();
    for (from, expected) in [
        (0, vec![3, 4]),
        (1, vec![3, 4]),
        (3, vec![3, 4]),
        (5, vec![5, 6]),
        (6, vec![6]),
        (7, vec![]),
        (u64::MAX, vec![]),
    ] {
        let read = store.read(&topic, from, 2, usize::MAX).await.unwrap();
        assert_eq!(seqs(&read), expected, "from {from}");
    }
}

pub async fn single_reads_leave_holes_out(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.single");
    append(&store, &topic, events("x", 6)).await.unwrap();
    let retention = Retention {
        count: Some(3),
        ..Retention::default()
    };
    write(
        &store,
        Write::Trim {
            topic: topic.clone(),
            retention,
        },
    )
    .await
    .unwrap();
    let read = store.read_seqs(&topic, vec![6, 0, 2, 4, 7, u64::MAX, 5]).await.unwrap();
    assert_eq!(seqs(&read), [6, 4, 5]);
}

pub async fn texts_are_kept_byte_for_byte(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.texts");
    let payloads = [
        r#"{"a":1.0,"a":1e400,"b":-0,"c":1E+2}"#.to_string(),
        r#""\u00e9\/\ud83d\ude00 é 😀 \u0000""#.to_string(),
        "123456789012345678901234567890.10".to_string(),
        "[]".to_string(),
        "null".to_string(),
        format!("\"{}\"", "long ".repeat(60_000)),
    ];
    let ugly = |(n, payload): (usize, &String)| NewEvent {
        key: Some("k\u{1}\"é\\".into()),
        headers: vec![("z".into(), "1".into()), ("a".into(), "\"\n".into())],
        payload: payload.as_str().into(),
        tags: vec!["t,".into()],
        caused_by: vec!["c\t".into()],
        sid: Some("s".into()),
        ..event(&format!("ugly \"{n}\" \u{7f}é"))
    };
    let given: Vec<NewEvent> = payloads.iter().enumerate().map(ugly).collect();
    let answers = append(&store, &topic, given.clone()).await.unwrap();
    let read = all(&store, &topic).await;
    assert_eq!(read.len(), given.len());
    for ((answer, read), given) in answers.iter().zip(&read).zip(&given) {
        assert!(matches!(answer, Appended::New(event) if event == read), "{answer:?}");
        assert_eq!(read.payload(), given.payload.as_bytes());
        assert_eq!((&*read.id, read.key.as_deref()), (&*given.id, given.key.as_deref()));
        let place = tidegate::domain::Place {
            seq: read.seq,
            at: NOW,
            partition: read.partition,
            ordinal: read.ordinal,
        };
        assert_eq!(**read, Event::place(&topic, given, place));
    }
}

pub async fn a_topic_that_does_not_exist_is_empty(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.nothing");
    assert_eq!(store.topic(&topic).await.unwrap(), None);
    assert!(all(&store, &topic).await.is_empty());
    assert!(store.read_seqs(&topic, vec![1]).await.unwrap().is_empty());
    assert_eq!(store.seqs_of_ids(&topic, vec!["a".into()]).await.unwrap(), [None]);
    assert_eq!(store.seq_at_ts(&topic, 0).await.unwrap(), 1);
    assert_eq!(store.newest_by_key(&topic, "k").await.unwrap(), None);
    assert_eq!(store.ordinals_at(&topic, 5).await.unwrap(), [0; 4]);
    assert!(store.groups(&topic).await.unwrap().is_empty());
    assert_eq!(store.group(&topic, &group("g")).await.unwrap(), None);
    assert!(!store.seen(&topic, &group("g"), "a", NOW).await.unwrap());
}

pub async fn topics_are_listed_in_order_of_their_names(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    for name in ["list.b", "list.a", "list-c", "list"] {
        append(&store, &topic(name), events("x", 2)).await.unwrap();
    }
    make_group(&store, &topic("list.none"), &group("g")).await;
    let listed = store.topics().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["list", "list-c", "list.a", "list.b"]);
    for (name, state) in &listed {
        assert_eq!(store.topic(name).await.unwrap().as_ref(), Some(state));
    }
}

pub async fn many_events_are_read_in_pieces_without_loss(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("reads.many");
    for round in 0..10 {
        append(&store, &topic, events(&format!("r{round}"), 500)).await.unwrap();
    }
    let mut next = 1;
    loop {
        let piece = store.read(&topic, next, 333, usize::MAX).await.unwrap();
        let Some(last) = piece.last() else {
            break;
        };
        assert_eq!(seqs(&piece), (next..=last.seq).collect::<Vec<_>>());
        next = last.seq + 1;
    }
    assert_eq!(next, 5_001);
}
