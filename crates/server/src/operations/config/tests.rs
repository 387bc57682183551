//! Tests of the settings: precedence of the sources, and errors.

use super::*;

fn load(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, Value)],
) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Config::load(Some(&path), environment, flags.collect())
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let file = "listen = '127.0.0.1:1'\nrefresh_ms = 7\n[limits]\nbody = 1\nqueue = 5\n";
    let environment =
        [("WARPSEEK__LIMITS__BODY", "2"), ("WARPSEEK__LISTEN", "127.0.0.1:2"), ("OTHER", "x")];
    let flags = [("listen", Value::from("127.0.0.1:3"))];
    let config = load(file, &environment, &flags).unwrap();
    assert_eq!(config.listen, "127.0.0.1:3");
    assert_eq!((config.limits.body, config.limits.queue, config.refresh_ms), (2, 5, 7));
    let again = load(&config.to_toml(), &[], &[]).unwrap();
    assert_eq!(again, config);
}

#[test]
fn mistakes_are_named() {
    for (file, wanted) in [
        ("listn = 'x'", "listn"),
        ("[limits]\nbody = 'many'", "body"),
        ("listen = 'here'", "here"),
        ("listen = '0.0.0.0:9200'", "--api-key-file"),
        ("[limits]\nbatch = 0", "batch"),
        ("[limits]\nbody = 1000\nbodies = 999", "limits.bodies"),
        ("drain_notice_s = 86401", "drain_notice_s"),
        ("[cors]\norigins = ['*', 'https://a']", "cors.origins"),
        ("[cors]\norigins = ['https://a/b']", "https://a/b"),
        ("allowed_hosts = ['http://a.example']", "allowed_hosts"),
        ("allowed_hosts = ['*', 'a.example']", "remove the others"),
        ("restore = 'a'", "snapshots.url"),
        ("[timeouts]\nhead_s = 0", "timeouts.head_s"),
        ("[scrub]\nperiod_s = 0", "scrub.period_s"),
        ("[scrub]\nperiod_s = 86401", "1 to 86400"),
        ("[scrub]\nbytes_per_second = -1", "bytes_per_second"),
        ("[scrub]\nrate = 1", "rate"),
        ("cache = -1", "cache"),
        ("[timeouts]\nidle_s = 86401", "timeouts.idle_s"),
        ("[tls]\nkey = 'a'", "tls.certificate"),
        ("[tls]\ncertificate = 'a'", "tls.key"),
        ("[cluster]\nnodes = 'a:1'", "cluster.shards"),
        ("[cluster]\ncohort_size = 0", "cluster.cohort_size"),
        ("[cluster]\ncohort_size = 4097", "cluster.cohort_size"),
        ("[cluster]\ncohort_size = 1\ncohort_wait_ms = 5", "cluster.cohort_wait_ms"),
        ("[cluster]\ncohort_wait_ms = 1001", "cluster.cohort_wait_ms"),
    ] {
        let error = load(file, &[], &[]).unwrap_err();
        assert!(error.contains(wanted), "{file}: {error}");
    }
    assert!(load("listen = '0.0.0.0:9200'\ninsecure = true", &[], &[]).is_ok());
    assert!(load("listen = '[::1]:9200'", &[], &[]).is_ok());
    let origins = load("", &[("WARPSEEK__CORS__ORIGINS", "https://a, https://b")], &[]).unwrap();
    assert_eq!(origins.cors.origins, ["https://a", "https://b"]);
    let hosts = load("", &[("WARPSEEK__ALLOWED_HOSTS", "a.example, 10.0.0.7")], &[]).unwrap();
    assert_eq!(hosts.allowed_hosts, ["a.example", "10.0.0.7"]);
    assert!(load("", &[("WARPSEEK__LISTEN__X", "1")], &[]).is_err());
}
