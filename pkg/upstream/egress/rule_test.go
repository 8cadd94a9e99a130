package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestRule(t *testing.T) {
	rule := Rule{Runtime: "169.254.100.1:9001"}
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"93.184.216.34", true}, {"1.1.1.1", true}, {"100.63.255.255", true}, {"100.128.0.0", true}, {"172.32.0.1", true},
		{"2606:4700::1111", true}, {"2a00::1", true},
		{"64:ff9b::5db8:d822", true},           // NAT64 of 93.184.216.34
		{"2002:5db8:d822::1", true},            // 6to4 of the same address
		{"0.0.0.0", false}, {"0.1.2.3", false}, // this network
		{"127.0.0.1", false}, {"127.9.9.9", false}, {"::1", false},
		{"10.0.0.1", false}, {"172.16.0.1", false}, {"172.31.255.255", false}, {"192.168.1.1", false}, {"fd00::1", false}, {"fc00::1", false},
		{"100.64.0.1", false}, {"100.100.100.200", false}, {"100.127.255.255", false}, // CGNAT
		{"169.254.169.254", false}, {"169.254.170.2", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fd00:ec2::254", false},
		{"224.0.0.1", false}, {"239.255.255.255", false}, {"ff02::1", false}, {"ff0e::1", false},
		{"240.0.0.1", false}, {"255.255.255.255", false}, {"::", false},
		{"192.0.0.1", false}, {"192.0.2.1", false}, {"192.88.99.1", false}, {"198.18.0.1", false}, {"198.51.100.1", false}, {"203.0.113.1", false},
		{"2001::1", false}, {"2001:db8::1", false}, {"3fff::1", false}, {"5f00::1", false}, {"fec0::1", false}, {"100::1", false},
		{"::ffff:127.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::ffff:169.254.169.254", false}, {"::ffff:93.184.216.34", true},
		{"::127.0.0.1", false}, {"::ffff:0:127.0.0.1", false},
		{"64:ff9b::7f00:1", false}, {"64:ff9b::a9fe:a9fe", false}, {"64:ff9b:1::5db8:d822", false},
		{"2002:7f00:1::1", false}, {"2002:a9fe:a9fe::1", false}, {"2002:a00:1::1", false},
		{"2606:4700::5efe:10.0.0.1", false}, {"2606:4700::200:5efe:127.0.0.1", false}, // ISATAP
	} {
		err := rule.Check("https", netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443))
		if (err == nil) != tt.ok {
			t.Errorf("check(%s) = %v, want ok %t", tt.addr, err, tt.ok)
		}
		if _, typed := errors.AsType[*BlockedError](err); err != nil && !typed {
			t.Errorf("check(%s) = %T, want a *BlockedError", tt.addr, err)
		}
	}
	if rule.Check("http", netip.MustParseAddrPort("93.184.216.34:80")) == nil {
		t.Error("check allows http to a public address")
	}
	if rule.Check("https", netip.AddrPort{}) == nil {
		t.Error("check allows the zero address")
	}
}

func TestRuleAllow(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, tt := range []struct {
		runtime, addr string
		ok            bool
	}{
		{"127.0.0.1:9001", "10.1.2.3:80", true},
		{"127.0.0.1:9001", "127.0.0.1:8080", true},
		{"127.0.0.1:9001", "[fd12::1]:80", true},
		{"127.0.0.1:9001", "127.0.0.1:9001", false},
		{"127.0.0.1:9001", "127.0.0.2:9001", false},
		{"127.0.0.1:9001", "[::1]:9001", false},
		{"127.0.0.1:9001", "0.0.0.0:9001", false},
		{"127.0.0.1:9001", "[::ffff:127.0.0.1]:9001", false},
		{"127.0.0.1:9001", "[64:ff9b::7f00:1]:9001", false},
		{"10.9.9.9:9001", "10.9.9.9:9001", false},
		{"10.9.9.9:9001", "10.9.9.8:9001", true},
		{"runtime.internal:9001", "10.9.9.8:9001", false},
		{"runtime.internal:9001", "93.184.216.34:9001", true},
		{"", "127.0.0.1:9001", true},
		{"127.0.0.1:9001", "169.254.169.254:80", false},
		{"127.0.0.1:9001", "[::ffff:169.254.169.254]:80", false},
		{"127.0.0.1:9001", "[fe80::1]:80", false},
		{"127.0.0.1:9001", "[fd00:ec2::254]:80", false},
		{"127.0.0.1:9001", "[ff02::1]:80", false},
		{"127.0.0.1:9001", "[64:ff9b::a9fe:a9fe]:80", false},
		{"127.0.0.1:9001", "[64:ff9b:1::a9fe:a9fe]:80", false},
		{"127.0.0.1:9001", "[2002:a9fe:a9fe::]:80", false},
		{"127.0.0.1:9001", "[::ffff:0:a9fe:a9fe]:80", false},
	} {
		rule := Rule{everything, tt.runtime}
		for _, scheme := range []string{"http", "https"} {
			if err := rule.Check(scheme, netip.MustParseAddrPort(tt.addr)); (err == nil) != tt.ok {
				t.Errorf("runtime %q: check(%s, %s) = %v, want ok %t", tt.runtime, scheme, tt.addr, err, tt.ok)
			}
		}
	}
}

func TestParseNets(t *testing.T) {
	nets, err := ParseNets(" 10.0.0.0/8, fd00::/8 ,127.0.0.1,::1,")
	if err != nil || len(nets) != 4 || nets[2].String() != "127.0.0.1/32" || nets[3].String() != "::1/128" {
		t.Errorf("ParseNets = %v, %v", nets, err)
	}
	if nets, err := ParseNets(""); err != nil || len(nets) != 0 {
		t.Errorf("ParseNets of nothing = %v, %v", nets, err)
	}
	_, err = ParseNets("10.0.0.1/8,everything,169.254.0.0/16,fe80::/10,::ffff:10.0.0.0/104,10.0.0.0/33,fe80::1%eth0")
	if err == nil {
		t.Fatal("ParseNets accepts faulty networks")
	}
	for _, want := range []string{"did you mean 10.0.0.0/8", `"everything"`, `"169.254.0.0/16" is link-local`, `"fe80::/10" is link-local`,
		"write it as IPv4", `"10.0.0.0/33"`, `"fe80::1%eth0"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("ParseNets does not say %s: %v", want, err)
		}
	}
}

func FuzzParseNets(f *testing.F) {
	for _, s := range []string{"", "10.0.0.0/8", "::1", "0.0.0.0/0,::/0", "1.2.3.4/-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nets, err := ParseNets(s)
		if err != nil && nets != nil {
			t.Errorf("ParseNets(%q) = %v with error %v", s, nets, err)
		}
		for _, p := range nets {
			if !p.IsValid() || p != p.Masked() {
				t.Errorf("ParseNets(%q) has %v", s, p)
			}
		}
		// No allow list permits the address that serves the machine's credentials.
		if (Rule{Allow: nets}).Check("https", netip.MustParseAddrPort("169.254.169.254:80")) == nil {
			t.Errorf("ParseNets(%q) allows a link-local address", s)
		}
	})
}
