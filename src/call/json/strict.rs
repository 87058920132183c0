//! The visitors behind strict parsing: they build what serde's tokenizer reads and refuse on the way.

use std::{cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, value::RawValue};

use super::{FieldPath, Refused};

/// Names that `serde_json` gives a meaning of its own: a member called so would be parsed a second
/// time, leniently, when a `Value` is read out of the result.
const RESERVED: &str = "$serde_json::private::";

/// Where the typed refusal waits while serde carries a plain error up.
type Refusal<'a> = &'a RefCell<Option<Refused>>;

/// Builds one value at one place.
#[derive(Clone, Copy)]
pub(super) struct Strict<'a> {
    pub(super) place: FieldPath<'a>,
    pub(super) depth_left: usize,
    pub(super) refusal: Refusal<'a>,
}

impl Strict<'_> {
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        self.depth_left
            .checked_sub(1)
            .ok_or_else(|| refuse(self.refusal, Refused::TooDeep { path: self.place.to_string() }))
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        if text.contains('\0') {
            return Err(refuse(self.refusal, Refused::Nul { path: self.place.to_string() }));
        }
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth_left = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(Strict { place: self.place.item(list.len()), depth_left, ..self })?
        {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth_left = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            judge_key(self.place, &key, object.contains_key(&key), self.refusal)?;
            let place = self.place.member(&key);
            let value = members.next_value_seed(Strict { place, depth_left, ..self })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Collects the members of one object without looking into them.
pub(super) struct OneLevel<'a>(pub(super) Refusal<'a>);

impl<'de> Visitor<'de> for OneLevel<'_> {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut object, mut seen) = (Vec::new(), HashSet::new());
        while let Some(key) = members.next_key::<String>()? {
            judge_key(FieldPath::Root, &key, !seen.insert(key.clone()), self.0)?;
            object.push((key, members.next_value()?));
        }
        Ok(object)
    }
}

fn refuse<E: Error>(slot: Refusal<'_>, refused: Refused) -> E {
    slot.replace(Some(refused));
    E::custom("refused")
}

fn judge_key<E: Error>(place: FieldPath<'_>, key: &str, repeated: bool, slot: Refusal<'_>) -> Result<(), E> {
    let path = || place.member(key).to_string();
    if key.contains('\0') {
        return Err(refuse(slot, Refused::Nul { path: path() }));
    }
    if repeated {
        return Err(refuse(slot, Refused::Duplicate { path: path() }));
    }
    if key.starts_with(RESERVED) {
        return Err(refuse(slot, Refused::Reserved { path: path() }));
    }
    Ok(())
}
