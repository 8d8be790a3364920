//! Parameters of a path: read one by one, so that every error names its parameter and what was expected.

use std::future::{Ready, ready};
use std::ops::RangeInclusive;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use percent_encoding::percent_decode_str;
use utoipa::IntoParams;

use super::super::refusal::Refusal;
use crate::domain::{GroupName, StartFrom, TS_MAX, TopicName};
use crate::protocol::{ErrorCode, Failure, expected_integer, expected_text, limits, unknown_name};

/// The parameters of a request that are not read yet.
pub(in crate::server) struct Params {
    given: Vec<(String, String)>,
    /// All that were asked for: what else is given is unknown.
    known: Vec<&'static str>,
}

/// Parameters that can be read. Their description (`IntoParams`) has the same names.
pub(in crate::server) trait FromParams: IntoParams + Sized {
    /// Reads all that there are.
    fn read(params: &mut Params) -> Result<Self, Failure>;
}

impl Params {
    /// Of a query. Unlike a form it must be UTF-8: what is not would become something else.
    fn of_query(query: &str) -> Result<Params, Failure> {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            let decoded = percent_decode_str(&text).decode_utf8().map(String::from);
            decoded.map_err(|_| wrong("query", "expected UTF-8 behind the percent signs"))
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        Params::new(pairs.collect::<Result<_, Failure>>()?)
    }

    /// Of a path.
    fn of_path(request: &HttpRequest) -> Result<Params, Failure> {
        let pairs = request.match_info().iter().map(|(name, value)| {
            let decoded = percent_decode_str(value).decode_utf8();
            let decoded = decoded.map_err(|_| wrong(name, "expected UTF-8 behind the percent signs"))?;
            Ok((name.to_owned(), decoded.into_owned()))
        });
        Params::new(pairs.collect::<Result<_, Failure>>()?)
    }

