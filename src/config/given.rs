//! What was given on the command line and in the environment, before it means anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand, value_parser};

use super::Role;
use super::settings::{SETTINGS, nearest};

const UNSAFE_DURABILITY: &str = "unsafe-durability";

/// Why the process does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Help or the version was asked for: this text, to standard output, exit code 0.
    Asked(String),
    /// It cannot work: one sentence, to standard error, exit code 2.
    CannotWork(String),
}

impl Refused {
    /// Prints what there is to say and gives the exit code.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        // Nothing can be done about a closed standard stream; the exit code still tells.
        match self {
            Self::Asked(text) => {
                let _ = std::io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Self::CannotWork(sentence) => {
                let _ = writeln!(std::io::stderr(), "waypost: {sentence}");
                ExitCode::from(2)
            }
        }
    }
}

pub(super) struct Given {
    flags: ArgMatches,
    env: BTreeMap<String, OsString>,
}

impl Given {
    pub(super) fn collect(
        args: impl IntoIterator<Item = OsString>,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(Role, Self), Refused> {
        let mut flags = command().try_get_matches_from(args).map_err(|error| told(&error))?;
        let role = match flags.subcommand_name() {
            None => Role::Serve,
            Some(_) => Role::from_arg_matches(&flags).map_err(|error| told(&error))?,
        };
        // clap hands a global flag down to the role's own matches, never up.
        while let Some((_, inner)) = flags.remove_subcommand() {
            flags = inner;
        }
        let env =
            env.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let given = Self { flags, env };
        given.refuse_unknown_variables()?;
        Ok((role, given))
    }

    fn refuse_unknown_variables(&self) -> Result<(), Refused> {
        let known = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
        match self.env.keys().find(|name| name.starts_with("WAYPOST_") && !known(name)) {
            None => Ok(()),
            Some(unknown) => {
                let shown: String = unknown.chars().take(64).collect();
                let meant = nearest(unknown).map(|known| format!("; the nearest one is {known}"));
                let meant = meant.unwrap_or_default();
                Err(cannot_work(format!("{shown} is not a setting{meant}.")))
            }
        }
    }

    /// The value of a setting; `wants` ends the sentence `NAME must be …` when it cannot be read.
    pub(super) fn read<T>(
        &self,
        variable: &'static str,
        wants: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Refused> {
        let Some(raw) = self.raw(variable) else { return Ok(None) };
        let value = raw.to_str().map(str::trim).and_then(parse);
        value.map(Some).ok_or_else(|| cannot_work(format!("{variable} must be {wants}.")))
    }

    /// A folder, which need not be UTF-8.
    pub(super) fn path(&self, variable: &'static str) -> Option<PathBuf> {
        self.raw(variable).map(PathBuf::from)
    }

    pub(super) fn search_path(&self) -> Vec<PathBuf> {
        self.env.get("PATH").map(|path| std::env::split_paths(path).collect()).unwrap_or_default()
    }

    pub(super) fn data_dir(&self) -> Result<PathBuf, Refused> {
        if let Some(dir) = self.path("WAYPOST_DATA_DIR") {
            return Ok(dir);
        }
        if nix::unistd::geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/waypost"));
        }
        let folder = |name: &str| self.env.get(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = || folder("HOME").map(|home| home.join(".local/share"));
        let data = folder("XDG_DATA_HOME").or_else(home);
        data.map(|dir| dir.join("waypost")).ok_or_else(|| {
            cannot_work("WAYPOST_DATA_DIR must be set, since neither XDG_DATA_HOME nor HOME is.".to_owned())
        })
    }

    pub(super) fn log(&self) -> Result<Option<String>, Refused> {
        let filter = |text: &str| tracing_subscriber::EnvFilter::try_new(text).ok().map(|_| text.to_owned());
        let ours = self.read("WAYPOST_LOG", "a filter such as info or waypost=debug", filter)?;
        // RUST_LOG is often set for other programs: a filter that cannot be read is no reason to stop.
        let common = || self.env.get("RUST_LOG").and_then(|raw| raw.to_str()).and_then(filter);
        Ok(ours.or_else(common))
    }

    pub(super) fn unsafe_durability(&self) -> bool {
        self.flags.get_flag(UNSAFE_DURABILITY)
    }

    pub(super) fn without_effect(&self) -> Vec<&'static str> {
        let idle = SETTINGS.iter().filter(|setting| !setting.takes_effect);
        idle.map(|setting| setting.variable).filter(|variable| self.raw(variable).is_some()).collect()
    }

    fn raw(&self, variable: &str) -> Option<&OsStr> {
        let flag = self.flags.get_one::<OsString>(variable);
        let set = || self.env.get(variable).filter(|value| !value.is_empty());
        flag.or_else(set).map(OsString::as_os_str)
    }
}

fn command() -> Command {
    let base = Command::new("waypost")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .disable_help_subcommand(true);
    let durability = Arg::new(UNSAFE_DURABILITY)
        .long(UNSAFE_DURABILITY)
        .global(true)
        .action(ArgAction::SetTrue)
        .help("accept a database that may lose what it has acknowledged");
    let with_settings = SETTINGS.iter().fold(base.arg(durability), |command, setting| {
        let help = format!("{} [env: {}]", setting.meaning, setting.variable);
        let flag = Arg::new(setting.variable).long(setting.flag).value_name(setting.value).help(help);
        command.arg(flag.global(true).value_parser(value_parser!(OsString)))
    });
    Role::augment_subcommands(with_settings).subcommand_required(false)
}

/// clap's error as one sentence of ours. Words that are not flags are left out: one of them may be a secret.
fn told(error: &clap::Error) -> Refused {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Refused::Asked(text);
    }
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if name.starts_with("--") => Some(name.clone()),
        Some(ContextValue::Strings(names)) => Some(names.join(", ")),
        _ => None,
    };
    let meant = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(name)) => format!("; the nearest one is {name}"),
        _ => String::new(),
    };
    let sentence = match (error.kind(), named) {
        (ErrorKind::UnknownArgument, Some(name)) => format!("{name} is not an option{meant}."),
        (ErrorKind::MissingRequiredArgument, Some(name)) => format!("{name} is missing."),
        (ErrorKind::ArgumentConflict, Some(name)) => format!("{name} may be given only once."),
        (_, Some(name)) => format!("the value of {name} cannot be used."),
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand, None) => {
            "the chore to do is missing.".to_owned()
        }
        (_, None) => "an argument is not known.".to_owned(),
    };
    cannot_work(format!("{sentence} See waypost --help."))
}

fn cannot_work(sentence: String) -> Refused {
    Refused::CannotWork(sentence)
}
