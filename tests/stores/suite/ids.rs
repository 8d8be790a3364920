//! An id is in a topic once, for as long as its event is kept.

use tidegate::domain::{NewEvent, Retention};
use tidegate::store::{Appended, Refused, Write, Written};

use crate::bench::*;

fn with_payload(id: &str, payload: &str) -> NewEvent {
    NewEvent {
        payload: payload.into(),
        ..event(id)
    }
}

pub async fn a_known_id_with_the_same_payload_gets_the_first_seq(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.same");
    append(&store, &topic, vec![event("a"), event("b")]).await.unwrap();
    let again = NewEvent {
        ts: 999,
        key: Some("other".into()),
        ..event("b")
    };
    let answer = append(&store, &topic, vec![event("c"), again, event("d")])
        .await
        .unwrap();
    assert_eq!(seqs_of(&answer), [3, 2, 4]);
    assert!(matches!(answer[1], Appended::Known { seq: 2 }));
    let kept = all(&store, &topic).await;
    assert_eq!(kept.len(), 4);
    assert_eq!((kept[1].ts, &kept[1].key), (500, &None));
    let only_known = append(&store, &topic, vec![event("a")]).await.unwrap();
    assert_eq!(only_known, [Appended::Known { seq: 1 }]);
    assert_eq!(store.topic(&topic).await.unwrap().unwrap().tail, 4);
}

pub async fn a_known_id_with_another_payload_refuses_the_whole_append(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.other");
    append(&store, &topic, vec![with_payload("a", "1.0")]).await.unwrap();
    let before = store.topic(&topic).await.unwrap();
    let refused = append(&store, &topic, vec![event("new"), with_payload("a", "1.00")]).await;
    assert_eq!(refused, Err(Refused::Conflict { id: "a".into() }));
    assert_eq!(store.topic(&topic).await.unwrap(), before);
    assert_eq!(
        store.seqs_of_ids(&topic, vec!["new".into()]).await.unwrap(),
        [None],
        "nothing of a refused append is there"
    );
    assert_eq!(seqs_of(&append(&store, &topic, vec![event("new")]).await.unwrap()), [2]);
}

pub async fn an_id_twice_in_one_append_is_refused(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.twice");
    let refused = append(&store, &topic, vec![event("a"), event("b"), event("a")]).await;
    assert_eq!(refused, Err(Refused::Conflict { id: "a".into() }));
    assert_eq!(store.topic(&topic).await.unwrap(), None);
}

pub async fn an_id_is_seen_by_later_writes_of_the_batch(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.batch");
    let append = |event: NewEvent| Write::Append {
        topic: topic.clone(),
        events: vec![event],
    };
    let batch = vec![
        append(with_payload("a", "1")),
        append(with_payload("a", "1")),
        append(with_payload("a", "2")),
        append(with_payload("b", "2")),
    ];
    let answers = store.commit(batch, NOW).await.unwrap();
    assert!(matches!(&answers[0], Ok(Written::Appended(answer)) if matches!(answer[..], [Appended::New(_)])));
    assert_eq!(answers[1], Ok(Written::Appended(vec![Appended::Known { seq: 1 }])));
    assert_eq!(answers[2], Err(Refused::Conflict { id: "a".into() }));
    assert!(matches!(&answers[3], Ok(Written::Appended(answer)) if answer[0].seq() == 2));
    assert_eq!(seqs(&all(&store, &topic).await), [1, 2]);
}

pub async fn an_id_is_known_per_topic(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let (a, b) = (topic("ids.a"), topic("ids.ab"));
    append(&store, &a, vec![with_payload("bc", "1")]).await.unwrap();
    let answer = append(&store, &b, vec![with_payload("bc", "2"), with_payload("c", "3")])
        .await
        .unwrap();
    assert!(answer.iter().all(|one| matches!(one, Appended::New(_))));
}

pub async fn an_id_is_new_again_after_retention(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.retention");
    append(&store, &topic, vec![with_payload("a", "1"), with_payload("b", "1")])
        .await
        .unwrap();
    let retention = Retention {
        count: Some(1),
        ..Retention::default()
    };
    let trim = Write::Trim {
        topic: topic.clone(),
        retention,
    };
    let again = Write::Append {
        topic: topic.clone(),
        events: vec![with_payload("a", "2")],
    };
    let answers = store.commit(vec![trim, again], NOW).await.unwrap();
    assert!(matches!(&answers[1], Ok(Written::Appended(answer)) if answer[0].seq() == 3));
    let found = store.seqs_of_ids(&topic, vec!["a".into(), "b".into()]).await.unwrap();
    assert_eq!(found, [Some(3), Some(2)]);
    let refused = append(&store, &topic, vec![with_payload("a", "1")]).await;
    assert_eq!(refused, Err(Refused::Conflict { id: "a".into() }));
}

pub async fn seqs_of_ids_answers_in_order_with_holes(factory: &dyn Factory) {
    let store = factory.open(options()).await;
    let topic = topic("ids.order");
    append(&store, &topic, events("x", 5)).await.unwrap();
    let ids: Vec<Box<str>> = ["x-4", "none", "x-0", "x-4", "x"].map(Into::into).to_vec();
    let found = store.seqs_of_ids(&topic, ids).await.unwrap();
    assert_eq!(found, [Some(5), None, Some(1), Some(5), None]);
}