    /// Of a JSON object in a request's body; nothing is an object without fields.
    pub(in crate::server) fn of_json(body: &[u8]) -> Result<Params, Failure> {
        use serde_json::{Map, Value};
        if body.iter().all(u8::is_ascii_whitespace) {
            return Params::new(Vec::new());
        }
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| wrong("body", format!("expected a JSON object: {error}")))?;
        let pairs = fields.into_iter().map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            Value::Number(number) => Ok((name, number.to_string())),
            _ => Err(wrong(&name, "expected a string or a number")),
        });
        Params::new(pairs.collect::<Result<_, Failure>>()?)
    }

    /// The name of a group, which must be there.
    pub(in crate::server) fn group(&mut self, name: &'static str) -> Result<GroupName, Failure> {
        let value = self.take(name)?.ok_or_else(|| wrong(name, "missing"))?;
        value.parse().map_err(|bad| wrong(name, bad))
    }

    fn new(given: Vec<(String, String)>) -> Result<Params, Failure> {
        let known = Vec::new();
        Ok(Params { given, known })
    }

    /// All values of a parameter that may be given several times, in their order.
    fn take_all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let taken = self.given.extract_if(.., |(given, _)| given == name);
        taken.map(|(_, value)| value).collect()
    }

    /// The value of a parameter that may be given once.
    fn take(&mut self, name: &'static str) -> Result<Option<String>, Failure> {
        let mut values = self.take_all(name).into_iter();
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(wrong(name, "given twice")),
            (value, None) => Ok(value),
        }
    }

    /// A text whose length in bytes is within bounds.
    pub(in crate::server) fn text(
        &mut self,
        name: &'static str,
        bytes: RangeInclusive<usize>,
    ) -> Result<Option<Box<str>>, Failure> {
        let value = self.take(name)?;
        value.map(|value| bounded(name, value, bytes)).transpose()
    }

    /// A text that may be given several times, at most `count`.
    pub(in crate::server) fn texts(
        &mut self,
        name: &'static str,
        count: usize,
        bytes: RangeInclusive<usize>,
    ) -> Result<Vec<Box<str>>, Failure> {
        let values = self.take_all(name);
        if values.len() > count {
            return Err(wrong(name, format!("expected it at most {count} times")));
        }
        let bounded = |value| bounded(name, value, bytes.clone());
        values.into_iter().map(bounded).collect()
    }

    /// An integer within bounds.
    pub(in crate::server) fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Failure> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        // `parse` alone would take a plus sign.
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|number| digits && range.contains(number));
        number.map(Some).ok_or_else(|| wrong(name, expected_integer(range)))
    }

    /// 1 or 0.
    pub(in crate::server) fn switch(&mut self, name: &'static str) -> Result<Option<bool>, Failure> {
        match self.take(name)?.as_deref() {
            None => Ok(None),
            Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "expected 1 or 0")),
        }
    }

    /// One of a few words.
    pub(in crate::server) fn word(
        &mut self,
        name: &'static str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, Failure> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        let found = words.iter().find(|word| **word == value).copied();
        let expected = || wrong(name, format!("expected one of {}", words.join(", ")));
        found.map(Some).ok_or_else(expected)
    }

    /// The name of a topic, which must be there.
    pub(in crate::server) fn topic(&mut self, name: &'static str) -> Result<TopicName, Failure> {
        let value = self.take(name)?.ok_or_else(|| wrong(name, "missing"))?;
        value
            .parse()
            .map_err(|bad| Failure::new(ErrorCode::BadTopic, format!("{name}: {bad}")))
    }

    /// Where to begin: `from`, with `ts`, `afterId` or `afterSeq`, as SUBSCRIBE has it. None where `from` is not given.
    pub(in crate::server) fn start(&mut self, words: &[&'static str]) -> Result<Option<Start>, Failure> {
        let from = self.word("from", words)?;
        let ts = self.integer("ts", 0..=TS_MAX)?;
        let after_id = self.text("afterId", 1..=limits::LABEL)?;
        let after_seq = self.integer("afterSeq", 0..=i64::MAX as u64)?;
        // A start that would be ignored is more likely a forgotten `from`.
        let given = [
            ("ts", ts.is_some()),
            ("afterId", after_id.is_some()),
            ("afterSeq", after_seq.is_some()),
        ];
        for (name, given) in given {
            if given && from != Some(name) {
                return Err(wrong(name, format!("only goes with from={name}")));
            }
            if !given && from == Some(name) {
                return Err(wrong(name, format!("missing, as from={name} needs it")));
            }
        }
        Ok(match (from, ts, after_id, after_seq) {
            (None, ..) => None,
            (_, Some(ts), _, _) => Some(Start::From(StartFrom::Ts(ts))),
            (_, _, Some(id), _) => Some(Start::From(StartFrom::AfterId(id))),
            (_, _, _, Some(seq)) => Some(Start::AfterSeq(seq)),
            (Some("latest"), ..) => Some(Start::From(StartFrom::Latest)),
            _ => Some(Start::From(StartFrom::Earliest)),
        })
    }

    /// Nothing else may be given: a misspelt parameter must not pass as one that was left out.
    pub(in crate::server) fn finish(self) -> Result<(), Failure> {
        match self.given.first() {
            None => Ok(()),
            Some((name, _)) if self.known.iter().any(|known| known == name) => Err(wrong(name, "given twice")),
            Some((name, _)) => Err(unknown_name(name, &self.known)),
        }
    }

    fn read<T: FromParams>(mut self) -> Result<T, Failure> {
        let read = T::read(&mut self).map_err(|failure| {
            // `topc=orders` is better told as unknown than as missing.
            let described: Vec<String> = T::into_params(|| None).into_iter().map(|one| one.name).collect();
            let known: Vec<&str> = described.iter().map(String::as_str).collect();
            match self.given.iter().find(|(name, _)| !known.contains(&name.as_str())) {
                Some((name, _)) => unknown_name(name, &known),
                None => failure,
            }
        })?;
        debug_assert_eq!(
            sorted(T::into_params(|| None).into_iter().map(|described| described.name)),
            sorted(self.known.iter().map(|name| (*name).to_owned())),
            "what is described is what is read"
        );
        self.finish()?;
        Ok(read)
    }
}

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Start {
    /// As SUBSCRIBE has it.
    From(StartFrom),
    /// After this seq, whether its event is kept or not.
    AfterSeq(u64),
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn bounded(name: &str, value: String, bytes: RangeInclusive<usize>) -> Result<Box<str>, Failure> {
    if bytes.contains(&value.len()) {
        return Ok(value.into());
    }
    Err(wrong(name, expected_text(bytes)))
}

fn wrong(name: &str, problem: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorCode::BadRequest, format!("{name}: {problem}"))
}

