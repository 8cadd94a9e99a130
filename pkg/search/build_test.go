package search

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// oddDocs are tools whose texts are cut in each way that there is.
func oddDocs() []Doc {
	return []Doc{
		{},
		{Name: "getHTTPStatus", Server: "ec2Fleet", Description: "The status of the EC2Fleet, of EC2Fleet and of the fleet's statuses."},
		{Name: "検索する", Server: "日本", Description: "検索する tool 木 pdf文 파일목록 x木y"},
		{Name: "a_" + strings.Repeat("q", 100), Server: "é", Description: strings.Repeat("é", 40) + "B Éclair CaféBar ÀB İstanbul ǅ \xff\xfe half\xc3"},
		{
			Name: "the", Server: "of", Description: "is it to be, or not",
			Schema: json.RawMessage(`{"properties":{"b":{"description":"second","enum":["x",1,true,null]},"a":{"description":"AnURL first"},"a":true}}`),
			Words:  []string{"tie break", "Deserialisation"},
		},
		{Name: "dogs", Description: "dog dogs dogged Dog DOG unfindableword " + strings.Repeat("again once more dog ", 50)},
	}
}

// TestBuildBytes pins the bytes of an index. They change with what searches find, and then the recipe of
// the catalog grows: a catalog that another recipe has made is made anew by the next sync.
func TestBuildBytes(t *testing.T) {
	check := func(name, want string, docs []Doc) {
		t.Helper()
		sum := sha256.Sum256(Build(docs))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the index of %s has SHA-256 %s, want %s", name, got, want)
		}
	}
	check("odd tools", "d673be0135f2b3d37f0be487495dd279b673595854fb37161ddc1271f17097b4", oddDocs())
	check("real tools", "327aae619406724c4305bc5976b51350f3cd3dee8d1af0657c43fa8cf049f21e", slices.Concat(oddDocs(), realDocs(t), oddDocs()))
}
