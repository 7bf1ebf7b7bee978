//! Mounts, in the one of the engine's two forms that can say them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{need, put as put_some, put_list, put_map, put_true};
use crate::spec::{ContainerSpec, Mount, MountKind, Propagation};
use crate::version::ApiVersion;
use crate::{EngineError, check};

const CREATE: &str = "HostConfig.Mounts.BindOptions.CreateMountpoint";

pub(super) fn put(
    host: &mut Map<String, Value>,
    spec: &ContainerSpec,
    api: ApiVersion,
) -> Result<(), EngineError> {
    let (mut binds, mut mounts) = (Vec::new(), Vec::new());
    for mount in &spec.mounts {
        match bind_text(mount)? {
            Some(text) => binds.push(text),
            None => mounts.push(mount_body(mount, spec, api)?),
        }
    }
    put_list(host, "Binds", &binds);
    put_list(host, "Mounts", &mounts);
    Ok(())
}

/// `SOURCE:TARGET[:OPTIONS]`, for what only that can say.
fn bind_text(mount: &Mount) -> Result<Option<String>, EngineError> {
    let MountKind::Bind {
        source,
        create_source,
        propagation,
        non_recursive,
        relabel,
    } = &mount.kind
    else {
        return Ok(None);
    };
    let sayable = !source.contains(':') && !mount.target.contains(':') && !non_recursive;
    match (create_source, relabel) {
        (_, Some(_)) if !sayable => {
            let reason = "cannot be relabelled: it has a `:` or is not recursive";
            return Err(check::invalid("HostConfig.Binds", source, reason));
        }
        (true, _) | (_, Some(_)) if sayable => {}
        _ => return Ok(None),
    }
    let mut options = vec![if mount.read_only { "ro" } else { "rw" }];
    options.extend(propagation.map(Propagation::as_str));
    options.extend(relabel.map(|shared| if shared { "z" } else { "Z" }));
    Ok(Some(format!(
        "{source}:{}:{}",
        mount.target,
        options.join(",")
    )))
}

fn mount_body(mount: &Mount, spec: &ContainerSpec, api: ApiVersion) -> Result<Value, EngineError> {
    let mut body = Map::new();
    body.insert("Target".to_owned(), json!(mount.target));
    put_true(&mut body, "ReadOnly", mount.read_only);
    let mut options = Map::new();
    let (kind, key) = match &mount.kind {
        MountKind::Bind {
            source,
            create_source,
            propagation,
            non_recursive,
            relabel: _,
        } => {
            body.insert("Source".to_owned(), json!(source));
            put_some(
                &mut options,
                "Propagation",
                &propagation.map(Propagation::as_str),
            );
            put_true(&mut options, "NonRecursive", *non_recursive);
            if *create_source {
                need(api, CREATE, "1.42")?;
                put_true(&mut options, "CreateMountpoint", true);
            }
            ("bind", "BindOptions")
        }
        MountKind::Volume {
            name,
            driver,
            driver_options,
            labels,
            no_copy,
            subpath,
        } => {
            put_some(&mut body, "Source", name);
            put_map(&mut options, "Labels", labels);
            put_true(&mut options, "NoCopy", *no_copy);
            if subpath.is_some() {
                need(api, "HostConfig.Mounts.VolumeOptions.Subpath", "1.45")?;
                put_some(&mut options, "Subpath", subpath);
            }
            // `HostConfig.VolumeDriver` is not looked at for these.
            let driver = driver.as_ref().or(spec.volume_driver.as_ref());
            driver_config(&mut options, driver, driver_options);
            ("volume", "VolumeOptions")
        }
        MountKind::Tmpfs { size, mode } => {
            put_some(&mut options, "SizeBytes", size);
            put_some(&mut options, "Mode", mode);
            ("tmpfs", "TmpfsOptions")
        }
        MountKind::Image { source, subpath } => {
            need(api, "HostConfig.Mounts.ImageOptions", "1.48")?;
            body.insert("Source".to_owned(), json!(source));
            put_some(&mut options, "Subpath", subpath);
            ("image", "ImageOptions")
        }
    };
    body.insert("Type".to_owned(), json!(kind));
    if !options.is_empty() {
        body.insert(key.to_owned(), Value::Object(options));
    }
    Ok(Value::Object(body))
}

fn driver_config(
    options: &mut Map<String, Value>,
    driver: Option<&String>,
    driver_options: &BTreeMap<String, String>,
) {
    if driver.is_none() && driver_options.is_empty() {
        return;
    }
    let mut config = Map::new();
    put_some(&mut config, "Name", &driver);
    put_map(&mut config, "Options", driver_options);
    options.insert("DriverConfig".to_owned(), Value::Object(config));
}
