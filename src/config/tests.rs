//! What the command line and the environment come to.

use super::*;

fn read(args: &[&str], env: &[(&str, &str)]) -> Result<Invocation, Refused> {
    let args = std::iter::once("waypost").chain(args.iter().copied()).map(OsString::from);
    let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let home = (OsString::from("HOME"), OsString::from("/home/someone"));
    Config::from(args, std::iter::once(home).chain(env))
}

fn config(args: &[&str], env: &[(&str, &str)]) -> Config {
    read(args, env).unwrap().config
}

fn refusal(args: &[&str], env: &[(&str, &str)]) -> String {
    match read(args, env) {
        Err(Refused::CannotWork(sentence)) => sentence,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn nothing_given_means_serve_with_the_documented_defaults() {
    let Invocation { role, config } = read(&[], &[]).unwrap();
    assert_eq!(role, Role::Serve);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.ops_listen.unwrap().to_string(), "127.0.0.1:9464");
    assert_eq!((config.pool, config.register_limit), (10, 20));
    assert_eq!(config.caps, Caps { mailbox: 50, sender: 10 });
    assert_eq!(config.holds, Holds { agent: 4, org: 200, pod: 10_000 });
    assert_eq!(config.default_toolsets, ["mailbox"]);
    assert_eq!(config.allowed_origins, Allowed::Any);
    assert_eq!(config.drain_limit, Duration::from_secs(20));
    assert_eq!(config.log, "info");
    assert!(config.data_dir.is_absolute() && config.data_dir.ends_with("waypost"));
}

#[test]
fn a_flag_wins_over_its_variable_before_and_after_the_role() {
    let env = [("WAYPOST_POOL", "3")];
    assert_eq!(config(&[], &env).pool, 3);
    assert_eq!(config(&["--pool", "4"], &env).pool, 4);
    assert_eq!(config(&["--pool", "4", "serve"], &env).pool, 4);
    assert_eq!(config(&["org", "list", "--pool", "5"], &env).pool, 5);
    assert!(config(&["serve", "--unsafe-durability"], &[]).unsafe_durability);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    assert_eq!(config(&[], &[("WAYPOST_POOL", ""), ("WAYPOST_ADMIN_TOKEN", "")]).pool, 10);
}

#[test]
fn every_setting_is_accepted_as_flag_and_as_variable() {
    for setting in SETTINGS {
        let value = match setting.variable {
            "DATABASE_URL" => "postgres://db/waypost",
            "WAYPOST_SECRET_KEY" => "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "WAYPOST_PUBLIC_URL" | "WAYPOST_ALLOWED_ORIGINS" => "https://inbox.example.com",
            "WAYPOST_TRUSTED_PROXIES" => "10.0.0.0/8",
            "WAYPOST_UNSAFE_EGRESS" => "loopback",
            name if name.ends_with("LISTEN") => "127.0.0.1:1",
            _ => "7",
        };
        config(&[], &[(setting.variable, value)]);
        config(&[&format!("--{}", setting.flag), value], &[]);
    }
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_one_named() {
    for value in ["127.0.0.1:1", ""] {
        let sentence = refusal(&[], &[("WAYPOST_LISTN", value)]);
        assert_eq!(sentence, "WAYPOST_LISTN is not a setting; the nearest one is WAYPOST_LISTEN.");
    }
}

#[test]
fn settings_without_effect_are_accepted_and_named() {
    let given = config(&["--admin-token", "5"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")]);
    assert_eq!(given.without_effect, ["WAYPOST_ADMIN_TOKEN", "OTEL_EXPORTER_OTLP_ENDPOINT"]);
}

#[test]
fn what_cannot_work_is_one_sentence_that_echoes_no_value() {
    for (variable, value) in [
        ("WAYPOST_LISTEN", "hunter2"),
        ("WAYPOST_OPS_LISTEN", "hunter2"),
        ("WAYPOST_PUBLIC_URL", "ftp://hunter2"),
        ("WAYPOST_PUBLIC_URL", "https://me:hunter2@example.com"),
        ("WAYPOST_ALLOWED_HOSTS", "https://hunter2/"),
        ("WAYPOST_ALLOWED_ORIGINS", "https://hunter2/path"),
        ("DATABASE_URL", "mysql://hunter2"),
        ("WAYPOST_POOL", "0"),
        ("WAYPOST_RATE_LIMIT", "1000001"),
        ("WAYPOST_CAP_SENDER", "-1"),
        ("WAYPOST_DEFAULT_TOOLSETS", "mailbox,,hunter2"),
        ("WAYPOST_SECRET_KEY", "hunter2"),
        ("WAYPOST_TRUSTED_PROXIES", "hunter2"),
        ("WAYPOST_UNSAFE_EGRESS", "hunter2"),
        ("WAYPOST_DRAIN_LIMIT", "NaN"),
        ("WAYPOST_LOG", "a=b=hunter2"),
    ] {
        let sentence = refusal(&[], &[(variable, value)]);
        assert!(sentence.starts_with(&format!("{variable} must be ")), "{sentence}");
        assert!(!sentence.contains("hunter2") && !sentence.contains('\n'), "{sentence}");
    }
}

#[test]
fn a_wrong_command_line_is_one_sentence_that_echoes_no_word() {
    let unknown = refusal(&["--database-ulr=postgres://hunter2"], &[]);
    assert!(unknown.starts_with("--database-ulr is not an option"), "{unknown}");
    for args in [
        &["hunter2"][..],
        &["serve", "hunter2"],
        &["--pool"],
        &["org"],
        &["org", "create", "acme", "--registration", "hunter2"],
        &["agent", "create"],
        &["--listen", "127.0.0.1:1", "--listen", "hunter2"],
    ] {
        let sentence = refusal(args, &[]);
        assert!(!sentence.contains("hunter2") && !sentence.contains('\n'), "{sentence}");
    }
    assert_eq!(refusal(&["agent", "create"], &[]), "--org <SLUG> is missing. See waypost --help.");
}

#[test]
fn help_is_an_answer_and_not_a_fault() {
    let Err(Refused::Asked(text)) = read(&["--help"], &[]) else { panic!("no help") };
    assert!(SETTINGS.iter().all(|setting| text.contains(setting.variable)), "{text}");
}

#[test]
fn chores_carry_their_arguments() {
    let role = |args: &[&str]| read(args, &[]).unwrap().role;
    let slug = "acme".to_owned();
    let made = OrgChore::Create { slug: slug.clone(), registration: Registration::Closed };
    assert_eq!(role(&["org", "create", "acme", "--registration", "closed"]), Role::Chore(Chore::Org(made)));
    let renewed = KeyChore::Renew { org: slug.clone(), agent_id: "a1".to_owned() };
    assert_eq!(role(&["key", "renew", "--org", "acme", "a1"]), Role::Chore(Chore::Key(renewed)));
    let agent = AgentChore::Create { org: slug, name: None };
    assert_eq!(role(&["agent", "create", "--org", "acme"]), Role::Chore(Chore::Agent(agent)));
    assert_eq!(role(&["openapi"]), Role::OpenApi);
    let allow = vec!["a.example.com".to_owned(), "*.example.org".to_owned()];
    let limited = OrgChore::Egress { slug: "acme".to_owned(), allow, none: false, any: false };
    let words = ["org", "egress", "acme", "--allow", "a.example.com", "--allow", "*.example.org"];
    assert_eq!(role(&words), Role::Chore(Chore::Org(limited)));
    for wrong in [&["org", "egress", "acme"][..], &["org", "egress", "acme", "--none", "--any"]] {
        assert!(read(wrong, &[]).is_err());
    }
}

#[test]
fn secrets_do_not_show_in_debug() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let given = config(&[], &[("DATABASE_URL", "postgres://u:hunter2@db/w"), ("WAYPOST_SECRET_KEY", key)]);
    assert_eq!(given.database_url.as_ref().unwrap().reveal(), "postgres://u:hunter2@db/w");
    assert_eq!(given.secret_key.as_ref().unwrap().reveal()[31], 31);
    let shown = format!("{given:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("1, 2, 3"), "{shown}");
}

#[test]
fn lists_are_read_as_hosts_origins_and_networks() {
    let given = config(
        &["--allowed-hosts", "Inbox.example.com, [::1]:8080", "--trusted-proxies", "10.0.0.0/8,192.0.2.1"],
        &[("WAYPOST_ALLOWED_ORIGINS", "https://app.example.com:8443"), ("WAYPOST_OPS_LISTEN", "off")],
    );
    let hosts = ["inbox.example.com", "[::1]:8080"].map(str::to_owned);
    assert_eq!(given.allowed_hosts, Some(Allowed::List(hosts.to_vec())));
    assert_eq!(given.allowed_origins, Allowed::List(vec!["https://app.example.com:8443".to_owned()]));
    assert_eq!(given.trusted_proxies[1].to_string(), "192.0.2.1/32");
    assert_eq!(given.ops_listen, None);
}

#[test]
fn webhooks_reach_this_machine_only_where_the_listener_is_on_it_too() {
    assert!(config(&[], &[("WAYPOST_UNSAFE_EGRESS", "loopback")]).unsafe_egress);
    assert!(!config(&[], &[]).unsafe_egress);
    for listen in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80"] {
        let sentence = refusal(&["--listen", listen], &[("WAYPOST_UNSAFE_EGRESS", "loopback")]);
        assert!(sentence.contains("unless WAYPOST_LISTEN is a loopback address"), "{sentence}");
    }
}

#[test]
fn the_url_shown_to_clients_can_be_called() {
    let shown = |given: &Config, bound: &str| given.public_url(bound.parse().unwrap());
    let unset = config(&[], &[]);
    assert_eq!(shown(&unset, "0.0.0.0:8080"), "http://127.0.0.1:8080");
    assert_eq!(shown(&unset, "[::]:80"), "http://[::1]:80");
    assert_eq!(shown(&unset, "192.0.2.1:80"), "http://192.0.2.1:80");
    let set = config(&["--public-url", "https://inbox.example.com/"], &[]);
    assert_eq!(shown(&set, "0.0.0.0:8080"), "https://inbox.example.com");
}
