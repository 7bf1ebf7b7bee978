//! Layout and identifiers, from outside.

use longshore_paths::{CsiRoot, PluginName, PluginType, VolumeId};

#[test]
fn pa5_hostile_volume_ids_stay_in_their_directory() {
    let root = CsiRoot::new("/r");
    let (ty, name) = (PluginType::new("t").unwrap(), PluginName::new("n").unwrap());
    let long = "é".repeat(64);
    for id in [".", "..", "../../etc", "/", "\0", long.as_str()] {
        let id = VolumeId::new(id).unwrap();
        let path = root.volume_dir(&ty, &name, &id);
        let component = path
            .strip_prefix("/r/t/n/volumes")
            .unwrap()
            .to_str()
            .unwrap();
        assert!(!component.contains('/') && component != "." && component != "..");
        assert!(component.len() <= 255);
        assert_eq!(
            root.parse_volume(&path).unwrap(),
            (ty.clone(), name.clone(), id)
        );
    }
    assert!(VolumeId::new("").is_err());
}
