//! What the gate remembers never decides who a caller is.

use serde_json::json;

use crate::house::House;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_stands_at_its_own_organization_while_that_opens_and_closes() {
    let house = House::open().await;
    let agent = house.register().await;
    let path = "/o/public/api/v1/tools/who_am_i";
    for registration in ["closed", "open"] {
        // The pod has just seen the organization as it was, and looks the key up anew.
        house.post(0, path, None, &json!({})).await;
        sqlx::query("update organization set registration = $1 where slug = 'public'")
            .bind(registration)
            .execute(&house.db)
            .await
            .unwrap();
        let fresh = house.post(0, path, None, &json!({ "box_key": agent.key })).await;
        assert_eq!(fresh.status, 200, "{}", fresh.body);
    }
}
