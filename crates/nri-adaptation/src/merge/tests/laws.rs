//! Laws that hold for any replies, against a model that knows only sets of keys.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What one plugin does to one of a few environment variables.
#[derive(Debug, Clone, Copy)]
enum Op {
    Add(u8),
    Remove(u8),
}

fn replies() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let op = prop_oneof![(0..4_u8).prop_map(Op::Add), (0..4_u8).prop_map(Op::Remove)];
    proptest::collection::vec(proptest::collection::vec(op, 0..5), 0..5)
}

fn reply(ops: &[Op], plugin: &str) -> CreateContainerResponse {
    let mut adjustment = ContainerAdjustment::default();
    for op in ops {
        match op {
            Op::Add(key) => adjustment.add_env(format!("K{key}"), plugin),
            Op::Remove(key) => adjustment.remove_env(&format!("K{key}")),
        };
    }
    CreateContainerResponse {
        adjust: Some(adjustment),
        ..Default::default()
    }
}

/// The environment of the runtime: removals first, then what is set.
fn apply(
    mut env: BTreeMap<String, String>,
    adjustment: &ContainerAdjustment,
) -> BTreeMap<String, String> {
    for entry in &adjustment.env {
        if let Some(key) = longshore_nri_api::removed_key(&entry.key) {
            env.remove(key);
        }
    }
    for entry in adjustment
        .env
        .iter()
        .filter(|entry| !entry.key.starts_with('-'))
    {
        env.insert(entry.key.clone(), entry.value.clone());
    }
    env
}

proptest! {
    #[test]
    fn merging_equals_applying_one_plugin_after_the_other(replies in replies(), given in 0..16_u8) {
        let given: BTreeMap<String, String> =
            (0..4).filter(|key| given & (1 << key) != 0).map(|key| (format!("K{key}"), "given".into())).collect();
        let request = create_request(|c| c.env = given.iter().map(|(k, v)| format!("{k}={v}")).collect());
        let mut merge = CreateMerge::new(request, Compat::Correct);
        let mut model = given.clone();
        let mut owners: BTreeMap<u8, usize> = BTreeMap::new();
        for (index, ops) in replies.iter().enumerate() {
            let plugin = format!("{index:02}-p");
            let mut conflict = false;
            for op in ops {
                if let Op::Remove(key) = op {
                    owners.remove(key);
                    model.remove(&format!("K{key}"));
                }
            }
            for op in ops {
                if let Op::Add(key) = op {
                    conflict |= owners.insert(*key, index).is_some();
                    model.insert(format!("K{key}"), plugin.clone());
                }
            }
            let merged = merge.add(&plugin, reply(ops, &plugin));
            prop_assert_eq!(merged.is_err(), conflict);
            if conflict {
                return Ok(());
            }
            let seen: BTreeMap<String, String> = merge.request().container.as_ref().unwrap().env.iter()
                .filter_map(|entry| entry.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
            prop_assert_eq!(&seen, &model, "what the next plugin sees");
        }
        prop_assert_eq!(apply(given, &merge.finish().adjustment), model, "what the runtime applies");
    }
}
