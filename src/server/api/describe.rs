//! The description of all paths (OpenAPI), made from the handlers that serve them.

use actix_web::App;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_actix_web::AppExt;
use utoipa_actix_web::service_config::ServiceConfig;

use super::super::guard::OPEN_PATHS;
use super::super::refusal::Problem;

/// The name of the way to say who somebody is.
const BEARER: &str = "bearer";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "An event gateway: durable topics, consumer groups and history. Events are published and consumed over \
                       the WebSocket at /ws; these are the paths of plain HTTP. The roles of a path's security requirement \
                       are the rights that a token needs for it. A parameter that is unknown or given twice is refused."
    ),
    components(schemas(Problem)),
    modifiers(&Bearer)
)]
struct Base;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme(BEARER, scheme);
    }
}

/// Describes what these routes serve.
pub(super) fn describe(routes: fn(&mut ServiceConfig<'_>)) -> OpenApi {
    let app = App::new().into_utoipa_app().openapi(Base::openapi()).configure(routes);
    let (_, mut openapi) = app.split_for_parts();
    for (path, item) in &mut openapi.paths.paths {
        let guarded = !OPEN_PATHS.contains(&path.as_str());
        for operation in operations(item) {
            add_common_answers(operation, guarded);
        }
    }
    openapi
}

/// The operations of a path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = item;
    [get, put, post, delete, patch].into_iter().filter_map(Option::as_mut)
}

/// The methods of a path, as they stand in a request.
pub(super) fn methods(item: &PathItem) -> Vec<&'static str> {
    let all = [
        ("GET", &item.get),
        ("PUT", &item.put),
        ("POST", &item.post),
        ("DELETE", &item.delete),
        ("PATCH", &item.patch),
    ];
    let served = all.into_iter().filter(|(_, operation)| operation.is_some());
    served.map(|(method, _)| method).collect()
}

/// What can happen to any request before its handler has it, or in the store below.
fn add_common_answers(operation: &mut Operation, guarded: bool) {
    let needs_token = operation.security.as_ref().is_some_and(|all| {
        let named = all.iter().filter_map(|one| serde_json::to_value(one).ok());
        named.into_iter().any(|one| one.get(BEARER).is_some())
    });
    let mut add = |status: &str, description: &str| {
        let answers = &mut operation.responses.responses;
        answers
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(problem(status, description)));
    };
    if guarded {
        add(
            "400",
            "a parameter is missing, unknown, doubled or wrong: `error` names it",
        );
        add(
            "403",
            "the Origin or Host is not invited, or the token does not cover this",
        );
    }
    if needs_token {
        add("401", "no token, or one that is not good");
        add("429", "too many wrong tokens, or over a rate");
        add(
            "503",
            "the store does not answer, too much waits, or the gateway is going down",
        );
    }
}

/// An answer that is an error.
fn problem(status: &str, description: &str) -> Response {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    let mut answer = ResponseBuilder::new()
        .description(description)
        .content("application/json", content);
    if matches!(status, "429" | "503") {
        let seconds = HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some("seconds to wait, where that is known"))
            .build();
        answer = answer.header("Retry-After", seconds);
    }
    answer.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_says_which_right_it_needs() {
        let json = serde_json::to_value(describe(super::super::gateway)).unwrap();
        let mut doors = 0;
        for (path, item) in json["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let security = operation["security"].as_array();
                let security = security.unwrap_or_else(|| panic!("{method} {path} does not say who may come in"));
                for entry in security {
                    let rights = entry[BEARER].as_array().into_iter().flatten();
                    for right in rights {
                        let known = ["publish", "subscribe", "admin", "metrics"];
                        assert!(known.contains(&right.as_str().unwrap()), "{method} {path}: {right}");
                    }
                }
                doors += 1;
            }
        }
        assert!(doors > 6, "only {doors} paths were found");
    }

    #[test]
    fn parameters_are_described_with_examples() {
        let json = serde_json::to_value(describe(super::super::gateway)).unwrap();
        for (path, item) in json["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let name = &parameter["name"];
                    assert!(parameter["description"].is_string(), "{path}: {name} is not described");
                    let required = parameter["required"] == true;
                    assert!(
                        !required || !parameter["example"].is_null(),
                        "{path}: {name} has no example"
                    );
                }
            }
        }
    }
}
