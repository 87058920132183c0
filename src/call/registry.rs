//! All tools as data: what every door, the documentation and the tests read.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::arguments::Shape;
use super::dialect::Dialect;
use super::fingerprint::{self, Fingerprint};
use super::outcome::Outcomes;
use super::tool::{Access, Follow, Reach, Spec, Tool};
use super::{Call, Error, Result, schema};

/// All toolsets, in reading order.
pub struct Registry {
    toolsets: Vec<Toolset>,
    by_name: HashMap<&'static str, Arc<Entry>>,
}

/// A family of tools that speaks one dialect.
pub struct Toolset {
    /// Its name in `?toolsets=`.
    pub name: &'static str,
    /// What it is for, for documents.
    pub about: &'static str,
    /// How it spells errors.
    pub dialect: Dialect,
    /// Most bytes of a request body.
    pub body_limit: usize,
    entries: Vec<Arc<Entry>>,
}

/// A tool with its types rubbed out.
pub struct Entry {
    /// How the doors show it.
    pub spec: Spec,
    /// Its toolset.
    pub toolset: &'static str,
    /// How its errors are spelt.
    pub dialect: Dialect,
    /// Most bytes of a request body.
    pub body_limit: usize,
    /// What it does and when to use it, for agents.
    pub description: String,
    /// The published input schema.
    pub input: Value,
    /// The schema of an answer that succeeded.
    pub answer: Value,
    /// Codes of the refusals that are its own.
    pub refuses: &'static [&'static str],
    /// Arguments worth showing in an example call, as JSON.
    pub example: Option<&'static str>,
    pub(super) outcomes: Outcomes,
    shape: Shape,
    tidy: fn(&mut Map<String, Value>),
    read: Read,
}

/// Reads judged arguments into a command.
type Read = fn(Map<String, Value>) -> Result<Arc<dyn Command>>;

/// What a call came to.
#[derive(Debug)]
pub struct Ran {
    /// The answer, as its schema says: JSON, written once.
    pub answer: String,
    /// Whether it answers an earlier call again.
    pub replayed: bool,
    /// `Some(seq)`: empty, and worth asking for again once the caller's mailbox moved beyond.
    pub awaits: Option<i64>,
}

/// A tool with its arguments read, ready to run, more than once if it is held.
pub trait Command: Send + Sync {
    /// How long the caller lets the call be held while the answer is empty.
    fn patience(&self) -> Option<Duration>;
    /// Whether and how the call follows its caller's mailbox.
    fn follow(&self) -> Option<Follow>;
    /// One transaction's work.
    fn run<'a>(&'a self, call: &'a mut Call<'_>) -> Running<'a>;
}

/// The future of a running command.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Ran>> + Send + 'a>>;

impl Registry {
    /// All `toolsets`, in reading order. Names of tools are unique across them.
    pub fn new(toolsets: Vec<Toolset>) -> Registry {
        let entries = toolsets.iter().flat_map(|toolset| &toolset.entries);
        let by_name = entries.map(|entry| (entry.spec.name, entry.clone())).collect();
        Registry { toolsets, by_name }
    }

    /// The toolsets, in reading order.
    pub fn toolsets(&self) -> &[Toolset] {
        &self.toolsets
    }

    /// All tools, in reading order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.toolsets.iter().flat_map(|toolset| &toolset.entries)
    }

    /// The tools that are listed and called by their name, in reading order.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries().filter(|entry| entry.is_listed())
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// Most bytes that any tool takes: what a door reads before it knows the tool.
    pub fn body_limit(&self) -> usize {
        self.toolsets.iter().map(|toolset| toolset.body_limit).max().unwrap_or(0)
    }
}

impl Toolset {
    /// An empty toolset; add tools in reading order with [`Toolset::with`].
    pub fn new(name: &'static str, about: &'static str, dialect: Dialect, body_limit: usize) -> Toolset {
        Toolset { name, about, dialect, body_limit, entries: Vec::new() }
    }

    /// Adds a tool.
    ///
    /// # Panics
    /// At start, when the input's schema uses a keyword that arguments cannot be judged by.
    #[must_use]
    pub fn with<T: Tool>(mut self) -> Toolset {
        let spec = T::SPEC;
        let input = schema::of_input::<T>(spec.access, spec.reach == Reach::Everywhere);
        self.entries.push(Arc::new(Entry {
            toolset: self.name,
            dialect: self.dialect,
            body_limit: self.body_limit,
            description: input["description"].as_str().unwrap_or_default().to_owned(),
            shape: shape(&input, spec).also_called(T::ALSO_CALLED),
            answer: schema::of_answer::<T::Answer>(),
            refuses: T::REFUSES,
            example: T::EXAMPLE,
            input: published(input),
            outcomes: Outcomes::of(spec.name),
            tidy: T::tidy,
            read: read::<T>,
            spec,
        }));
        self
    }

    /// Its tools, in reading order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }
}

impl Entry {
    /// Whether it is listed and called by its name, at every door. Others are reached by their routes alone.
    pub fn is_listed(&self) -> bool {
        self.spec.reach == Reach::Everywhere
    }

    /// Judges arguments and reads them into a command.
    ///
    /// Credentials are judged like other arguments and then left out: neither the
    /// tool nor the fingerprint sees them.
    pub fn read(&self, mut arguments: Map<String, Value>) -> Result<(Arc<dyn Command>, Fingerprint)> {
        (self.tidy)(&mut arguments);
        let mut arguments = self.shape.check(arguments)?;
        arguments.shift_remove(self.spec.access.argument());
        let print = fingerprint::of(&arguments);
        Ok(((self.read)(arguments)?, print))
    }
}

/// The description of the input type is the tool's; the schema need not say it twice.
fn published(mut input: Value) -> Value {
    input.as_object_mut().into_iter().for_each(|object| _ = object.shift_remove("description"));
    input
}

/// The shape that arguments are judged by. A credential may have come by header.
#[expect(
    clippy::panic,
    reason = "a schema that arguments cannot be judged by is a fault of the program, found at start"
)]
fn shape(input: &Value, spec: Spec) -> Shape {
    let mut judged = input.clone();
    if spec.access != Access::Anyone
        && let Some(required) = judged.get_mut("required").and_then(Value::as_array_mut)
    {
        required.retain(|name| name != spec.access.argument());
    }
    Shape::compile(&judged).unwrap_or_else(|problem| panic!("the input schema of {}: {problem}", spec.name))
}

fn read<T: Tool>(arguments: Map<String, Value>) -> Result<Arc<dyn Command>> {
    let tool: T = serde_json::from_value(Value::Object(arguments)).map_err(|_| {
        // What the schema let through and the type refuses; serde's own words would echo values.
        Error::invalid("arguments", "do not fit the input schema")
    })?;
    Ok(Arc::new(tool))
}

impl<T: Tool> Command for T {
    fn patience(&self) -> Option<Duration> {
        Tool::patience(self)
    }

    fn follow(&self) -> Option<Follow> {
        Tool::follow(self)
    }

    fn run<'a>(&'a self, call: &'a mut Call<'_>) -> Running<'a> {
        Box::pin(async move {
            let answer = Tool::run(self, call).await?;
            let awaits = T::awaits(&answer);
            let answer = serde_json::to_string(&answer).map_err(Error::internal)?;
            Ok(Ran { answer, replayed: call.is_replay(), awaits })
        })
    }
}
