//! RFC 6455, class by class: what each bad frame is answered with, and that good ones around it are not harmed.

use serde_json::Value;

use crate::raw::{Raw, frame, head, text};
use crate::support::TestGateway;

const AUTH: &str = r#"{"op":"AUTH","corr":1}"#;

async fn answered(raw: &mut Raw) {
    let (first, payload) = raw.next().await.expect("an answer");
    assert_eq!(first, 0x81);
    let answer: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(answer["op"], "OK", "{answer}");
}

async fn closes(gateway: &TestGateway, bytes: &[u8], code: u16) {
    let mut raw = Raw::connect(gateway.address).await;
    // A good request before it in the same segment is still answered.
    raw.send(&[text(AUTH), bytes.to_vec()].concat()).await;
    answered(&mut raw).await;
    assert_eq!(raw.close_code().await, code, "{:x?}", &bytes[..bytes.len().min(16)]);
}

#[actix::test]
async fn every_class_of_bad_frame_has_its_close_code() {
    let gateway = TestGateway::start(&[]);
    // Reserved bits, reserved opcodes, no mask.
    for first in [0xc1, 0xa1, 0x91, 0xf1, 0x83, 0x87, 0x8b, 0x8f, 0x03] {
        closes(&gateway, &frame(first, b"{}"), 1002).await;
    }
    closes(&gateway, &[0x81, 0x02, b'{', b'}'], 1002).await;
    // Control frames: fragmented, too long.
    for first in [0x08, 0x09, 0x0a] {
        closes(&gateway, &frame(first, b"{}"), 1002).await;
    }
    for first in [0x88, 0x89, 0x8a] {
        closes(&gateway, &frame(first, &[b'a'; 126]), 1002).await;
    }
    // Fragments out of turn.
    closes(&gateway, &frame(0x80, b"a"), 1002).await;
    closes(&gateway, &frame(0x00, b"a"), 1002).await;
    closes(&gateway, &[frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002).await;
    closes(&gateway, &[frame(0x01, b"a"), frame(0x02, b"b")].concat(), 1002).await;
    // A length with its highest bit set.
    closes(&gateway, &head(0x81, u64::MAX), 1002).await;
    // Text that is not UTF-8: whole, in fragments, cut in the middle of a character.
    closes(&gateway, &frame(0x81, b"\xff\xfe"), 1007).await;
    closes(&gateway, &frame(0x81, b"\xed\xa0\x80"), 1007).await;
    closes(&gateway, &[frame(0x01, b"\xce"), frame(0x80, b"\xff")].concat(), 1007).await;
    closes(&gateway, &[frame(0x01, b"a"), frame(0x80, b"\xce")].concat(), 1007).await;
    // Closes: one byte, a reason that is not UTF-8, codes that may not be sent; and those that may are answered in kind.
    closes(&gateway, &frame(0x88, b"\x03"), 1002).await;
    closes(&gateway, &frame(0x88, b"\x03\xe8\xff"), 1007).await;
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1100, 2999, 5000, 65_535] {
        closes(&gateway, &frame(0x88, &code.to_be_bytes()), 1002).await;
    }
    for code in [1000_u16, 1001, 1003, 1007, 1011, 3000, 4999] {
        closes(&gateway, &frame(0x88, &code.to_be_bytes()), code).await;
    }
    closes(&gateway, &frame(0x88, b""), 1005).await;
}

#[actix::test]
async fn what_is_declared_too_long_is_refused_before_it_comes() {
    let gateway = TestGateway::start(&["limits.frame_bytes=65536"]);
    closes(&gateway, &head(0x81, 65_537), 1009).await;
    closes(&gateway, &head(0x82, 1 << 40), 1009).await;
    // The peer sends on, as one does that has not seen the close yet: the close reaches it all the same.
    let mut raw = Raw::connect(gateway.address).await;
    raw.send(&[head(0x81, 1 << 40), vec![b'a'; 512 << 10]].concat()).await;
    assert_eq!(raw.close_code().await, 1009);
    // Fragments count together.
    let mut fragments = frame(0x01, &[b'a'; 40_000]);
    fragments.extend(head(0x80, 25_537));
    closes(&gateway, &fragments, 1009).await;
}

#[actix::test]
async fn fragments_and_what_may_stand_between_them_are_one_message() {
    let gateway = TestGateway::start(&[]);
    let mut raw = Raw::connect(gateway.address).await;
    let message = r#"{"op":"PUBLISH","topic":"t","payload":"κόσμε 🦀"}"#.as_bytes();
    for (at, byte) in message.iter().enumerate() {
        let last = at + 1 == message.len();
        let first = u8::from(at == 0) | if last { 0x80 } else { 0 };
        raw.send(&frame(first, &[*byte])).await;
        raw.send(&frame(0x89, b"ping")).await;
    }
    let mut pongs = 0;
    loop {
        let (first, payload) = raw.next().await.expect("an open connection");
        match first {
            0x8a => {
                assert_eq!(payload, b"ping");
                pongs += 1;
            }
            _ => {
                let answer: Value = serde_json::from_slice(&payload).unwrap();
                assert_eq!((&answer["op"], &answer["seq"]), (&"OK".into(), &1.into()), "{answer}");
                break;
            }
        }
    }
    assert!(pongs + 1 >= message.len(), "{pongs} pongs");
}

#[actix::test]
async fn frames_cut_anywhere_are_put_together() {
    let gateway = TestGateway::start(&[]);
    let mut raw = Raw::connect(gateway.address).await;
    raw.socket.set_nodelay(true).unwrap();
    for byte in [text(AUTH), text(AUTH)].concat() {
        raw.send(&[byte]).await;
    }
    answered(&mut raw).await;
    answered(&mut raw).await;
}
