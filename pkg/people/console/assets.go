package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file that pages load. Its address changes with its content, so that browsers keep
// it for good.
type asset struct {
	address string // below /admin/assets/
	data    []byte
}

var assets = readAssets("style.css", "console.js", "htmx.js")

// squeeze takes the blanks out of our style that are there for its readers.
var squeeze = strings.NewReplacer("\n\n", "", ";\n  ", ";", ";\n}", "}", "{\n  ", "{", "}\n", "}", "; }", "}", " { ", "{", ": ", ":", "; ", ";", ", ", ",", " {\n  ", "{", " > ", ">", "@media (", "@media(")

// readAssets panics if a file cannot be read: it is a part of the program.
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
		out[name] = asset{strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext, data}
	}
	return out
}

// serveAsset answers with an asset. The address of another version is not found: browsers would
// keep this content under it.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for name, a := range assets {
		if a.address == r.PathValue("name") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(a.data))
			return
		}
	}
	http.NotFound(w, r)
}
