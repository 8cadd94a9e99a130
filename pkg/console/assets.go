package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// assetNames has the address of each asset below /admin/assets/, which changes with its content:
// browsers keep it for good.
var assetNames = nameAssets()

// nameAssets panics if a file cannot be read: it is a part of the program.
func nameAssets() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"style.css", "console.js", "htmx.js"} {
		data, err := fs.ReadFile(assetFiles, "assets/"+name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		out[name] = strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
	}
	return out
}

// serveAsset answers with an asset as it is built into the program. An address of another version
// is not found: its content would be kept under a name that belongs to other content.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for name, address := range assetNames {
		if address == r.PathValue("name") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			http.ServeFileFS(w, r, assetFiles, "assets/"+name)
			return
		}
	}
	http.NotFound(w, r)
}
