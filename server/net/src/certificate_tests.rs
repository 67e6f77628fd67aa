use tempfile::TempDir;

use super::*;

/// The files of a certificate, in a temporary folder.
pub(crate) struct Files {
    dir: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir }
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.path().join("chain.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// Writes a new pair for `localhost` and returns the certificate.
    pub(crate) fn write_pair(&self) -> CertificateDer<'static> {
        self.write_pair_for("localhost")
    }

    /// Writes a new pair and returns the certificate.
    pub(crate) fn write_pair_for(&self, name: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a pair");
        std::fs::write(self.certificate(), made.cert.pem()).expect("written");
        std::fs::write(self.key(), made.signing_key.serialize_pem()).expect("written");
        made.cert.der().clone()
    }

    pub(crate) fn files(&self) -> CertificateFiles {
        CertificateFiles {
            certificate: self.certificate(),
            key: self.key(),
        }
    }
}

#[test]
fn errors_name_file_and_remedy() {
    let files = Files::new();
    let error = check_pair(&files.files())
        .expect_err("no files")
        .to_string();
    assert!(
        error.contains("chain.pem") && error.contains("exists"),
        "{error}"
    );

    files.write_pair();
    std::fs::write(files.certificate(), "").expect("written");
    let error = check_pair(&files.files()).expect_err("empty").to_string();
    assert!(
        error.contains("chain.pem") && error.contains("PEM"),
        "{error}"
    );

    // openssl ecparam -name prime256v1 -genkey -noout -out key; openssl req -new -key key
    // -subj /CN=localhost -out csr; openssl x509 -req -in csr -signkey key -days 36500
    let old = include_str!("../tests/version_1.pem");
    std::fs::write(files.certificate(), old).expect("written");
    let error = check_pair(&files.files()).expect_err("of version 1");
    assert!(!error.is_about_key(&files.key()));
    let error = error.to_string();
    assert!(
        error.contains("chain.pem has X.509 version 1") && error.contains("reissued"),
        "{error}"
    );

    files.write_pair();
    std::fs::remove_file(files.key()).expect("removed");
    let error = check_pair(&files.files()).expect_err("no key").to_string();
    assert!(
        error.contains("key.pem") && error.contains("exists"),
        "{error}"
    );

    files.write_pair();
    std::fs::copy(files.certificate(), files.key()).expect("copied");
    let error = check_pair(&files.files())
        .expect_err("not a key")
        .to_string();
    assert!(
        error.contains("no private key") && error.contains("key.pem"),
        "{error}"
    );
}

#[test]
fn key_of_another_certificate_is_refused() {
    let files = Files::new();
    files.write_pair();
    let other = Files::new();
    other.write_pair();
    std::fs::copy(other.key(), files.key()).expect("copied");
    let error = check_pair(&files.files()).expect_err("no pair").to_string();
    assert!(
        error.contains("key.pem is not the key of the certificate in")
            && error.contains("chain.pem"),
        "{error}"
    );
}

#[test]
fn encrypted_key_is_refused_with_the_command_that_decrypts_it() {
    let files = Files::new();
    files.write_pair();
    let pkcs8 =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                 DEK-Info: AES-256-CBC,174D28189BDB14EBF20317791613FF54\n\nMIHs\n\
                 -----END RSA PRIVATE KEY-----\n";
    for key in [pkcs8, older] {
        std::fs::write(files.key(), key).expect("written");
        let error = check_pair(&files.files()).expect_err("encrypted");
        assert!(error.is_about_key(&files.key()));
        let error = error.to_string();
        let remedy = format!("openssl pkey -in {}", files.key().display());
        assert!(
            error.contains("is encrypted") && error.contains(&remedy),
            "{error}"
        );
    }
}

#[test]
fn first_name_without_wildcard_is_known() {
    let files = Files::new();
    files.write_pair_for("films.example");
    let validity = check_pair(&files.files()).expect("a pair");
    assert_eq!(validity.name.as_deref(), Some("films.example"));
    files.write_pair_for("*.films.example");
    let validity = check_pair(&files.files()).expect("a pair");
    assert_eq!(validity.name, None);
}

#[test]
fn validity_is_a_problem_before_it_begins_and_when_it_ends_soon() {
    let day = 24 * 3600;
    let validity = CertificateValidity {
        file: PathBuf::from("/etc/chain.pem"),
        name: None,
        begins_unix_s: 100 * day,
        expires_unix_s: 190 * day,
    };
    let problem = |now| validity.problem(now);
    assert_eq!(problem(100 * day), None);
    assert_eq!(problem(176 * day - 1), None);
    for (now, said) in [(99 * day, "check the clock"), (176 * day, "expires on")] {
        let Some(ValidityProblem::Warning(text)) = problem(now) else {
            panic!("a warning at {now}");
        };
        assert!(
            text.contains(said) && text.contains("/etc/chain.pem"),
            "{text}"
        );
    }
    let Some(ValidityProblem::Expired(text)) = problem(190 * day) else {
        panic!("expired");
    };
    assert!(text.contains("expired on Jul 10"), "{text}");
}
