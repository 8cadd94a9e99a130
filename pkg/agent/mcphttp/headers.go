package mcphttp

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// offered are the offered protocol versions, newest first.
var offered = mcp.Offered()

// silentVersion is the version of a request that names no version. The gateway supports this
// version for such requests. It does not offer the version, because its batches are refused.
const silentVersion = mcp.Version20250326

// checkMedia checks that the request is JSON and accepts JSON. A browser sends other content types
// without a preflight, so this check also stops pages of other sites.
func checkMedia(h http.Header) *mcp.Error {
	media := strings.Join(h.Values("Content-Type"), ", ")
	var err error
	if media != "application/json" { // most clients send exactly this text, which needs no parser
		media, _, err = mime.ParseMediaType(media)
	}
	if err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type must be application/json")
	}
	if e := h.Values("Content-Encoding"); len(e) > 0 && !strings.EqualFold(e[0], "identity") {
		return refuse(http.StatusUnsupportedMediaType, "content encodings are not supported")
	}
	if !accepts(h, "application/json") {
		return refuse(http.StatusNotAcceptable, "the answer is application/json")
	}
	return nil
}

// accepts reports whether the client accepts media. A missing Accept header accepts everything. If
// several ranges match, the most specific one counts (RFC 9110, section 12.5.1).
func accepts(h http.Header, media string) bool {
	values := h.Values("Accept")
	if len(values) == 0 {
		return true
	}
	group, _, _ := strings.Cut(media, "/")
	narrowest, isAccepted := -1, false
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, parameters, _ := strings.Cut(part, ";")
		width := slices.Index([]string{"*/*", group + "/*", media}, strings.ToLower(strings.TrimSpace(name)))
		if width > narrowest || width >= 0 && width == narrowest && !isAccepted {
			narrowest, isAccepted = width, !refuses(parameters)
		}
	}
	return isAccepted
}

// refuses reports whether the parameters of a range in Accept have the weight 0.
func refuses(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if weight := strings.TrimSpace(value); strings.EqualFold(strings.TrimSpace(name), "q") && weight != "" {
			return strings.Trim(weight, "0.") == ""
		}
	}
	return false
}

// version returns the protocol version of the request. It returns "" if the request names the
// default version, or if it names none because the client has not negotiated a version yet.
func version(h http.Header) (string, *mcp.Error) {
	v, err := single(h, mcp.HeaderVersion)
	if err != nil || v == "" || v == silentVersion {
		return "", err
	}
	if !slices.Contains(offered, v) {
		data, _ := json.Marshal(struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{offered, v})
		return "", &mcp.Error{
			Code:    mcp.CodeVersion,
			Message: "unsupported protocol version",
			Data:    data,
			Status:  http.StatusBadRequest,
		}
	}
	return v, nil
}

// single returns the only value of a header that a check depends on. If there are two different
// lines, single refuses them: one program could check the first, and another program could use the
// second.
func single(h http.Header, name string) (string, *mcp.Error) {
	values := h.Values(name)
	for _, v := range values {
		if v != values[0] {
			return "", mismatch("header %s is given twice", name)
		}
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[0], nil
}

func mismatch(format string, args ...any) *mcp.Error {
	return &mcp.Error{
		Code:    mcp.CodeHeaderMismatch,
		Message: fmt.Sprintf(format, args...),
		Status:  http.StatusBadRequest,
	}
}

// standardHeaders are the headers that repeat parts of the message.
type standardHeaders struct {
	version string // "": none, or the default version
	method  string
	name    string // decoded
}

func readHeaders(h http.Header) (out standardHeaders, err *mcp.Error) {
	if out.version, err = version(h); err != nil {
		return out, err
	}
	if out.method, err = single(h, mcp.HeaderMethod); err != nil {
		return out, err
	}
	if out.name, err = single(h, mcp.HeaderName); err != nil {
		return out, err
	}
	var ok bool
	if out.name, ok = tool.DecodeHeader(out.name); !ok {
		return out, mismatch("header %s is not encoded as it must be", mcp.HeaderName)
	}
	return out, nil
}

// callerHeaders returns the headers for the backend: headers that narrow the request's selection,
// and headers that repeat arguments.
func callerHeaders(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if name == "" || strings.IndexByte("PpXxMm", name[0]) < 0 {
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		if canonical == "Prefer" || strings.HasPrefix(canonical, "X-Mcp-") || strings.HasPrefix(canonical, "Mcp-Param-") {
			out[canonical] = append(out[canonical], values...)
		}
	}
	return out
}