/// The parameters of a request's query.
pub(in crate::server) struct Query<T>(pub(in crate::server) T);

impl<T: FromParams> FromRequest for Query<T> {
    type Error = Refusal;
    type Future = Ready<Result<Query<T>, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let read = Params::of_query(request.query_string()).and_then(Params::read);
        ready(read.map(Query).map_err(Refusal))
    }
}

/// The parameters in a request's path.
pub(in crate::server) struct InPath<T>(pub(in crate::server) T);

impl<T: FromParams> FromRequest for InPath<T> {
    type Error = Refusal;
    type Future = Ready<Result<InPath<T>, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let read = Params::of_path(request).and_then(Params::read);
        ready(read.map(InPath).map_err(Refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: [&str; 4] = ["earliest", "ts", "afterId", "afterSeq"];

    fn params(query: &str) -> Params {
        Params::of_query(query).unwrap()
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        result.unwrap_err().msg.into_owned()
    }

    #[test]
    fn values_are_decoded() {
        let mut read = params("a=1+2%2B3&&b=%C3%A9&c");
        assert_eq!(read.text("a", 1..=9).unwrap().as_deref(), Some("1 2+3"));
        assert_eq!(read.text("b", 1..=2).unwrap().as_deref(), Some("é"));
        assert_eq!(message(read.text("c", 1..=2)), "c: expected a string of 1 to 2 bytes");
        assert_eq!(read.finish(), Ok(()));
        let broken = Params::of_query("a=%ff").map(|_| ());
        assert_eq!(message(broken), "query: expected UTF-8 behind the percent signs");
    }

    #[test]
    fn every_error_names_its_parameter() {
        let limit = |query| message(params(query).integer("limit", 1..=10_000));
        for wrong in [
            "limit=",
            "limit=0",
            "limit=10001",
            "limit=%2B5",
            "limit=-1",
            "limit=1.0",
            "limit=x",
        ] {
            assert_eq!(limit(wrong), "limit: expected an integer from 1 to 10,000", "{wrong}");
        }
        assert_eq!(limit("limit=1&limit=2"), "limit: given twice");
        assert_eq!(message(params("n=2").switch("n")), "n: expected 1 or 0");
        assert_eq!(message(params("").topic("topic")), "topic: missing");
        assert_eq!(params("topic=A").topic("topic").unwrap_err().code, ErrorCode::BadTopic);
        assert_eq!(
            message(params("t=a&t=b&t=c").texts("t", 2, 0..=1)),
            "t: expected it at most 2 times"
        );
    }

    #[test]
    fn what_is_unknown_is_refused_with_the_nearest_known_one() {
        let mut read = params("afterid=1&limit=1");
        read.integer("limit", 1..=9).unwrap();
        read.text("afterId", 1..=9).unwrap();
        assert_eq!(message(read.finish()), "afterid: unknown; did you mean `afterId`?");
        assert_eq!(message(params("x=1").finish()), "x: unknown");
    }

    #[test]
    fn a_start_has_what_it_needs_and_nothing_else() {
        let start = |query| params(query).start(&STARTS);
        assert_eq!(start("").unwrap(), None);
        assert_eq!(start("from=earliest").unwrap(), Some(Start::From(StartFrom::Earliest)));
        assert_eq!(start("from=ts&ts=0").unwrap(), Some(Start::From(StartFrom::Ts(0))));
        assert_eq!(start("from=afterSeq&afterSeq=5").unwrap(), Some(Start::AfterSeq(5)));
        let by_id = Start::From(StartFrom::AfterId("a".into()));
        assert_eq!(start("from=afterId&afterId=a").unwrap(), Some(by_id));
        assert_eq!(message(start("from=ts")), "ts: missing, as from=ts needs it");
        assert_eq!(message(start("ts=5")), "ts: only goes with from=ts");
        assert_eq!(
            message(start("from=earliest&afterId=a")),
            "afterId: only goes with from=afterId"
        );
        assert_eq!(
            message(start("from=latest")),
            "from: expected one of earliest, ts, afterId, afterSeq"
        );
    }
}
