//! What operators find in the database, and texts that BSON has no exact value for.

use std::sync::Arc;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use tidegate::domain::{NewEvent, Retention, TopicName};
use tidegate::store::{Appended, MongoError, MongoStore, Refused, Store, StoreOptions, Write, Written};

use crate::replica_set;

async fn open() -> (Arc<MongoStore>, mongodb::Database) {
    let name = replica_set::new_database();
    let store = MongoStore::open(replica_set::shared(), &name, StoreOptions::default())
        .await
        .unwrap();
    let client = mongodb::Client::with_uri_str(replica_set::shared()).await.unwrap();
    (Arc::new(store), client.database(&name))
}

fn event(id: &str, payload: &str) -> NewEvent {
    NewEvent {
        id: id.into(),
        id_given: true,
        ts: 1_700_000_000_000,
        key: Some("k".into()),
        headers: vec![],
        payload: payload.into(),
        tags: vec![],
        caused_by: vec![],
        sid: None,
    }
}

async fn append(store: &MongoStore, topic: &str, events: Vec<NewEvent>) -> Result<Vec<Appended>, Refused> {
    let topic: TopicName = topic.parse().unwrap();
    let mut answers = store
        .commit(vec![Write::Append { topic, events }], 1_000)
        .await
        .unwrap();
    match answers.remove(0)? {
        Written::Appended(appended) => Ok(appended),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn payloads_can_be_queried() {
    let (store, database) = open().await;
    let full = NewEvent {
        headers: vec![("trace".into(), "t-1".into())],
        tags: vec!["red".into()],
        ..event("a", r#"{"host":"x","load":[0.5,{"cpu":7}],"n":12345678901}"#)
    };
    append(&store, "metrics", vec![full, event("b", r#"{"host":"y"}"#)])
        .await
        .unwrap();
    let events = database.collection::<Document>("events");
    for filter in [
        doc! { "payload.host": "x" },
        doc! { "payload.load.1.cpu": { "$gt": 6 } },
        doc! { "payload.n": 12_345_678_901_i64 },
        doc! { "headers.trace": "t-1" },
        doc! { "tags": "red" },
        doc! { "_id": "metrics::a" },
        doc! { "topic": "metrics", "seq": 1 },
    ] {
        let found: Vec<Document> = collect(events.find(filter.clone()).await.unwrap()).await;
        assert_eq!(found.len(), 1, "{filter}");
        assert_eq!(found[0].get_str("id").unwrap(), "a");
        assert!(!found[0].contains_key("payloadText"), "it is held exactly");
    }
    let topic = database
        .collection::<Document>("topics")
        .find_one(doc! { "_id": "metrics" })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(topic.get_i64("seq").unwrap(), 2);
}

async fn collect<T: serde::de::DeserializeOwned + Send + Sync>(mut cursor: mongodb::Cursor<T>) -> Vec<T> {
    let mut all = Vec::new();
    while cursor.advance().await.unwrap() {
        all.push(cursor.deserialize_current().unwrap());
    }
    all
}

/// Texts, each with whether a person finds something under `payload`, and whether the text is stored beside it.
fn ugly() -> Vec<(String, bool, bool)> {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
    let mut all: Vec<(String, bool, bool)> = [
        ("null", true, false),
        ("\"text\"", true, false),
        ("[]", true, false),
        ("{}", true, false),
        ("[1,[2,[3]],{\"a\":[]}]", true, false),
        (
            "{\"$set\":{\"$where\":1},\"a.b\":2,\"$ref\":\"x\",\"$id\":1}",
            true,
            false,
        ),
        ("{\"\":1,\" \":{\"\":2}}", true, false),
        ("{\"_id\":{\"$oid\":1},\"$oid\":\"0\"}", true, false),
        ("9007199254740993", true, false),
        ("-9223372036854775808", true, false),
        ("9223372036854775808", true, true),
        ("123456789012345678901234567890.10", true, true),
        ("[1.0,1,-0.0,0.1,1e16,5e-324]", true, false),
        ("-0", true, true),
        ("1e2", true, true),
        ("1E+2", true, true),
        ("0.10", true, true),
        ("1e400", false, true),
        ("{\"a\":1,\"a\":2}", false, true),
        ("{\"n\\u0000ul\":1}", false, true),
        ("\"\\u0000\"", true, false),
        ("\"\\u00e9\\/\\ud83d\\ude00\"", true, true),
        ("\"é 😀 \u{7f}\u{2028}\"", true, false),
    ]
    .map(|(text, value, kept)| (text.to_owned(), value, kept))
    .into();
    all.push((nested(60), true, false));
    all.push((nested(90), true, false));
    all.push((nested(120), false, true));
    all.push((nested(300), false, true));
    // An array takes several times its text as BSON: beyond a document's size the text alone is kept.
    all.push((format!("[{}1]", "1,".repeat(1_500_000)), false, true));
    all.push((format!("\"{}\"", "x".repeat(15 << 20)), true, false));
    // Its value and its text do not fit together.
    all.push((format!("\"\\/{}\"", "x".repeat(10 << 20)), false, true));
    all
}

#[tokio::test]
async fn texts_come_back_byte_for_byte() {
    let (store, database) = open().await;
    let topic: TopicName = "ugly".parse().unwrap();
    let events = database.collection::<RawDocumentBuf>("events");
    for (number, (text, value, kept)) in ugly().into_iter().enumerate() {
        let id = format!("e{number}");
        let shown: String = text.chars().take(60).collect();
        append(&store, "ugly", vec![event(&id, &text)]).await.unwrap();
        let read = store.read(&topic, number as u64 + 1, 1, usize::MAX).await.unwrap();
        assert!(read[0].payload() == text.as_bytes(), "{shown}");
        let found = events
            .find_one(doc! { "_id": format!("ugly::{id}") })
            .await
            .unwrap()
            .unwrap();
        // Not as a document: the driver takes names such as `$oid` for its own.
        let has = |name| found.get(name).unwrap().is_some();
        assert_eq!((has("payload"), has("payloadText")), (value, kept), "{shown}");
        // The same again is known, another text is not the same.
        let again = append(&store, "ugly", vec![event(&id, &text)]).await.unwrap();
        assert_eq!(again, [Appended::Known { seq: number as u64 + 1 }], "{shown}");
        let other = append(&store, "ugly", vec![event(&id, "\"other\"")]).await;
        assert!(matches!(other, Err(Refused::Conflict { .. })), "{shown}");
    }
}

#[tokio::test]
async fn an_event_that_no_document_holds_is_refused_alone() {
    let (store, _) = open().await;
    let topic: TopicName = "large".parse().unwrap();
    let append = |id: &str, payload: String| Write::Append {
        topic: topic.clone(),
        events: vec![event(id, &payload)],
    };
    let batch = vec![
        append("a", "1".into()),
        append("b", format!("\"{}\"", "x".repeat(17 << 20))),
        append("c", "3".into()),
    ];
    let answers = store.commit(batch, 1_000).await.unwrap();
    assert!(matches!(answers[1], Err(Refused::TooLarge { .. })), "{:?}", answers[1]);
    let read = store.read(&topic, 1, 10, usize::MAX).await.unwrap();
    assert_eq!(read.iter().map(|event| &*event.id).collect::<Vec<_>>(), ["a", "c"]);
}

#[tokio::test]
async fn names_that_documents_cannot_have_are_kept() {
    let (store, _) = open().await;
    let topic: TopicName = "names".parse().unwrap();
    let odd = NewEvent {
        headers: vec![
            ("z".into(), "1".into()),
            ("n\0ul".into(), "2".into()),
            ("$a.b".into(), "".into()),
        ],
        key: Some("k\0".into()),
        ..event("i\0d::x", "1")
    };
    append(&store, "names", vec![odd]).await.unwrap();
    let read = store.read(&topic, 1, 1, usize::MAX).await.unwrap();
    let json: serde_json::Value = serde_json::from_slice(&read[0].json).unwrap();
    assert_eq!(json["headers"], serde_json::json!({"z": "1", "n\0ul": "2", "$a.b": ""}));
    assert_eq!((&*read[0].id, read[0].key.as_deref()), ("i\0d::x", Some("k\0")));
    assert_eq!(store.newest_by_key(&topic, "k\0").await.unwrap().unwrap().seq, 1);
}

/// What retention or a removal took leaves the collection too, a moment later.
#[tokio::test]
async fn removed_events_leave_the_collection() {
    let (store, database) = open().await;
    let topic: TopicName = "gone".parse().unwrap();
    let many = (0..2_500)
        .map(|n| NewEvent {
            id_given: false,
            ..event(&format!("{n}"), "1")
        })
        .collect();
    append(&store, "gone", many).await.unwrap();
    let retention = Retention {
        count: Some(10),
        ..Retention::default()
    };
    store
        .commit(
            vec![Write::Trim {
                topic: topic.clone(),
                retention,
            }],
            1_000,
        )
        .await
        .unwrap();
    let events = database.collection::<Document>("events");
    let until_there_are = async |expected: u64| {
        let began = std::time::Instant::now();
        while events.count_documents(doc! { "topic": "gone" }).await.unwrap() != expected {
            assert!(began.elapsed().as_secs() < 30, "not {expected} yet");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    until_there_are(10).await;
    store
        .commit(vec![Write::DeleteTopic { topic: topic.clone() }], 1_000)
        .await
        .unwrap();
    until_there_are(0).await;
    assert_eq!(
        database
            .collection::<Document>("topics")
            .count_documents(doc! {})
            .await
            .unwrap(),
        0
    );
}

#[tokio::test]
async fn a_database_in_use_without_the_unique_index_is_refused_and_others_are_said() {
    let (store, database) = open().await;
    append(&store, "t", vec![event("a", "1")]).await.unwrap();
    store.close().await.unwrap();
    let events = database.collection::<Document>("events");
    let names = events.list_index_names().await.unwrap();
    for name in [
        "topic_1_seq_1",
        "topic_1_ts_1_id_1",
        "topic_1_key_1_seq_1",
        "expireAt_1",
    ] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    let reopen = || MongoStore::open(replica_set::shared(), database.name(), StoreOptions::default());
    events.drop_index("topic_1_key_1_seq_1").await.unwrap();
    assert!(reopen().await.is_ok(), "it starts without the others");
    assert!(
        !events
            .list_index_names()
            .await
            .unwrap()
            .contains(&"topic_1_key_1_seq_1".to_owned()),
        "and leaves it so"
    );
    events.drop_index("topic_1_seq_1").await.unwrap();
    assert!(matches!(reopen().await, Err(MongoError::NotUnique { .. })));
}

#[tokio::test]
async fn what_is_not_ours_is_said_and_harms_nobody() {
    let (store, database) = open().await;
    let topic: TopicName = "strange".parse().unwrap();
    append(&store, "strange", vec![event("a", "1"), event("b", "2")])
        .await
        .unwrap();
    let events = database.collection::<Document>("events");
    let set = |field: &str, value: Bson| {
        let update = doc! { "$set": { field: value } };
        events.update_one(doc! { "_id": "strange::a" }, update)
    };
    // A payload that was changed by hand is read as it is now.
    set("payload", doc! { "fixed": true }.into()).await.unwrap();
    let read = store.read(&topic, 1, 1, usize::MAX).await.unwrap();
    assert_eq!(read[0].payload(), b"{\"fixed\":true}");
    set("partition", "none".into()).await.unwrap();
    let error = store.read(&topic, 1, 10, usize::MAX).await.unwrap_err().to_string();
    assert!(error.contains("strange::a"), "{error}");
    append(&store, "strange", vec![event("c", "3")]).await.unwrap();
    assert_eq!(store.read(&topic, 2, 10, usize::MAX).await.unwrap().len(), 2);
}
