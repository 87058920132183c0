use std::collections::HashSet;

use super::*;
use crate::call::Method;

#[test]
fn the_committed_openapi_is_what_the_registry_says() {
    let committed = include_str!("../../../openapi.yaml");
    assert!(
        committed == yaml(&crate::registry()),
        "run `waypost openapi > openapi.yaml` and look at the difference"
    );
}

#[test]
fn every_route_of_every_tool_is_described_once() {
    let registry = crate::registry();
    let document = document(&registry);
    let mut ids = HashSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in ["get", "post", "put", "delete"].iter().filter_map(|method| item.get(method)) {
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
            assert!(operation["responses"].as_object().unwrap().keys().any(|status| status.starts_with('2')));
        }
    }
    let routes: usize = registry.entries().map(|entry| entry.spec.routes.len()).sum();
    let by_name = registry.listed().count();
    assert_eq!(ids.len(), routes + by_name + 2);
}

#[test]
fn what_the_address_says_is_no_field_of_the_body() {
    let document = document(&crate::registry());
    let body = |path: &str, method: &str| {
        let operation = &document["paths"][path][method];
        operation["requestBody"]["content"]["application/json"]["schema"].clone()
    };
    let rooms = body("/api/v1/rooms/register", "post");
    assert!(rooms["properties"]["agent_name"].is_object());
    assert!(rooms["properties"]["scope"].is_null());
    let inbound = body("/api/v1/agents/{agent_id}/inbound", "put");
    assert!(inbound["properties"]["agent_id"].is_null());
    assert_eq!(inbound["required"], json!(["inbound"]));
}

#[test]
fn credentials_are_no_parameters() {
    let text = document(&crate::registry())["paths"].to_string();
    for parameter in [r#""name":"box_key""#, r#""name":"owner_key""#] {
        assert!(!text.contains(parameter));
    }
}

#[test]
fn no_tool_route_takes_an_argument_called_org_in_its_path() {
    for entry in crate::registry().entries() {
        for Route { path, method, .. } in entry.spec.routes {
            assert!(!path.contains("{org}"), "{path}");
            let takes_body = matches!(method, Method::Post | Method::Put);
            assert!(takes_body || entry.input["properties"].as_object().is_some(), "{path}");
        }
    }
}
