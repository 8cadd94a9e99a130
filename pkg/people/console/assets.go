package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file that pages load. Its address changes with its content, so browsers can cache
// it forever.
type asset struct {
	address string // below /admin/assets/
	data    []byte
	packed  func() []byte // data as gzip
}

var assets = readAssets("style.css", "console.js", "audit.js", "htmx.js")

// squeeze removes the white space in our style sheet that browsers do not need.
var squeeze = strings.NewReplacer("\n\n", "", ";\n  ", ";", ";\n}", "}", "{\n  ", "{", "}\n", "}", "; }", "}", " { ", "{", ": ", ":", "; ", ";", ", ", ",", " {\n  ", "{", " > ", ">", "@media (", "@media(")

// readAssets reads the named files. It panics if it cannot read one, because the files are embedded
// in the program.
func readAssets(names ...string) map[string]asset {
	out := map[string]asset{}
	for _, name := range names {
		data, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		ext := path.Ext(name)
		if ext == ".css" {
			data = []byte(squeeze.Replace(string(data)))
		}
		sum := sha256.Sum256(data)
		address := strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		out[name] = asset{address, data, sync.OnceValue(func() []byte { return packed(data) })}
	}
	return out
}

// serveAsset serves an asset. It answers 404 to the address of another version, because browsers
// would cache the wrong content under that address.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for name, a := range assets {
		if a.address == r.PathValue("name") {
			data, tag, h := a.data, a.address, w.Header()
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
			h.Set("Vary", "Accept-Encoding")
			if acceptsGzip(r) { // an asset has no secret
				data, tag = a.packed(), tag+".gz"
				h.Set("Content-Encoding", "gzip")
			}
			h.Set("ETag", `"`+tag+`"`)
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
			return
		}
	}
	http.NotFound(w, r)
}
