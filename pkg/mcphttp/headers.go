package mcphttp

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// offered are the protocol versions that clients are told of, newest first. 2024-11-05 is not
// spoken: its HTTP transport is another one.
var offered = []string{mcp.VersionModern, mcp.VersionLegacy, mcp.Version20250618}

// silentVersion is the version that a request speaks which names none. It is spoken, so that
// such clients are served, and not offered: it has batches, which are refused.
const silentVersion = mcp.Version20250326

// checkMedia holds the request to JSON in and out. A browser sends other content
// types without asking first, so this too keeps pages of other sites out.
func checkMedia(h http.Header) *mcp.Error {
	media, _, err := mime.ParseMediaType(strings.Join(h.Values("Content-Type"), ", "))
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

// accepts reports whether the client takes media. No Accept header takes all.
func accepts(h http.Header, media string) bool {
	values := h.Values("Accept")
	if len(values) == 0 {
		return true
	}
	group, _, _ := strings.Cut(media, "/")
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case media, group + "/*", "*/*":
			return true
		}
	}
	return false
}

// version returns the protocol version that the request names; "" stands for one that names
// none, as a client does that has not negotiated yet, and for the version that this means.
func version(h http.Header) (string, *mcp.Error) {
	v, err := single(h, mcp.HeaderVersion)
	if err != nil || v == "" || v == silentVersion {
		return "", err
	}
	if !slices.Contains(offered, v) {
		data, _ := json.Marshal(sdk.UnsupportedProtocolVersionData{Supported: offered, Requested: v})
		return "", &mcp.Error{
			Code:    mcp.CodeVersion,
			Message: "unsupported protocol version",
			Data:    data,
			Status:  http.StatusBadRequest,
		}
	}
	return v, nil
}

// single returns the one value of a header on which a check depends. Two lines that
// differ would let one reader check the first and another act on the second.
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

// sdkHeader returns the headers for the SDK: those that it reads, and only in a form
// that it takes.
//
// It refuses an Accept header without SSE although it answers in JSON, and a
// Last-Event-ID, which some clients send with every request; and it compares Mcp-Name with the
// body without decoding it first.
func sdkHeader(h http.Header, version string) (http.Header, *mcp.Error) {
	out := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}
	if version != "" {
		out.Set(mcp.HeaderVersion, version)
	}
	method, err := single(h, mcp.HeaderMethod)
	if err != nil {
		return nil, err
	}
	name, err := single(h, mcp.HeaderName)
	if err != nil {
		return nil, err
	}
	name, ok := tool.DecodeHeader(name)
	if !ok {
		return nil, mismatch("header %s is not encoded as it must be", mcp.HeaderName)
	}
	if method != "" {
		out[mcp.HeaderMethod] = []string{method}
	}
	if name != "" {
		out[mcp.HeaderName] = []string{name}
	}
	return out, nil
}

// callerHeaders returns the headers that say something to the backend: those by which a
// request narrows its selection, and the arguments that it repeats as headers.
func callerHeaders(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		if canonical == "Prefer" || strings.HasPrefix(canonical, "X-Mcp-") || strings.HasPrefix(canonical, "Mcp-Param-") {
			out[canonical] = append(out[canonical], values...)
		}
	}
	return out
}
