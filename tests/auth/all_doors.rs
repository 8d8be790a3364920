//! Every path that the gateway describes, on both ports: nobody comes in without the right that it names.

use std::net::SocketAddr;

use serde_json::Value;

use crate::http::request;
use crate::issuer::{SECRET, Signer};
use crate::support::TestGateway;

/// Each right by the name that the description has for it, with the scope that gives it.
const RIGHTS: [(&str, &str); 4] = [
    ("publish", "publish:**"),
    ("subscribe", "subscribe:**"),
    ("admin", "admin"),
    ("metrics", "metrics"),
];

/// A path of the description with its examples in it, as it is asked for.
fn address_of(path: &str, operation: &Value) -> String {
    let (mut path, mut query) = (path.to_owned(), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["required"] != true {
            continue;
        }
        let (name, example) = (parameter["name"].as_str().unwrap(), &parameter["example"]);
        let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
        match parameter["in"].as_str().unwrap() {
            "path" => path = path.replace(&format!("{{{name}}}"), &example),
            _ => query.push(format!("{name}={example}")),
        }
    }
    format!("{path}?{}", query.join("&"))
}

async fn status(address: SocketAddr, line: &str, scopes: Option<&[&str]>) -> u16 {
    let token = scopes.map(|scopes| format!("Bearer {}", Signer::secret(SECRET).scopes(scopes)));
    let mut headers = vec![("Host", "localhost")];
    headers.extend(token.as_deref().map(|token| ("Authorization", token)));
    request(address, line, &headers).await.status
}

#[actix::test]
async fn no_door_opens_without_the_right_that_it_names() {
    let secret = format!("auth.jwt.secret={SECRET}");
    let gateway = TestGateway::start(&["auth.mode=jwt", &secret, "replay.listen=127.0.0.1:0"]);
    let mut knocked = 0;
    for address in [gateway.address, gateway.replay_address.unwrap()] {
        let description = request(address, "GET /openapi.json", &[("Host", "localhost")]).await;
        let description: Value = serde_json::from_str(&description.body).unwrap();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let line = format!("{} {}", method.to_uppercase(), address_of(path, operation));
                let needed = operation["security"][0]["bearer"][0].as_str();
                let nobody = status(address, &line, None).await;
                let Some(needed) = needed else {
                    assert!(![401, 403].contains(&nobody), "{line} is open, and answers {nobody}");
                    continue;
                };
                assert_eq!(nobody, 401, "{line} without a token");
                let (all_but, only): (Vec<_>, Vec<_>) = RIGHTS.iter().partition(|(right, _)| *right != needed);
                // Who administers sees the figures too.
                let all_but: Vec<&str> = all_but
                    .iter()
                    .filter(|(right, _)| !(needed == "metrics" && *right == "admin"))
                    .map(|(_, scope)| *scope)
                    .collect();
                assert_eq!(
                    status(address, &line, Some(&all_but)).await,
                    403,
                    "{line} without {needed}"
                );
                let only: Vec<&str> = only.iter().map(|(_, scope)| *scope).collect();
                let let_in = status(address, &line, Some(&only)).await;
                assert!(![401, 403].contains(&let_in), "{line} with {needed}: {let_in}");
                knocked += 1;
            }
        }
    }
    assert!(knocked >= 7, "only {knocked} doors were found");
}
