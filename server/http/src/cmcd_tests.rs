use super::*;

fn parsed(text: &str) -> Cmcd {
    let mut said = Cmcd::default();
    said.absorb(text);
    said
}

#[test]
fn parses_every_supported_key() {
    let said = parsed(
        "bl=21300,br=3200,bs,cid=\"faec5fc2\",d=4004,dl=18500,mtp=48100,\
         nor=\"..%2F300kbps%2Fsegment35.m4v\",nrr=\"12323-48763\",ot=v,pr=1.08,rtp=12000,sf=d,\
         sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\",st=v,su,tb=6000",
    );
    let expected = Cmcd {
        bit_rate: Some(BitRate::from_kbps(3200)),
        buffer: Some(Duration::from_millis(21_300)),
        deadline: Some(Duration::from_millis(18_500)),
        startup: true,
        throughput: Some(BitRate::from_kbps(48_100)),
        throughput_max: Some(BitRate::from_kbps(12_000)),
        starved: true,
        session_id: Some("6e2fb550-c457-11e9-bb97-0800200c9a66".into()),
        next_object: Some("..%2F300kbps%2Fsegment35.m4v".into()),
        next_range: Some("12323-48763".into()),
        is_unknown_version: false,
    };
    assert_eq!(said, expected);
}

#[test]
fn fields_and_query_are_equivalent() {
    let fields: [(&str, &[u8]); 5] = [
        ("CMCD-Request", b"mtp=25400, su"),
        ("CMCD-Object", b"br=3200,d=4004,ot=v,tb=6000"),
        ("CMCD-Status", b"bs,rtp=15000"),
        ("CMCD-Session", b"sid=\"6e2fb550\""),
        ("Range", b"bytes=0-"),
    ];
    let query = "x=1&CMCD=br%3D3200%2Cbs%2Cd%3D4004%2Cmtp%3D25400%2Cot%3Dv%2Crtp%3D15000%2C\
                 sid%3D%226e2fb550%22%2Csu%2Ctb%3D6000";
    let by_fields = Cmcd::read(fields, None);
    assert_eq!(by_fields, Cmcd::read([], Some(query)));
    assert!(by_fields.startup && by_fields.starved);
    let both = Cmcd::read(fields, Some("CMCD=br%3D1,bl%3D100"));
    assert_eq!(both.bit_rate, by_fields.bit_rate);
    assert_eq!(both.buffer, Some(Duration::from_millis(100)));
}

#[test]
fn quoted_text_may_contain_separators_and_escapes() {
    let said = parsed(r#"sid="a,b=c\"d\\e",com.example-x="br=9,",br=100"#);
    assert_eq!(said.session_id.as_deref(), Some(r#"a,b=c"d\e"#));
    assert_eq!(said.bit_rate, Some(BitRate::from_kbps(100)));
}

#[test]
fn invalid_value_is_ignored() {
    for bad in [
        "br=fast",
        "br=",
        "br",
        "br=-5",
        "br=1.5",
        "br=0",
        "br=\"5\"",
        "br=9999999999999999",
        "bl=NaN",
        "sid=unquoted",
        "sid=\"unclosed\\\"",
        "sid=\"a\\b\"",
        "sid=\"a\u{7}\"",
        "ot=x",
        "pr=1.",
        "pr=.",
        "pr=1.2345",
        "pr=-1",
        "su=maybe",
        "=",
        "=5",
        "unknown=(1 2)",
        ",,",
    ] {
        let text = alloc::format!("mtp=500,{bad}");
        let expected = parsed("mtp=500");
        assert_eq!(parsed(&text), expected, "{bad}");
        assert!(expected.throughput.is_some());
    }
}

#[test]
fn unclosed_quote_invalidates_only_the_rest() {
    let said = parsed("br=5,sid=\"abc,bl=100");
    assert_eq!(said.bit_rate, Some(BitRate::from_kbps(5)));
    assert_eq!((said.session_id, said.buffer), (None, None));
}

#[test]
fn lengths_are_bounded() {
    let id = "é".repeat(64);
    assert_eq!(
        parsed(&alloc::format!("sid=\"{id}\"")).session_id,
        Some(id.clone())
    );
    assert_eq!(parsed(&alloc::format!("sid=\"{id}x\"")).session_id, None);
    let long = alloc::format!("br=5,x={}", "y".repeat(TEXT_BYTES_MAX));
    assert_eq!(parsed(&long), Cmcd::default());
}

#[test]
fn first_member_of_version_2_list_counts() {
    let said = parsed(
        "br=(5000;v 128;a),bl=( 2000 4000),nor=(\"a,b.m4s\" \"c.m4s\";r=\"0-1\"),st=ll,\
         nrr=\"0-99\";x=1,v=2",
    );
    assert_eq!(said.bit_rate, Some(BitRate::from_kbps(5000)));
    assert_eq!(said.buffer, Some(Duration::from_millis(2000)));
    assert_eq!(said.next_object.as_deref(), Some("a,b.m4s"));
    assert_eq!(said.next_range.as_deref(), Some("0-99"));
}

#[test]
fn implausible_rates_and_times_are_ignored() {
    let said = parsed("br=999999999999999,mtp=10000001,bl=86400001,dl=999999999999999");
    assert_eq!(said, Cmcd::default());
    let said = parsed("br=10000000,bl=86400000,dl=0");
    assert_eq!(said.bit_rate, Some(BitRate::from_kbps(10_000_000)));
    assert_eq!(said.buffer, Some(Duration::from_secs(86_400)));
    assert_eq!(said.deadline, Some(Duration::ZERO));
}

#[test]
fn flags_may_have_explicit_values() {
    assert!(parsed("su=true,bs=?1").startup);
    assert!(!parsed("su,su=false").startup);
    assert!(!parsed("bs=?0").starved);
}

#[test]
fn no_key_of_unknown_version_counts() {
    let read = |session: &str| {
        let fields = [
            ("CMCD-Session", session.as_bytes()),
            ("CMCD-Status", &b"bs,bl=100"[..]),
        ];
        Cmcd::read(fields, Some("CMCD=su,br%3D5"))
    };
    for known in ["v=1", "v=2", "v=x", "st=v"] {
        let said = read(&alloc::format!("sid=\"a\",{known}"));
        assert!(
            said.startup && said.starved && said.session_id.is_some(),
            "{known}"
        );
    }
    assert_eq!(read("v=3,sid=\"a\""), Cmcd::default());
    assert_eq!(Cmcd::read([], Some("CMCD=v%3D99%2Csu")), Cmcd::default());
}
