package search

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// built returns the bytes of an index of docs.
func built(docs []Doc) []byte { return Build(slices.Values(docs)) }

// builtWith works like built, but with the given table.
func builtWith(docs []Doc, table *embedding.Table, tableSum string) []byte {
	return build(slices.Values(docs), table, tableSum)
}

// oddDocs are tools whose texts are split in each possible way.
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

// TestBuildBytes compares the bytes of an index. If they change because searches change, increase
// the constant recipe in package catalog. The next sync then rebuilds catalogs of another recipe.
func TestBuildBytes(t *testing.T) {
	check := func(name, want string, docs []Doc) {
		t.Helper()
		sum := sha256.Sum256(built(docs))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the index of %s has SHA-256 %s, want %s", name, got, want)
		}
	}
	check("odd tools", "968140042e4d342fd1f7ea3660af55898ad6e771753100bef80812e696d98db1", oddDocs())
	check("real tools", "00f7e5d0ef975793e964f3f011bf3e2e19f984579252022a2c92e6d7ce778633", slices.Concat(oddDocs(), realDocs(t), oddDocs()))
}
