//! The table of settings: one row gives a setting its flag, its environment variable and its help line.

/// One setting: a flag and an environment variable of the same meaning. The flag wins.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The environment variable, also the setting's name in every message.
    pub variable: &'static str,
    /// The long flag, without its dashes.
    pub flag: &'static str,
    /// What stands for the value in the help text.
    pub value: &'static str,
    /// The help line, with the default.
    pub meaning: &'static str,
    /// False when the setting is known but nothing in this version reads it.
    pub takes_effect: bool,
}

const fn setting(
    variable: &'static str,
    flag: &'static str,
    value: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { variable, flag, value, meaning, takes_effect: true }
}

const fn without_effect(variable: &'static str, flag: &'static str, value: &'static str) -> Setting {
    Setting {
        variable,
        flag,
        value,
        meaning: "known, but without effect in this version",
        takes_effect: false,
    }
}

/// Every setting there is, in the order the help text shows them.
pub const SETTINGS: &[Setting] = &[
    setting(
        "WAYPOST_LISTEN",
        "listen",
        "HOST:PORT",
        "the public listener; port 0 takes any free one [default: 127.0.0.1:8080]",
    ),
    setting(
        "WAYPOST_OPS_LISTEN",
        "ops-listen",
        "HOST:PORT|off",
        "the listener of /metrics [default: 127.0.0.1:9464]",
    ),
    setting(
        "WAYPOST_PUBLIC_URL",
        "public-url",
        "URL",
        "the URL shown to clients; its host is always allowed [default: http://<listen>]",
    ),
    setting(
        "WAYPOST_ALLOWED_HOSTS",
        "allowed-hosts",
        "LIST",
        "hosts requests may name, beside the public URL's; * for any [default: loopback]",
    ),
    setting(
        "WAYPOST_ALLOWED_ORIGINS",
        "allowed-origins",
        "LIST",
        "browser origins that may call, beside the public URL's; * for any [default: *]",
    ),
    setting(
        "DATABASE_URL",
        "database-url",
        "URL",
        "the Postgres to use [default: a private cluster in the data dir]",
    ),
    setting(
        "WAYPOST_DATA_DIR",
        "data-dir",
        "DIR",
        "private cluster and key file [default: <XDG data dir>/waypost; /var/lib/waypost as root]",
    ),
    setting("WAYPOST_PG_BIN", "pg-bin", "DIR", "folder of the Postgres server programs [default: searched]"),
    setting("WAYPOST_POOL", "pool", "N", "database connections of the pod's pool [default: 10]"),
    setting(
        "WAYPOST_DEFAULT_TOOLSETS",
        "default-toolsets",
        "LIST",
        "toolsets at /mcp when the caller names none [default: mailbox]",
    ),
    setting(
        "WAYPOST_REGISTER_LIMIT",
        "register-limit",
        "N",
        "registrations per hour and client network; 0 = no limit [default: 20]",
    ),
    setting(
        "WAYPOST_RATE_LIMIT",
        "rate-limit",
        "N",
        "requests per second and credential, twice that at once; 0 = no limit [default: 50]",
    ),
    setting(
        "WAYPOST_CAP_MAILBOX",
        "cap-mailbox",
        "N",
        "unacked peer messages per mailbox; 0 = no limit [default: 50]",
    ),
    setting(
        "WAYPOST_CAP_SENDER",
        "cap-sender",
        "N",
        "unacked messages of one sender in a mailbox; 0 = no limit [default: 10]",
    ),
    setting(
        "WAYPOST_HOLDS_PER_AGENT",
        "holds-per-agent",
        "N",
        "held reads and streams of an agent at once; 0 = no limit [default: 4]",
    ),
    setting(
        "WAYPOST_HOLDS_PER_ORG",
        "holds-per-org",
        "N",
        "the same per organization; 0 = no limit [default: 200]",
    ),
    setting(
        "WAYPOST_HOLDS_PER_POD",
        "holds-per-pod",
        "N",
        "the same for the whole pod; 0 = no limit [default: 10000]",
    ),
    setting(
        "WAYPOST_SECRET_KEY",
        "secret-key",
        "BASE64",
        "32 bytes that encrypt and sign; needed with DATABASE_URL [default: the key file of the data dir, if there is one]",
    ),
    setting(
        "WAYPOST_TRUSTED_PROXIES",
        "trusted-proxies",
        "LIST",
        "networks (CIDR) whose X-Forwarded-For is believed [default: none]",
    ),
    setting(
        "WAYPOST_EGRESS_CA",
        "egress-ca",
        "FILE",
        "PEM roots believed beside the system's, for what leaves [default: none]",
    ),
    setting(
        "WAYPOST_UNSAFE_EGRESS",
        "unsafe-egress",
        "loopback",
        "lets webhooks reach this machine at any port; for tests, on a loopback listener only [default: unset]",
    ),
    setting(
        "WAYPOST_DRAIN_DELAY",
        "drain-delay",
        "SECONDS",
        "from /readyz failing to closing the door [default: 0]",
    ),
    setting(
        "WAYPOST_DRAIN_LIMIT",
        "drain-limit",
        "SECONDS",
        "until what is left of a drain is cut [default: 20]",
    ),
    setting("WAYPOST_LOG", "log", "FILTER", "what is logged, as in RUST_LOG [default: RUST_LOG, else info]"),
    without_effect("WAYPOST_ADMIN_TOKEN", "admin-token", "TOKEN"),
    without_effect("OTEL_EXPORTER_OTLP_ENDPOINT", "otel-exporter-otlp-endpoint", "URL"),
];

/// The known variable whose name is most like `variable`, if any is alike. What all have in common tells nothing.
#[must_use]
pub fn nearest(variable: &str) -> Option<&'static str> {
    let known = SETTINGS.iter().map(|setting| (own(setting.variable), setting.variable));
    crate::nearest::nearest(own(variable), known)
}

fn own(variable: &str) -> &str {
    variable.strip_prefix("WAYPOST_").unwrap_or(variable)
}
