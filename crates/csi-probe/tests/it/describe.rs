//! What a plugin says about itself.

use longshore_csi_probe::{MAX_ANSWER_BYTES, PluginDetails, ProbeError, probe};
use longshore_testkit::csi::Behaviour;

use crate::{Bed, PATIENCE, patient, within};

async fn describe(behaviour: Behaviour) -> Result<PluginDetails, ProbeError> {
    let bed = Bed::new();
    let _plugin = bed.plugin(behaviour);
    let probed = probe(&bed.endpoint(), &within(PATIENCE)).await?;
    probed.describe(patient()).await
}

#[tokio::test]
async fn a_v1_plugin_is_described() {
    let details = describe(Behaviour {
        manifest_bytes: 200,
        ..Behaviour::v1()
    })
    .await
    .unwrap();
    assert_eq!(
        (details.name.as_str(), details.vendor_version.as_str()),
        ("fake.csi.longshore", "1.2.3")
    );
    assert_eq!(details.manifest.len(), 2);
    let names = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&details.plugin_capabilities),
        ["CONTROLLER_SERVICE", "VOLUME_EXPANSION_ONLINE"]
    );
    let controller = details.controller_capabilities.unwrap();
    assert_eq!(
        names(&controller),
        ["CREATE_DELETE_VOLUME", "UNKNOWN(4711)"]
    );
    assert_eq!(
        names(&details.node_capabilities.unwrap()),
        ["STAGE_UNSTAGE_VOLUME"]
    );
    let node = details.node.unwrap();
    assert_eq!(
        (node.id.as_str(), node.max_volumes),
        ("fake-node", Some(16))
    );
    assert_eq!(node.topology["zone"], "z1");
}

#[tokio::test]
async fn a_name_alone_is_the_one_of_the_description() {
    let named = |behaviour| async {
        let bed = Bed::new();
        let _plugin = bed.plugin(behaviour);
        let probed = probe(&bed.endpoint(), &within(PATIENCE)).await?;
        probed.name(patient()).await
    };
    for behaviour in [Behaviour::v1(), Behaviour::v0()] {
        assert_eq!(named(behaviour).await.unwrap(), "fake.csi.longshore");
    }
    for (behaviour, version) in [(Behaviour::v1(), "v1"), (Behaviour::v0_2(), "v0")] {
        let error = named(Behaviour {
            name: String::new(),
            ..behaviour
        })
        .await
        .unwrap_err();
        let expected = format!("GetPluginInfo ({version}) without a name");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[tokio::test]
async fn a_0_3_plugin_gives_its_node_info_and_a_0_2_plugin_its_node_id() {
    for (behaviour, max_volumes) in [(Behaviour::v0(), Some(16)), (Behaviour::v0_2(), None)] {
        let node = describe(behaviour).await.unwrap().node.unwrap();
        assert_eq!(
            (node.id.as_str(), node.max_volumes),
            ("fake-node", max_volumes)
        );
    }
}

#[tokio::test]
async fn a_service_that_is_not_offered_is_absent_and_no_error() {
    for behaviour in [Behaviour::v1(), Behaviour::v0()] {
        let node_only = describe(Behaviour {
            controller: false,
            ..behaviour.clone()
        })
        .await
        .unwrap();
        assert_eq!(node_only.controller_capabilities, None);
        assert!(node_only.node.is_some());
        let controller_only = describe(Behaviour {
            node: false,
            ..behaviour
        })
        .await
        .unwrap();
        assert_eq!(
            (controller_only.node, controller_only.node_capabilities),
            (None, None)
        );
        assert!(controller_only.controller_capabilities.is_some());
    }
}

#[tokio::test]
async fn an_empty_name_is_refused() {
    let error = describe(Behaviour {
        name: String::new(),
        ..Behaviour::v1()
    })
    .await
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("GetPluginInfo (v1) without a name"),
        "{error}"
    );
    let error = describe(Behaviour {
        node_id: String::new(),
        ..Behaviour::v0_2()
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("without a node id"), "{error}");
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_refused_before_it_is_decoded() {
    let manifest_bytes = 2 * MAX_ANSWER_BYTES;
    match describe(Behaviour {
        manifest_bytes,
        ..Behaviour::v1()
    })
    .await
    {
        Err(ProbeError::AnswerTooLarge { call, limit, .. }) => {
            assert_eq!((call, limit), ("GetPluginInfo", MAX_ANSWER_BYTES));
        }
        other => panic!("{other:?}"),
    }
}
